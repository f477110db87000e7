package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

// meter measures the processes of one run, from when it was made.
type meter struct{ program, walsender, broker func() usage }

// meter begins to measure; ranBefore: the program and its walsender have run for a while, which does not count.
func (b *bench) meter(ctx context.Context, program int, slot string, ranBefore bool) meter {
	return meter{
		program:   follow(ctx, func() int { return program }, ranBefore),
		broker:    follow(ctx, func() int { return b.broker }, true),
		walsender: follow(ctx, func() int { return b.walsender(ctx, slot) }, ranBefore),
	}
}

// read ends the measuring.
func (m meter) read() sides { return sides{m.program(), m.walsender(), m.broker()} }

// child is a program that reads from PostgreSQL.
type child struct {
	cmd   *exec.Cmd
	began time.Time
	said  tail
	done  chan struct{}
	err   error // after done
}

// start runs a command.
func start(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, done: make(chan struct{})}
	cmd.Stderr = &c.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.began = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.err = cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// wait waits for the child's end in order, and kills it when the context ends before.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = c.cmd.Process.Kill()
		<-c.done
		return ctx.Err()
	}
	if c.err != nil {
		return fmt.Errorf("%w: %s", c.err, c.said.text())
	}
	return nil
}

// during runs f, which must come to its end before the child does.
func (c *child) during(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-c.done:
		cancel()
		<-done
		return fmt.Errorf("ended early: %w", errors.Join(c.err, errors.New(c.said.text())))
	}
}

// terminate ends connectctl in order.
func (c *child) terminate() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(30*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	<-c.done
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		return fmt.Errorf("ended with %v, not with exit code 143: %s", c.err, c.said.text()) //nolint:errorlint // it may be nil
	}
	return nil
}

// awaitRunning waits until connectctl streams, at most a minute.
func (c *child) awaitRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return c.during(ctx, func(ctx context.Context) error {
		for c.said.ranAt().IsZero() {
			if ctx.Err() != nil {
				return fmt.Errorf("connectctl does not reach RUNNING: %w: %s", ctx.Err(), c.said.text())
			}
			pause(ctx)
		}
		return nil
	})
}

const running = `"RUNNING"`

// tail keeps the end of what a child says, and when it said RUNNING first.
type tail struct {
	mu   sync.Mutex
	ran  time.Time
	last bytes.Buffer
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ran.IsZero() && bytes.Contains(p, []byte(running)) {
		l.ran = time.Now()
	}
	if l.last.Len() > 64<<10 {
		l.last.Reset()
	}
	return l.last.Write(p)
}

// text is what was said last.
func (l *tail) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.last.String())
}

// ranAt is when it said RUNNING.
func (l *tail) ranAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ran
}

// connector starts connectctl as a connector of its own, named as its slot.
func (b *bench) connector(slot string, properties map[string]string) (*child, error) {
	worker, connector, err := b.configure(slot, properties)
	if err != nil {
		return nil, err
	}
	args := []string{"run", "--log-format", "json", worker, connector}
	if b.profile != "" {
		args = append(args, "--cpuprofile", filepath.Join(b.profile, b.bench+"-"+slot+".pprof"))
	}
	return start(exec.Command(b.connectctl, args...))
}

// configure writes the files of one connector. Everything is at its default but what must be said, and properties.
func (b *bench) configure(slot string, properties map[string]string) (worker, connector string, err error) {
	worker, connector = filepath.Join(b.dir, slot+"-worker.properties"), filepath.Join(b.dir, slot+".properties")
	text := fmt.Sprintf(`name=%[1]s
connector.class=postgres
topic.prefix=%[1]s
slot.name=%[1]s
database.hostname=%s
database.port=%d
database.user=%s
database.password=%s
database.dbname=%s
publication.name=%s
publication.autocreate.mode=disabled
`, slot, b.host(), b.pg.Port(), env.Superuser, env.SuperuserPassword, database, publication)
	if properties["snapshot.mode"] == "" {
		text += "snapshot.mode=no_data\n"
	}
	for name, value := range properties {
		text += name + "=" + value + "\n"
	}
	files := map[string]string{
		worker:    fmt.Sprintf("bootstrap.servers=%s\nschema.registry.url=%s\noffset.storage.topic=%s\n", b.kafka.Bootstrap(), b.registry.URL(), offsetsTopic),
		connector: text,
	}
	for file, text := range files {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", "", err
		}
	}
	return worker, connector, nil
}
