package chaos

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// scope is a testing.TB outside of a test, for the servers' and the harness's functions: what they register is undone by end,
// and what they cannot go on without ends the caller with a broken.
type scope struct {
	testing.TB // never called: whatever is not below would panic
	ctx        context.Context
	say        func(string)
	cleanups   []func()
	failed     bool
}

// broken is the panic of a scope that cannot go on.
type broken string

func newScope(ctx context.Context, say func(string)) *scope { return &scope{ctx: ctx, say: say} }

func (s *scope) Helper()                         {}
func (s *scope) Context() context.Context        { return s.ctx }
func (s *scope) Cleanup(f func())                { s.cleanups = append(s.cleanups, f) }
func (s *scope) Failed() bool                    { return s.failed }
func (s *scope) Log(args ...any)                 { s.say(fmt.Sprint(args...)) }
func (s *scope) Logf(format string, args ...any) { s.say(fmt.Sprintf(format, args...)) }
func (s *scope) Error(args ...any)               { s.failed = true; s.say(fmt.Sprint(args...)) }
func (s *scope) Errorf(format string, args ...any) {
	s.failed = true
	s.say(fmt.Sprintf(format, args...))
}
func (s *scope) Fatal(args ...any) { s.failed = true; panic(broken(fmt.Sprint(args...))) }
func (s *scope) Fatalf(format string, args ...any) {
	s.failed = true
	panic(broken(fmt.Sprintf(format, args...)))
}

func (s *scope) TempDir() string {
	dir, err := os.MkdirTemp("", "tidemark-chaos-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// end undoes everything, the newest first.
func (s *scope) end() {
	for len(s.cleanups) > 0 {
		f := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		f()
	}
}
