package badinput

import (
	"bytes"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a running connectctl.
type process struct {
	s     *stage
	cmd   *exec.Cmd
	ended chan struct{}
	mu    sync.Mutex
	out   bytes.Buffer // standard output
	err   bytes.Buffer // standard error
}

type locked struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w locked) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (s *stage) start(args ...string) *process {
	s.Helper()
	p := &process{s: s, ended: make(chan struct{}), cmd: exec.Command(program, args...)}
	p.cmd.Stdout, p.cmd.Stderr = locked{&p.mu, &p.out}, locked{&p.mu, &p.err}
	s.must(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.fit()
	})
	return p
}

func (s *stage) run() *process {
	s.Helper()
	w, c := s.files()
	return s.start("run", w, c)
}

// output is all that was written so far.
func (p *process) output() (stdout, stderr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String(), p.err.String()
}

// fit holds for every output: no secrets, no stack trace, no Go syntax.
func (p *process) fit() {
	stdout, stderr := p.output()
	for _, bad := range []string{secret, "panic:", "goroutine ", "runtime error", "%!", "<nil>", ".go:"} {
		if strings.Contains(stdout+stderr, bad) {
			p.s.Errorf("the output holds %q:\n%s%s", bad, stdout, stderr)
		}
	}
}

const patience = 40 * time.Second

func (s *stage) until(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// line waits for a line of standard error, from the byte on, that holds all words, and returns where it ends.
func (p *process) line(from int, words ...string) int {
	p.s.Helper()
	deadline := time.Now().Add(patience)
	for {
		_, all := p.output()
		at := from
		for _, l := range strings.SplitAfter(all[from:], "\n") {
			at += len(l)
			if holds(l, words) {
				p.s.Log(strings.TrimSpace(l))
				return at
			}
		}
		select {
		case <-p.ended:
			if _, now := p.output(); now == all {
				p.s.Fatalf("ended with %d without a line that holds %q:\n%s", p.cmd.ProcessState.ExitCode(), words, all)
			}
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.s.Fatalf("no line within %s that holds %q:\n%s", patience, words, all)
		}
	}
}

func holds(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}

// exit waits for the end and returns the last line of standard error, the sentence.
func (p *process) exit(code int) string {
	p.s.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		_, all := p.output()
		p.s.Fatalf("still runs:\n%s", all)
	}
	stdout, stderr := p.output()
	p.fit()
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.s.Fatalf("exit code %d, want %d:\n%s%s", got, code, stdout, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	p.s.Logf("exit %d: %s", code, lines[len(lines)-1])
	return lines[len(lines)-1]
}

// stop ends a connector as an operator does.
func (p *process) stop() {
	p.s.Helper()
	p.s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	p.exit(143)
}

// ctl runs a command to its end.
func (s *stage) ctl(code int, args ...string) (stdout, sentence string) {
	s.Helper()
	p := s.start(args...)
	sentence = p.exit(code)
	stdout, _ = p.output()
	return stdout, sentence
}

func (s *stage) wants(text string, words ...string) {
	s.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			s.Errorf("%q is not in:\n%s", w, text)
		}
	}
}
