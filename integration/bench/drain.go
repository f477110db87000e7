package main

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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

const drainTimeout = 5 * time.Minute

// drained is one drain of all the rows.
type drained struct {
	rate                       float64 // rows a second
	running                    time.Duration
	program, walsender, broker usage
	written
}

// child is a program that drains a slot, with what is measured of it.
type child struct {
	cmd     *exec.Cmd
	began   time.Time
	said    bytes.Buffer
	ended   chan error
	program func() usage
	sender  func() usage
	broker  func() usage
}

// start runs a command and begins to measure.
func (b *bench) start(ctx context.Context, slot string, cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, ended: make(chan error, 1)}
	if cmd.Stderr == nil {
		cmd.Stderr = &c.said
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.began = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { c.ended <- cmd.Wait() }()
	c.program = follow(ctx, func() int { return cmd.Process.Pid }, false)
	c.broker = follow(ctx, func() int { return b.broker }, true)
	c.sender = follow(ctx, func() int { return b.walsender(ctx, slot) }, false)
	return c, nil
}

func (c *child) measured(rows int, took time.Duration) drained {
	return drained{rate: float64(rows) / took.Seconds(), program: c.program(), walsender: c.sender(), broker: c.broker()}
}

// recvlogical drains the rows with pg_recvlogical.
func (b *bench) recvlogical(ctx context.Context) (d drained, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	tool, err := env.PgRecvlogical()
	if err != nil {
		return d, err
	}
	slot, drop, err := b.newSlot(ctx)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	cmd := exec.Command(tool, "--host="+b.pg.SocketDir(), "--port="+strconv.Itoa(b.pg.Port()), "--username="+env.Superuser, "--dbname="+database,
		"--slot="+slot, "--start", "--no-loop", "--file=/dev/null", "--endpos="+b.end, "-o", "proto_version=1", "-o", "publication_names="+publication)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+env.SuperuserPassword)
	c, err := b.start(ctx, slot, cmd)
	if err != nil {
		return d, err
	}
	select {
	case err = <-c.ended:
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-c.ended
		err = ctx.Err()
	}
	d = c.measured(b.rows, time.Since(c.began))
	if err != nil {
		return d, fmt.Errorf("%w: %s", err, strings.TrimSpace(c.said.String()))
	}
	return d, nil
}

// connector drains the rows with connectctl, into topics of their own, and checks them.
func (b *bench) connector(ctx context.Context) (d drained, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	slot, drop, err := b.newSlot(ctx)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	worker, connector, err := b.configure(slot)
	if err != nil {
		return d, err
	}
	args := []string{"run", "--log-format", "json", worker, connector}
	if b.profile != "" {
		args = append(args, "--cpuprofile", filepath.Join(b.profile, slot+".pprof"))
	}
	offsets, err := b.watchOffsets(ctx, slot)
	if err != nil {
		return d, err
	}
	defer offsets.Close()
	cmd := exec.Command(b.connectctl, args...)
	log := &logTail{}
	cmd.Stderr = log
	c, err := b.start(ctx, slot, cmd)
	if err != nil {
		return d, err
	}
	done := make(chan error, 1)
	go func() { done <- offsets.until(ctx, b.before) }()
	select {
	case err = <-done:
		d = c.measured(b.rows, time.Since(c.began))
	case err = <-c.ended:
		c.ended <- err
		c.measured(b.rows, 1)
		cancel()
		<-done
		err = fmt.Errorf("ended early: %w", errors.Join(err, errors.New(log.text())))
	}
	if n := log.running.Load(); n != 0 {
		d.running = time.Unix(0, n).Sub(c.began)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	ended := <-c.ended
	var exit *exec.ExitError
	if err == nil && (!errors.As(ended, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM)) {
		err = fmt.Errorf("ended with %w, not with exit code 143: %s", ended, log.text())
	}
	if err == nil {
		d.written, err = b.checkTopic(ctx, slot+".public.orders")
	}
	return d, err
}

// logTail keeps the end of the log and when it first said RUNNING.
type logTail struct {
	running atomic.Int64 // Unix time in nanoseconds
	last    bytes.Buffer
}

func (l *logTail) Write(p []byte) (int, error) {
	if l.running.Load() == 0 && bytes.Contains(p, []byte(`"RUNNING"`)) {
		l.running.Store(time.Now().UnixNano())
	}
	if l.last.Len() > 64<<10 {
		l.last.Reset()
	}
	return l.last.Write(p)
}

// text is read after the process has ended.
func (l *logTail) text() string { return strings.TrimSpace(l.last.String()) }

// configure writes the files of one run. Everything is at its default but what must be said.
func (b *bench) configure(slot string) (worker, connector string, err error) {
	worker, connector = filepath.Join(b.dir, slot+"-worker.properties"), filepath.Join(b.dir, slot+".properties")
	files := map[string]string{
		worker: fmt.Sprintf("bootstrap.servers=%s\nschema.registry.url=%s\noffset.storage.topic=%s\n", b.kafka.Bootstrap(), b.registry.URL(), offsetsTopic),
		connector: fmt.Sprintf(`name=%[1]s
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
snapshot.mode=no_data
`, slot, b.pg.SocketDir(), b.pg.Port(), env.Superuser, env.SuperuserPassword, database, publication),
	}
	for file, text := range files {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", "", err
		}
	}
	return worker, connector, nil
}
