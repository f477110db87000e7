//go:build linux || darwin

package rundir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a process of a run, told apart from a later one with the same pid by its start time.
type Process struct {
	PID   int
	Start string // as the system tells it; never empty
	Name  string
}

// Identify looks a running process up.
func Identify(pid int, name string) (Process, error) {
	start, err := startTime(pid)
	if err != nil {
		return Process{}, fmt.Errorf("identify process %d (%s): %w", pid, name, err)
	}
	return Process{PID: pid, Start: start, Name: name}, nil
}

// Alive reports whether this very process still runs; a zombie does not.
func (p Process) Alive() bool {
	start, err := startTime(p.PID)
	return err == nil && start == p.Start
}

// Signal sends sig if this very process still runs.
func (p Process) Signal(sig syscall.Signal) {
	if p.Alive() {
		_ = syscall.Kill(p.PID, sig) // gone in between: that is what was wanted
	}
}

// Wait waits until the process is gone, at most for the given time, and reports whether it is.
func (p Process) Wait(limit time.Duration) bool {
	for end := time.Now().Add(limit); p.Alive(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Stop asks with the first signal, insists with the next ones, gives each its time, and ends with SIGKILL.
func (p Process) Stop(each time.Duration, signals ...syscall.Signal) error {
	for _, sig := range append(signals, syscall.SIGKILL) {
		p.Signal(sig)
		if p.Wait(each) {
			return nil
		}
	}
	return fmt.Errorf("process %d (%s) does not end", p.PID, p.Name)
}

// Record writes a process down, so that a later run can stop it if this one cannot.
func (d *Dir) Record(p Process) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.OpenFile(d.Join(recordsName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) //nolint:gosec // the folder is the caller's choice
	if err != nil {
		return fmt.Errorf("record process %d: %w", p.PID, err)
	}
	_, err = fmt.Fprintf(f, "%d\t%s\t%s\n", p.PID, p.Start, p.Name)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("record process %d: %w", p.PID, err)
	}
	return nil
}

// recorded reads the records of a run; a line cut off by a crash is ignored.
func recorded(path string) []Process {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []Process
	for s := bufio.NewScanner(f); s.Scan(); {
		part := strings.Split(s.Text(), "\t")
		if len(part) != 3 {
			continue
		}
		if pid, err := strconv.Atoi(part[0]); err == nil && pid > 1 && part[1] != "" {
			out = append(out, Process{PID: pid, Start: part[1], Name: part[2]})
		}
	}
	return out
}
