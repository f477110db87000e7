package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// queryTimeout is the longest a catalogue query may hold up the stream; then the source reconnects.
const queryTimeout = 30 * time.Second

// sentinel owns the catalogue connection: it runs queries handed to it and listens otherwise, so
// that the connection's end is seen at once.
type sentinel struct {
	conn     *pgx.Conn
	requests chan request
	ended    chan struct{} // closed when the connection is gone
	err      error         // why; valid once ended is closed

	mu     sync.Mutex
	cancel context.CancelFunc // ends the current wait
}

type request struct {
	ctx  context.Context
	run  func(context.Context, *pgx.Conn) error
	done chan error
}

func newSentinel(conn *pgx.Conn) *sentinel {
	return &sentinel{conn: conn, requests: make(chan request, 1), ended: make(chan struct{}), cancel: func() {}}
}

// run serves until ctx ends or the connection does; it closes the connection.
func (s *sentinel) run(ctx context.Context) {
	defer func() {
		close(s.ended)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.conn.Close(closing)
	}()
	for {
		select {
		case r := <-s.requests:
			err := r.run(r.ctx, s.conn)
			r.done <- err
			if s.conn.IsClosed() {
				s.err = fmt.Errorf("catalogue connection ended: %w", orClosed(err))
				return
			}
			continue
		default:
		}
		waiting, cancel := context.WithCancel(ctx)
		s.mu.Lock()
		s.cancel = cancel
		s.mu.Unlock()
		if len(s.requests) > 0 {
			cancel()
			continue
		}
		_, err := s.conn.WaitForNotification(waiting)
		interrupted := waiting.Err() != nil
		cancel()
		if ctx.Err() != nil {
			s.err = ctx.Err()
			return
		}
		if s.conn.IsClosed() || (err != nil && !interrupted) {
			s.err = fmt.Errorf("catalogue connection ended: %w", orClosed(err))
			return
		}
	}
}

func orClosed(err error) error {
	if err == nil {
		return errors.New("connection closed")
	}
	return err
}

// do runs a query on the connection and waits for it.
func (s *sentinel) do(ctx context.Context, run func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	r := request{ctx: ctx, run: run, done: make(chan error, 1)}
	select {
	case s.requests <- r:
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	select {
	case err := <-r.done:
		return err
	case <-s.ended:
		select {
		case err := <-r.done:
			return err
		default:
			return s.err
		}
	}
}

// shuttingDown reports whether the server said that it ends its sessions.
func shuttingDown(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "57P01" || pg.Code == "57P02" || pg.Code == "57P03")
}
