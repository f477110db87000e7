// Package proxy is a TCP proxy with faults: it pauses, cuts, throttles and counts the connections between a client and a server.
package proxy

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env/port"
)

// Direction is one way through the proxy.
type Direction int

// Up carries requests from the client to the server, Down the replies.
const (
	Up Direction = iota
	Down
)

// Proxy forwards connections to its target until told otherwise. All methods may be called from any goroutine.
type Proxy struct {
	addr string

	gates    [2]gate
	throttle bucket
	accepted atomic.Int64

	mu       sync.Mutex
	target   string
	listener net.Listener       // nil while cut
	links    map[*link]struct{} // open now
	closed   bool
	wg       sync.WaitGroup
}

// New listens on listen ("127.0.0.1:0" takes a free port) and forwards to target: host:port, or the path of a unix socket.
// The target is dialled for each connection, so it need not be there yet. The caller closes the proxy.
func New(listen, target string) (*Proxy, error) {
	p := &Proxy{addr: listen, target: target, links: map[*link]struct{}{}}
	p.gates[Up].open()
	p.gates[Down].open()
	host, number, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("proxy address %q: %w", listen, err)
	}
	if number != "0" {
		return p, p.Restore()
	}
	for range 20 {
		var n int
		if n, err = port.Free(); err != nil {
			return nil, err
		}
		p.addr = fmt.Sprintf("%s:%d", host, n)
		if err = p.Restore(); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Addr is the host:port the proxy listens on; it stays the same through Cut and Restore.
func (p *Proxy) Addr() string { return p.addr }

// Port is the port of Addr.
func (p *Proxy) Port() string { return p.addr[strings.LastIndexByte(p.addr, ':')+1:] }

// Pause stops forwarding in the given directions, both when none is given; connections stay open and new ones are
// accepted. What a side sends meanwhile, its close included, arrives after Resume.
func (p *Proxy) Pause(directions ...Direction) {
	if len(directions) == 0 {
		directions = []Direction{Up, Down}
	}
	for _, d := range directions {
		p.gates[d].shut()
	}
}

// Resume forwards again in both directions.
func (p *Proxy) Resume() {
	p.gates[Up].open()
	p.gates[Down].open()
}

// Throttle limits all connections and both directions together to so many bytes per second; 0 means no limit.
func (p *Proxy) Throttle(bytesPerSecond int) { p.throttle.set(bytesPerSecond) }

// Cut closes the listener, so that new connections are refused, and resets every open connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut()
}

// Retarget forwards new connections to another target; open ones stay where they are.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Reset resets every open connection; new ones are still accepted.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Restore listens again after Cut; it does nothing where the proxy listens.
func (p *Proxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("proxy is closed")
	}
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return fmt.Errorf("proxy listen: %w", err)
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
	return nil
}

// Connections is the number of client connections open now.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Accepted is the number of client connections accepted since New.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

// Close resets every connection, stops listening and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.cut()
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) cut() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.reset()
	}
}

func (p *Proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the client was gone already
			time.Sleep(time.Millisecond)
			continue
		}
		p.accepted.Add(1)
		p.mu.Lock()
		k := &link{proxy: p, target: p.target, client: c, done: make(chan struct{})}
		if p.listener != l { // cut meanwhile
			p.mu.Unlock()
			k.reset()
			continue
		}
		p.links[k] = struct{}{}
		p.wg.Go(k.run)
		p.mu.Unlock()
	}
}
