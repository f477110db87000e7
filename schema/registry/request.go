package registry

import (
	"context"
	"errors"
	"fmt"
)

// cancelledError says that the caller's own context ended a request: nothing is
// known of the registry.
type cancelledError struct {
	what  string
	cause error
}

func (e *cancelledError) Error() string { return fmt.Sprintf("%s: %v", e.what, e.cause) }

func (e *cancelledError) Unwrap() error { return e.cause }

func asCancelled(err error, target **cancelledError) bool { return errors.As(err, target) }

// do sends one request to the endpoints in turn until one is able to answer.
// Its error is an *Error or a *cancelledError.
func (c *Client) do(ctx context.Context, what, method, path string, in, out any) error {
	first := int(c.preferred.Load())
	var last *Error
	for i := range c.endpoints {
		n := (first + i) % len(c.endpoints)
		at := c.endpoints[n]
		err := c.send(ctx, at, method, path, in, out)
		if ctx.Err() != nil && err != nil {
			return &cancelledError{what: what, cause: ctx.Err()}
		}
		if err == nil {
			c.preferred.Store(int32(n))
			return nil
		}
		if last = classify(err, at, what, c.timeout); last.kind != kindUnavailable {
			c.preferred.Store(int32(n))
			return last
		}
	}
	return last
}

func (c *Client) send(ctx context.Context, at endpoint, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return at.sr.Do(ctx, method, path, in, out)
}
