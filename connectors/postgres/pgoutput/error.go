package pgoutput

import (
	"errors"
	"fmt"
)

// DecodeError says that input is not a well-formed message. It never contains
// column values.
type DecodeError struct {
	Kind   Kind   // what was being decoded; 0 if the input was empty
	Offset int    // in bytes from the kind byte: where Field begins
	Field  string // what was being read
	Reason string // what is wrong with it or missing of it
}

// Error returns one sentence with kind, offset, field and reason.
func (e *DecodeError) Error() string {
	what := "message"
	if e.Kind != 0 {
		what = e.Kind.String()
	}
	return fmt.Sprintf("decode pgoutput %s at byte %d: %s: %s", what, e.Offset, e.Field, e.Reason)
}

// IsDecodeError reports whether err is or wraps a [DecodeError].
func IsDecodeError(err error) bool {
	var e *DecodeError
	return errors.As(err, &e)
}

// UnexpectedKindError says that the server sent a message of a later protocol
// version. A server asked for version 1 never does, so whoever started the
// replication asked for more.
type UnexpectedKindError struct {
	Kind Kind
}

// Error names the kind and the cause.
func (e *UnexpectedKindError) Error() string {
	return fmt.Sprintf("unexpected message kind %q (%s): the server sends it only with a proto_version above '1'",
		byte(e.Kind), e.Kind)
}

// IsUnexpectedKind reports whether err is or wraps an [UnexpectedKindError].
func IsUnexpectedKind(err error) bool {
	var e *UnexpectedKindError
	return errors.As(err, &e)
}
