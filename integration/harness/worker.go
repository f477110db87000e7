package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// State is a state line of a worker's log.
type State struct {
	Name, Reason string
	At           time.Time
}

// Worker is a running or ended connectctl run.
type Worker struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait, after done
	out  strings.Builder

	mu     sync.Mutex
	lines  []string
	states []State
}

// startWorker starts a worker; it is killed when the test ends.
func startWorker(t testing.TB, binary string, args ...string) *Worker {
	t.Helper()
	w := &Worker{t: t, done: make(chan struct{})}
	w.cmd = exec.Command(binary, append([]string{"run", "--log-format", "json"}, args...)...)
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.cmd.Env = os.Environ()
	w.cmd.Stdout = &w.out
	stderr, err := w.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		in := bufio.NewScanner(stderr)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			w.line(in.Text())
		}
		w.err = w.cmd.Wait()
		close(w.done)
	}()
	t.Cleanup(func() {
		w.Kill()
		if t.Failed() {
			t.Logf("worker %d ended with code %d; its log:\n  %s", w.cmd.Process.Pid, w.code(), strings.Join(w.Log(40), "\n  "))
		}
	})
	return w
}

func (w *Worker) line(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, text)
	var l struct{ Msg, State, Reason string }
	if json.Unmarshal([]byte(text), &l) == nil && l.Msg == "state" {
		w.states = append(w.states, State{l.State, l.Reason, time.Now()})
	}
}

// Stdout is what the worker printed, once it has ended.
func (w *Worker) Stdout() string {
	<-w.done
	return w.out.String()
}

// Log returns the last lines of the worker's standard error.
func (w *Worker) Log(n int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.lines[max(0, len(w.lines)-n):]...)
}

// State is the newest state.
func (w *Worker) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.states) == 0 {
		return State{}
	}
	return w.states[len(w.states)-1]
}

// Saw tells whether a state was reported whose name is one and whose reason contains a text.
func (w *Worker) Saw(name, reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.states {
		if s.Name == name && strings.Contains(s.Reason, reason) {
			return true
		}
	}
	return false
}

// WaitState waits for a state whose reason contains a text; the worker must not end before.
func (w *Worker) WaitState(name, reason string, within time.Duration) {
	w.t.Helper()
	if !Eventually(within, func() bool { return w.Saw(name, reason) || w.Ended() }) || !w.Saw(name, reason) {
		w.t.Fatalf("worker did not reach %s %q within %s; ended: %v (code %d); log:\n  %s", name, reason, within, w.Ended(), w.code(), strings.Join(w.Log(20), "\n  "))
	}
}

// WaitRunning waits until the worker streams.
func (w *Worker) WaitRunning() {
	w.t.Helper()
	w.WaitState("RUNNING", "", 60*time.Second)
}

// Ended tells whether the process is gone.
func (w *Worker) Ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *Worker) code() int {
	if !w.Ended() {
		return -2
	}
	var exit *exec.ExitError
	if errors.As(w.err, &exit) {
		return exit.ExitCode() // -1: by a signal
	}
	return 0
}

// Wait waits for the end and returns the exit code, -1 where a signal ended it.
func (w *Worker) Wait(within time.Duration) int {
	w.t.Helper()
	select {
	case <-w.done:
	case <-time.After(within):
		w.t.Fatalf("worker still runs after %s, in state %v; log:\n  %s", within, w.State(), strings.Join(w.Log(20), "\n  "))
	}
	return w.code()
}

// Kill kills the worker with SIGKILL and waits for its end.
func (w *Worker) Kill() {
	if !w.Ended() {
		_ = w.cmd.Process.Kill()
		<-w.done
	}
}

// Signal sends a signal.
func (w *Worker) Signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// Stop ends the worker in order; its code must be that of SIGTERM.
func (w *Worker) Stop() {
	w.t.Helper()
	w.Signal(syscall.SIGTERM)
	if code := w.Wait(30 * time.Second); code != 128+int(syscall.SIGTERM) {
		w.t.Fatalf("stopped worker ended with code %d, want 143; log:\n  %s", code, strings.Join(w.Log(20), "\n  "))
	}
}

// Message is the sentence a worker ended with.
func (w *Worker) Message() string {
	for _, l := range w.Log(1000) {
		if m, ok := strings.CutPrefix(l, "connectctl: "); ok {
			return m
		}
	}
	return ""
}

// RSS is the resident memory in bytes now.
func (w *Worker) RSS() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", w.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
