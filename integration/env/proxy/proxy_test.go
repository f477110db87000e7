package proxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers every byte with itself until the client closes.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

func start(t *testing.T) *proxy.Proxy {
	t.Helper()
	target := echo(t)
	p, err := proxy.New("127.0.0.1:0", target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func dial(t *testing.T, p *proxy.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	got, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || got != want+"\n" {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

func silent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

func TestPauseKeepsConnectionsAndDelivers(t *testing.T) {
	for _, c := range []struct {
		name string
		dirs []proxy.Direction
	}{{"both", nil}, {"requests", []proxy.Direction{proxy.Up}}, {"replies", []proxy.Direction{proxy.Down}}} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t)
			old := dial(t, p)
			say(t, old, "one")
			hear(t, old, "one")
			p.Pause(c.dirs...)
			say(t, old, "two")
			fresh := dial(t, p)
			say(t, fresh, "three")
			silent(t, old)
			silent(t, fresh)
			p.Resume()
			hear(t, old, "two")
			hear(t, fresh, "three")
			if p.Accepted() != 2 || p.Connections() != 2 {
				t.Errorf("accepted %d, open %d; want 2, 2", p.Accepted(), p.Connections())
			}
		})
	}
}

func TestCutResetsAndRefusesUntilRestored(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	say(t, c, "one")
	hear(t, c, "one")
	p.Cut()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the cut: %v, want a reset", err)
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after the cut: %v, want refused", err)
	}
	eventually(t, "no connection", func() bool { return p.Connections() == 0 })
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	c = dial(t, p)
	say(t, c, "two")
	hear(t, c, "two")
}

func TestCutWhilePaused(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	p.Pause()
	say(t, c, "held")
	eventually(t, "one connection", func() bool { return p.Connections() == 1 })
	p.Cut()
	eventually(t, "no connection", func() bool { return p.Connections() == 0 })
}

func TestResetKeepsListening(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	say(t, c, "one")
	hear(t, c, "one")
	p.Reset()
	eventually(t, "no connection", func() bool { return p.Connections() == 0 })
	c = dial(t, p)
	say(t, c, "two")
	hear(t, c, "two")
}

func TestRetargetMovesNewConnections(t *testing.T) {
	p := start(t)
	old := dial(t, p)
	say(t, old, "one")
	hear(t, old, "one")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.Retarget(l.Addr().String())
	_ = dial(t, p)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	say(t, old, "two")
	hear(t, old, "two")
}

func TestThrottleBoundsTheRate(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	p.Throttle(100_000)
	line := strings.Repeat("x", 15_000)
	begin := time.Now()
	say(t, c, line)
	hear(t, c, line)
	if took := time.Since(begin); took < 290*time.Millisecond {
		t.Errorf("30,000 bytes took %v at 100,000 bytes/s", took)
	}
	p.Throttle(0)
	say(t, c, line)
	hear(t, c, line)
}

func TestHalfCloseIsPassedOn(t *testing.T) {
	p := start(t)
	c := dial(t, p)
	say(t, c, "last")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "last\n" {
		t.Errorf("got %q, %v", got, err)
	}
	eventually(t, "no connection", func() bool { return p.Connections() == 0 })
}

func TestTargetDown(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := l.Addr().String()
	_ = l.Close()
	p, err := proxy.New("127.0.0.1:0", target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return // reset before the dial returned
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v, want the connection closed", err)
	}
}
