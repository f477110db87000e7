package connectors

import "errors"

// Class says what an error means for the pipeline; it is the one place where 'terminal or retry' is decided.
type Class int

// The classes. An error without a class is ClassWait: it may pass.
const (
	ClassWait    Class = iota // database, Kafka or registry away, permission missing: wait and try again
	ClassBlock                // would fail again on the same bytes: nothing of its transaction is published or acknowledged
	ClassRefused              // configuration or start-up reconciliation: an operator must decide
	ClassFenced               // another worker has taken over
)

// String returns the class's name.
func (c Class) String() string {
	return [...]string{"wait", "block", "refused", "fenced"}[c]
}

type classed struct {
	class Class
	err   error
}

func (e *classed) Error() string { return e.err.Error() }
func (e *classed) Unwrap() error { return e.err }

// WithClass marks err; nil stays nil. The outermost class wins.
func WithClass(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &classed{class: class, err: err}
}

// Block marks an error that would recur on the same bytes.
func Block(err error) error { return WithClass(ClassBlock, err) }

// Refuse marks an error an operator must decide on before a start is tried again.
func Refuse(err error) error { return WithClass(ClassRefused, err) }

// ClassOf returns the class of err.
func ClassOf(err error) Class {
	var c *classed
	if errors.As(err, &c) {
		return c.class
	}
	return ClassWait
}
