// Package embedded is the schema registry that comes along by default: the part
// of Confluent's REST API that producers, consumers and their tools use, over
// an append-only journal in a directory. Ids, subjects, versions and levels
// survive a restart and a kill: a change is on disk before it is answered.
//
// Schemas are Avro, parsed for real; compatibility is checked for real, by
// default BACKWARD. Schema references, other schema types, contexts and the
// mode IMPORT are refused, not ignored. There is no authentication: serve it on
// loopback.
//
// For the next editor: state (state.go) changes only through apply, fed by the
// journal at Open and by commit afterwards; commit writes the journal first.
// One mutex guards both, so nobody reads what is not on disk.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Options of a registry; the zero value is usable.
type Options struct {
	// Level is the compatibility level until one is set through the API, which
	// then wins for good; empty is BACKWARD.
	Level string
}

// Registry is an open registry. It is safe for concurrent use.
type Registry struct {
	lock    *os.File
	handler http.Handler

	mu      sync.RWMutex
	state   *state
	journal *journal

	serveMu sync.Mutex
	servers []*http.Server
	serving sync.WaitGroup
	closed  bool
}

// Open opens or makes the registry in dir. Only one process can have it open; a
// second one gets an error that names the first.
func Open(dir string, opts Options) (*Registry, error) {
	level := opts.Level
	if level == "" {
		level = "BACKWARD"
	}
	if !validLevel(level) {
		return nil, fmt.Errorf("compatibility level %q of the embedded schema registry is unknown: use one of %s", level, levelNames())
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("make directory of the embedded schema registry: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	r := &Registry{lock: lock, state: newState(level)}
	if r.journal, err = openJournal(dir, r.state.apply); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	r.handler = r.routes()
	return r, nil
}

// Handler is the REST API.
func (r *Registry) Handler() http.Handler { return r.handler }

// Serve listens on addr (127.0.0.1:0 takes a free port), serves until Close and
// returns the URL.
func (r *Registry) Serve(addr string) (string, error) {
	r.serveMu.Lock()
	defer r.serveMu.Unlock()
	if r.closed {
		return "", errors.New("the embedded schema registry is closed")
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for the embedded schema registry: %w", err)
	}
	srv := &http.Server{Handler: r.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	r.servers = append(r.servers, srv)
	r.serving.Add(1)
	go func() {
		defer r.serving.Done()
		_ = srv.Serve(ln) // ends with ErrServerClosed; a broken listener shows as an unreachable registry
	}()
	return "http://" + ln.Addr().String(), nil
}

// Close stops the servers, lets requests under way finish for a moment, and
// gives up the directory.
func (r *Registry) Close() error {
	r.serveMu.Lock()
	if r.closed {
		r.serveMu.Unlock()
		return nil
	}
	r.closed = true
	servers := r.servers
	r.serveMu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, s := range servers {
		if s.Shutdown(ctx) != nil {
			_ = s.Close()
		}
	}
	r.serving.Wait()

	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.journal.close(), r.lock.Close())
}

// commit makes events durable, then visible. The caller holds r.mu.
func (r *Registry) commit(events ...event) error {
	if err := r.journal.append(events); err != nil {
		return storeError(err)
	}
	for _, e := range events {
		if err := r.state.apply(e); err != nil {
			return storeError(err)
		}
	}
	return nil
}
