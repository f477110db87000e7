package proxy

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"
)

const dialTimeout = 5 * time.Second

// link is one client connection and its connection to the target.
type link struct {
	proxy  *Proxy
	target string
	client net.Conn
	done   chan struct{} // closed by reset

	mu     sync.Mutex
	server net.Conn
	ended  bool
}

func (k *link) run() {
	defer k.forget()
	defer k.reset()
	network := "tcp"
	if filepath.IsAbs(k.target) {
		network = "unix"
	}
	server, err := net.DialTimeout(network, k.target, dialTimeout)
	if err != nil || !k.attach(server) {
		return
	}
	var down sync.WaitGroup
	down.Go(func() { k.copy(k.client, server, Down) })
	k.copy(server, k.client, Up)
	down.Wait()
}

// copy forwards one direction to its end. An end of stream is passed on alone, so that the other direction can finish; any other error ends the link.
func (k *link) copy(to, from net.Conn, d Direction) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !k.proxy.gates[d].wait(k.done) || !k.write(to, buf[:n]) {
			k.reset()
			return
		}
		if errors.Is(err, io.EOF) {
			if c, ok := to.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
				return
			}
		}
		if err != nil {
			k.reset()
			return
		}
	}
}

// write sends b in pieces of at most a twentieth of a second's allowance.
func (k *link) write(to net.Conn, b []byte) bool {
	for len(b) > 0 {
		n, pause := k.proxy.throttle.take(len(b))
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-k.done:
				return false
			}
		}
		if _, err := to.Write(b[:n]); err != nil {
			return false
		}
		b = b[n:]
	}
	return true
}

// attach keeps the server's connection for reset; it reports false, and closes it, when the link ended meanwhile.
func (k *link) attach(server net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		_ = server.Close()
		return false
	}
	k.server = server
	return true
}

// reset ends both connections at once, without waiting for data on the way.
func (k *link) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	k.ended = true
	close(k.done)
	for _, c := range []net.Conn{k.client, k.server} {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}

func (k *link) forget() {
	k.proxy.mu.Lock()
	defer k.proxy.mu.Unlock()
	delete(k.proxy.links, k)
}

// gate holds back one direction while it is shut. The zero gate is shut.
type gate struct {
	mu     sync.Mutex
	passed chan struct{} // closed while the gate is open
	opened bool
}

func (g *gate) channel() chan struct{} {
	if g.passed == nil {
		g.passed = make(chan struct{})
	}
	return g.passed
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opened {
		close(g.channel())
		g.opened = true
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened {
		g.passed, g.opened = make(chan struct{}), false
	}
}

// wait returns true once the gate is open, false once done is closed.
func (g *gate) wait(done <-chan struct{}) bool {
	g.mu.Lock()
	c := g.channel()
	g.mu.Unlock()
	select {
	case <-done:
		return false
	case <-c:
		return true
	}
}

// bucket spreads bytes over time. The zero bucket has no limit.
type bucket struct {
	mu   sync.Mutex
	rate int // bytes per second
	next time.Time
}

func (b *bucket) set(rate int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rate, b.next = rate, time.Time{}
}

// take says how many of want bytes may be sent, and after which pause.
func (b *bucket) take(want int) (int, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rate <= 0 {
		return want, 0
	}
	n := min(want, max(1, b.rate/20))
	now := time.Now()
	if b.next.Before(now) {
		b.next = now
	}
	b.next = b.next.Add(time.Duration(n) * time.Second / time.Duration(b.rate))
	return n, b.next.Sub(now)
}
