//go:build linux || darwin

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/watch"
)

// ErrNotProven is returned when the judge found something lost, repeated or out of order.
var ErrNotProven = errors.New("the stream does not match the database's log")

// Run runs the demo. Whatever it started is stopped and removed when it returns, also after a panic.
// An ended ctx gives an error that is context.Canceled.
func Run(ctx context.Context, opt Options) (err error) {
	// Folders that PostgreSQL's unprivileged user passes through must not depend on the caller's mask; what is
	// secret has a mode of its own.
	defer syscall.Umask(syscall.Umask(0o022))
	out := opt.Out
	if opt.JSON {
		out = opt.Err
	}
	s := &session{opt: opt, screen: watch.NewScreen(out, opt.Terminal && !opt.JSON, opt.Width)}
	defer func() {
		broken := recover()
		s.screen.Status("")
		if broken != nil {
			err = brokenDown(broken)
		}
		closeErr := s.close()
		switch {
		case closeErr == nil && ctx.Err() != nil:
			s.screen.Plain("stopped; everything it started and made is gone")
		case closeErr != nil && ctx.Err() == nil:
			err = errors.Join(err, fmt.Errorf("clean up: %w", closeErr))
		}
	}()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now()
	if err := s.open(inner); err != nil {
		return firstCause(ctx, inner, err)
	}
	p := &play{session: s, cancel: cancel, begin: begin}
	defer p.wait()
	result, err := p.play(inner)
	if err != nil {
		return firstCause(ctx, inner, err)
	}
	if err := s.report(result, p); err != nil {
		return err
	}
	if opt.Keep {
		s.keep(ctx)
		return ctx.Err()
	}
	return verdict(result)
}

// brokenDown is the sentence for a panic; its trace goes nowhere but into the message's cause.
func brokenDown(v any) error { return &panicError{value: v, stack: debug.Stack()} }

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the demo broke down: %v; this is a bug, please report it", e.value)
}

// firstCause finds what ended a run: a signal, else what cancelled it, else the error itself.
func firstCause(outer, inner context.Context, err error) error {
	if outer.Err() != nil {
		return outer.Err()
	}
	if cause := context.Cause(inner); cause != nil {
		return cause
	}
	return err
}

func verdict(r Result) error {
	if r.Lost != 0 || r.Duplicated != 0 || r.OrderViolations != 0 || !r.hotRowRight() || !r.acknowledgedInTime() {
		return ErrNotProven
	}
	return nil
}

func (s *session) report(r Result, p *play) error {
	if s.opt.JSON {
		b, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.opt.Out, "%s\n", b)
		return err
	}
	for _, line := range p.words(r) {
		s.screen.Plain(line)
	}
	return nil
}

// keep waits for a signal with everything running.
func (s *session) keep(ctx context.Context) {
	for _, line := range s.howToConnect() {
		s.screen.Plain(line)
	}
	<-ctx.Done()
}
