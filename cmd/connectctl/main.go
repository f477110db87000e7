// Command connectctl runs, checks and looks at Tidemark connectors.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// version is set by the linker.
var version = "dev"

// Exit codes, documented in docs/connectctl.md.
const (
	exitOK        = 0
	exitFailure   = 1 // a check found a violation, or an operation did not succeed
	exitUsage     = 2 // flag, argument or configuration
	exitBlocked   = 3 // a transaction that would fail again on the same bytes
	exitFenced    = 4 // another worker has taken over
	exitRefused   = 5 // start-up reconciliation: an operator must decide
	exitHangup    = 128 + int(syscall.SIGHUP)
	exitInterrupt = 128 + int(syscall.SIGINT)
	exitTerminate = 128 + int(syscall.SIGTERM)
)

// exitError carries the exit code of a command beside its sentence.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError is a bad flag, argument or configuration.
func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// classError turns a pipeline's error into its exit code.
func classError(err error) error {
	code := exitFailure
	switch connectors.ClassOf(err) {
	case connectors.ClassBlock:
		code = exitBlocked
	case connectors.ClassFenced:
		code = exitFenced
	case connectors.ClassRefused:
		code = exitRefused
	case connectors.ClassWait:
	}
	return &exitError{code, err}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "connectctl",
		Short:         "Deploy, run and check Tidemark change data capture",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(profiled(newRunCommand()), newValidateCommand(), newTailCommand(), newVerifyCommand(),
		newOffsetsCommand(), newDescribeCommand(), newTablesCommand(), newSnapshotCommand(), newDedupViewCommand(), newDemoCommand(), newVersionCommand())
	return root
}

// noSuchCommand refuses what is no command of cmd, and names the nearest one.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + cmd.CommandPath() + " --help"
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= 2; cmd.SuggestionsMinimumDistance++ {
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
			break
		}
	}
	return usageError("%q is no command of %s; %s", args[0], cmd.CommandPath(), hint)
}

// exactly checks the argument count with a sentence instead of cobra's.
func exactly(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError("%s takes %s; see %s --help", cmd.CommandPath(), names, cmd.CommandPath())
		}
		return nil
	}
}

func atLeast(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usageError("%s takes %s; see %s --help", cmd.CommandPath(), names, cmd.CommandPath())
		}
		return nil
	}
}

// doubleSignal is how long after the first signal another one is taken for its echo.
const doubleSignal = 500 * time.Millisecond

func main() { os.Exit(mainExit()) }

func mainExit() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		cancel(&signalError{(<-signals).(syscall.Signal)})
		for first := time.Now(); ; { // the second one does not wait, but timeout(1) and its like send the first one twice
			if <-signals; time.Since(first) > doubleSignal {
				os.Exit(exitFailure)
			}
		}
	}()
	root := newRoot()
	err := root.ExecuteContext(ctx)
	return report(ctx, err)
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "stopped by " + e.signal.String() }

// report prints the one sentence of an error and returns the exit code.
func report(ctx context.Context, err error) int {
	var sig *signalError
	stopped := errors.As(context.Cause(ctx), &sig)
	if err == nil {
		return exitOK
	}
	if stopped && errors.Is(err, context.Canceled) {
		return 128 + int(sig.signal)
	}
	fmt.Fprintf(os.Stderr, "connectctl: %v\n", err)
	var ee *exitError
	switch {
	case errors.As(err, &ee):
		return ee.code
	case isCobraUsage(err):
		return exitUsage
	}
	return exitFailure
}

// isCobraUsage recognises cobra's own usage errors, which have no type.
func isCobraUsage(err error) bool {
	var prefixes = []string{"unknown command", "unknown flag", "unknown shorthand", "flag needs", "invalid argument", "required flag"}
	for _, p := range prefixes {
		if len(err.Error()) >= len(p) && err.Error()[:len(p)] == p {
			return true
		}
	}
	return false
}
