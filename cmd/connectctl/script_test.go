package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// secret is in every password, token and login the scripts use; no output may ever hold it.
const secret = "Tq7-hush"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"connectctl": func() { os.Exit(mainExit()) }})
}

// TestScripts runs the command line as a user does: what each mistake is answered with, and the exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SECRET", secret)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "signalled": signalled, "lines": lines},
	})
}

// exits runs connectctl and compares its exit code: exits CODE ARG...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARG...")
	}
	err := ts.Exec("connectctl", args[1:]...)
	fit(ts, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	if got := code(ts, err); strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func code(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	ts.Fatalf("run connectctl: %v", err)
	return -1
}

// fit holds for every output there is: no secrets, no stack trace.
func fit(ts *testscript.TestScript, outputs ...string) {
	for _, out := range outputs {
		for _, bad := range []string{secret, "panic:", "goroutine ", "runtime error", "%!", "<nil>", ".go:"} {
			if strings.Contains(out, bad) {
				ts.Fatalf("the output holds %q:\n%s", bad, out)
			}
		}
	}
}

// lines counts the lines of the last standard error: a mistake gets one sentence on one line.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines stdout|stderr COUNT")
	}
	if got := strings.Count(ts.ReadFile(args[0]), "\n"); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%d lines, want %s:\n%s", got, args[1], ts.ReadFile(args[0]))
	}
}

// signalled starts connectctl, waits until its standard error holds a text, sends it a signal and
// compares the exit code: signalled INT CODE TEXT ARG...
func signalled(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}
	if neg || len(args) < 4 || signals[args[0]] == nil {
		ts.Fatalf("usage: signalled INT|TERM|HUP CODE TEXT ARG...")
	}
	log := ts.MkAbs("signalled.log")
	file, err := os.Create(log)
	ts.Check(err)
	defer func() { _ = file.Close() }()
	program, err := exec.LookPath("connectctl")
	ts.Check(err)
	cmd := exec.Command(program, args[3:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), file, file
	cmd.Env = append(os.Environ(), "SECRET="+secret)
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(ts.ReadFile(log), args[2]); {
		select {
		case <-ended:
			ts.Fatalf("ended before it wrote %q:\n%s", args[2], ts.ReadFile(log))
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			<-ended
			ts.Fatalf("did not write %q:\n%s", args[2], ts.ReadFile(log))
		}
	}
	ts.Check(cmd.Process.Signal(signals[args[0]]))
	err = <-ended
	fit(ts, ts.ReadFile(log))
	if got := code(ts, err); strconv.Itoa(got) != args[1] {
		ts.Fatalf("exit code %d, want %s:\n%s", got, args[1], ts.ReadFile(log))
	}
}
