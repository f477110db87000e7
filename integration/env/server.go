package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// portTakenExit is the exit code of a script whose server found its port taken (lib.sh).
const portTakenExit = 98

var (
	errPortTaken = errors.New("port taken at bind")
	errShared    = errors.New("this server is shared by the whole run and not stopped by a test: take a private one")
)

// server is one running server; the fields that are exported are its state in the run's folder.
type server struct {
	Dir   string // its data, log and sockets
	Ports []int  // in the order of the script's variables

	env     *Env
	kind    kind
	vars    []string // further variables of the script
	private bool
}

// kind is a script and the variables that name its ports.
type kind struct {
	script string
	ports  []string
}

// script runs a script of the run with variables added to this process's; its error carries what it said.
func (e *Env) script(ctx context.Context, name string, vars []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", append([]string{filepath.Join(e.dir, "scripts", name)}, args...)...)
	cmd.Env = append(os.Environ(), vars...)
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return strings.TrimSpace(out.String()), nil
	case errors.As(err, &exit) && exit.ExitCode() == portTakenExit:
		return "", fmt.Errorf("%s: %w", name, errPortTaken)
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w", name, ctx.Err())
	default:
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(said.String()))
	}
}

// start starts s. A server without ports gets free ones, and others when one of them was taken before it could bind it.
func (s *server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if s.Ports != nil { // its address is known to others: it stays
		return s.run(ctx, "start")
	}
	for range 10 {
		if err := s.choosePorts(); err != nil {
			return err
		}
		err := s.run(ctx, "start")
		if !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return fmt.Errorf("%s: ten choices of free ports were taken at bind", s.kind.script)
}

func (s *server) choosePorts() error {
	s.Ports = nil
	for seen := map[int]bool{}; len(s.Ports) < len(s.kind.ports); {
		p, err := s.env.ports()
		if err != nil {
			return err
		}
		if !seen[p] {
			seen[p] = true
			s.Ports = append(s.Ports, p)
		}
	}
	return nil
}

func (s *server) run(ctx context.Context, args ...string) error {
	vars := append([]string{"DIR=" + s.Dir, "EXTRA="}, s.vars...)
	for i, name := range s.kind.ports {
		if i < len(s.Ports) {
			vars = append(vars, name+"="+strconv.Itoa(s.Ports[i]))
		}
	}
	_, err := s.env.script(ctx, s.kind.script, vars, args...)
	return err
}

func (s *server) addr(i int) string { return host + ":" + strconv.Itoa(s.Ports[i]) }

// Log is the path of the server's log.
func (s *server) Log() string { return filepath.Join(s.Dir, "log") }

// Start starts a private server again, at the same address.
func (s *server) Start(ctx context.Context) error {
	if !s.private {
		return errShared
	}
	return s.start(ctx)
}

func (s *server) stop(ctx context.Context, args ...string) error {
	if !s.private {
		return errShared
	}
	return s.run(ctx, append([]string{"stop"}, args...)...)
}

// kill sends SIGKILL to the process whose id is in pidFile and to its children, and waits until all are gone.
func (s *server) kill(ctx context.Context, pidFile string) error {
	if !s.private {
		return errShared
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, pidFile))
	if err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 {
		return fmt.Errorf("kill: no process id in %s", pidFile)
	}
	all := append([]int{pid}, childrenOf(pid)...)
	for _, p := range all {
		if err := syscall.Kill(p, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill %d: %w", p, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return waitFor(ctx, "the killed processes' end", func() bool {
		for _, p := range all {
			if ppid, state := process(p); ppid >= 0 && state != 'Z' {
				return false
			}
		}
		return true
	})
}

func childrenOf(pid int) (children []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if p, err := strconv.Atoi(e.Name()); err == nil {
			if ppid, _ := process(p); ppid == pid {
				children = append(children, p)
			}
		}
	}
	return children
}

// process returns a process's parent and state from /proc/PID/stat (proc_pid_stat(5)); -1 when it is gone.
func process(pid int) (ppid int, state byte) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return -1, 0
	}
	rest := string(b[bytes.LastIndexByte(b, ')')+1:]) // the name in parentheses may hold anything
	if _, err := fmt.Sscanf(rest, " %c %d", &state, &ppid); err != nil {
		return -1, 0
	}
	return ppid, state
}

// newServer describes a server of the run that is not started.
func (e *Env) newServer(name string, k kind, private bool, vars ...string) server {
	if private {
		name = Unique(name + "-")
	}
	return server{Dir: filepath.Join(e.dir, name), env: e, kind: k, vars: vars, private: private}
}

// startPrivate starts s for one test and stops it, without care, when the test ends.
func (s *server) startPrivate(t testing.TB, stop func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := stop(ctx); err != nil && s.env.exists() {
			t.Errorf("stop %s: %v", s.Dir, err)
		}
		_ = os.RemoveAll(s.Dir)
	})
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (e *Env) exists() bool {
	_, err := os.Stat(e.File())
	return err == nil
}
