package postgres

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// private starts a server that the test may stop. It needs the integration environment's scripts.
func private(t *testing.T, major int) (u *url.URL, run func(args ...string)) {
	t.Helper()
	if os.Getenv(envURLs) == "" {
		t.Skip("set " + envURLs + ": it says that the scripts of integration/env may start servers")
	}
	script, err := filepath.Abs("../../integration/env/setup-postgres.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tm-pg-") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	run = func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", append([]string{script}, args...)...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("VERSION=%d", major), fmt.Sprintf("PORT=%d", port), "DIR="+filepath.Join(dir, "pg"))
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, time.Second
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, said.String())
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the server runs as another user
		t.Fatal(err)
	}
	t.Cleanup(func() {
		run("stop", "immediate")
		_ = os.RemoveAll(dir)
	})
	run("start")
	return &url.URL{Scheme: "postgres", User: url.UserPassword("postgres", "postgres"), Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/postgres"}, run
}

// Case 16: a fast shutdown of the server does not wait for us, whether the stream is at rest or its pipeline is stuck.
func TestFastShutdown(t *testing.T) {
	for _, major := range []int{14, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			u, run := private(t, major)
			t.Run("at rest", func(t *testing.T) { fastShutdown(newPgtest(t, u), run, true) })
			t.Run("stuck", func(t *testing.T) { fastShutdown(newPgtest(t, u), run, false) })
		})
	}
}

func fastShutdown(p *pgtest, run func(...string), rest bool) {
	p.sql("CREATE TABLE a(id int PRIMARY KEY, v text)")
	s := p.open(Options{})
	p.sql("INSERT INTO a VALUES (1, 'x')")
	p.until(s, 1)
	done := make(chan error, 1)
	if rest {
		go func() { done <- p.consume(s, func(connectors.Batch, bool) error { return nil }) }()
	} else {
		p.sql("INSERT INTO a SELECT g, repeat('x', 1000) FROM generate_series(2, 20000) g") // more than sockets hold
	}
	start := time.Now()
	run("stop", "fast")
	took := time.Since(start)
	p.Logf("fast shutdown took %s", took)
	if took > 3*time.Second {
		p.Errorf("fast shutdown took %s, want less than 3 s", took)
	}
	if !rest {
		go func() { done <- p.consume(s, func(connectors.Batch, bool) error { return nil }) }()
	}
	p.wantError(<-done, connectors.ClassWait, "shutting down")
	_ = s.Close(p.ctx)

	run("start")
	p.reconnect()
	if slot := p.confirmed(); slot > p.boundaryOf() {
		p.Errorf("slot at %s, stored %s", slot, p.boundaryOf())
	}
	want := 1
	s = p.open(Options{})
	if !rest {
		want = 20000
		p.until(s, want)
	}
	p.sql("INSERT INTO a VALUES (0, 'after')")
	p.until(s, want+1)
	if len(p.lines) != want+1 {
		p.Errorf("%d changes, want %d", len(p.lines), want+1)
	}
	_ = s.Close(p.ctx)
}

// reconnect opens the test's own connections again.
func (p *pgtest) reconnect() {
	p.Helper()
	_, _ = p.conn.Close(p.ctx), p.admin.Close(p.ctx)
	base := *p.url
	base.Path = "/postgres"
	p.conn, p.admin = p.connect(p.url), p.connect(&base)
}
