//go:build linux || darwin

package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Swept is what was done about a run that had been killed.
type Swept struct {
	Path    string
	Stopped []Process
}

// Sweep stops and removes what killed runs below runs left behind. before is called for each of them
// once its processes are stopped and before its directory is removed, which its error prevents; it may be
// nil. Runs that are alive are left alone.
func Sweep(runs string, before func(path string) error) ([]Swept, error) {
	guard, err := flock(filepath.Join(runs, lockName), true)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the demo's folder: %w", err)
	}
	defer guard.Close()
	entries, err := os.ReadDir(runs)
	if err != nil {
		return nil, fmt.Errorf("look for earlier runs: %w", err)
	}
	var out []Swept
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		s, err := sweepOne(filepath.Join(runs, e.Name()), before)
		if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) { // alive, or just removed by its owner
			continue
		}
		out, errs = append(out, s), append(errs, err)
	}
	return out, errors.Join(errs...)
}

// SweepRun stops and removes one run if it is dead; it waits for its lock at most for the given time.
func SweepRun(path string, limit time.Duration, before func(path string) error) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if _, err := sweepOne(path, before); !errors.Is(err, errLocked) || time.Now().After(end) {
			return err
		}
	}
}

func sweepOne(path string, before func(path string) error) (Swept, error) {
	s := Swept{Path: path}
	lock, err := flock(filepath.Join(path, lockName), false)
	if err != nil {
		return s, err
	}
	d := &Dir{Path: path, lock: lock}
	s.Stopped, err = StopAll(path)
	if err != nil {
		return s, errors.Join(fmt.Errorf("stop what an earlier run left in %s: %w", path, err), lock.Close())
	}
	if before != nil {
		if err := before(path); err != nil {
			return s, errors.Join(err, lock.Close())
		}
	}
	return s, d.Remove()
}

// StopAll stops every process of a run: those it recorded, and those
// whose command line names the directory. It returns what it found alive.
func StopAll(path string) ([]Process, error) {
	var errs []error
	var stopped []Process
	// A parent that is stopped late could still have started a child: look again until nothing is left.
	for range 3 {
		found := living(path)
		if len(found) == 0 {
			break
		}
		for _, p := range found {
			p.Signal(stopSignal(p))
		}
		for _, p := range found {
			stopped = append(stopped, p)
			if !p.Wait(2 * time.Second) {
				errs = append(errs, p.Stop(time.Second, syscall.SIGQUIT))
			}
		}
	}
	return stopped, errors.Join(errs...)
}

// stopSignal is what ends a process soon and leaves nothing behind: a postmaster that is killed outright
// leaves its children and its shared memory.
func stopSignal(p Process) syscall.Signal {
	if p.Name == "postgres" {
		return syscall.SIGINT
	}
	return syscall.SIGKILL
}

func living(path string) []Process {
	seen := map[int]bool{os.Getpid(): true}
	var out []Process
	candidates := append(recorded(filepath.Join(path, recordsName)), within(path)...)
	for _, p := range candidates {
		if !seen[p.PID] && p.Alive() {
			seen[p.PID] = true
			out = append(out, p)
		}
	}
	return out
}

// PostmasterPID reads the pid from the pid file of a PostgreSQL data directory.
func PostmasterPID(data string) (int, error) {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("read the pid of PostgreSQL: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("read the pid of PostgreSQL: %q is none", line)
	}
	return pid, nil
}
