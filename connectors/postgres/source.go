package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// Options is what a source is given besides its configuration.
type Options struct {
	Server    string // topic.prefix: names the stream in the offsets
	Group     string // group.id of the worker
	Connector string // name of the connector
	Report    connectors.Reporter
	Log       *slog.Logger
	// MaxBatchChanges limits the changes of a batch, 0 means 1024; the create half of a key change may exceed it by one.
	MaxBatchChanges int
	// MaxBatchBytes limits what a batch takes of the stream and sizes the receive buffer, 0 means 1 MiB.
	// One message larger than that is a batch of its own.
	MaxBatchBytes int
	// EachTransaction hands out every transaction, those with nothing captured too, for a format that publishes
	// their ends. Else they are merged.
	EachTransaction bool
	// TextValues hands out values for a format that maps types itself; see values.Options.Text.
	TextValues bool
}

// Source streams one database from its slot. It implements connectors.Source; after Close it may
// be opened again.
type Source struct {
	set  settings
	opts Options

	mu     sync.Mutex // of stream, which Close may take away at any time
	stream *stream
	closed bool
}

var _ connectors.Source = (*Source)(nil)

// New makes a source from a checked configuration; nothing is connected yet.
func New(cfg connectors.Config, opts Options) (*Source, error) {
	set, err := newSettings(cfg)
	if err != nil {
		return nil, err
	}
	if opts.MaxBatchChanges <= 0 {
		opts.MaxBatchChanges = 1024
	}
	if opts.MaxBatchBytes <= 0 {
		opts.MaxBatchBytes = defaultBuffer
	}
	if opts.Report == nil {
		opts.Report = func(connectors.State) {}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	set.values.Text = opts.TextValues
	return &Source{set: set, opts: opts}, nil
}

// Open connects, compares server, slot and catalogue with the stored entries and starts the stream.
func (s *Source) Open(ctx context.Context, stored []offsets.Entry) (connectors.Opened, error) {
	s.opts.Report(connectors.State{Name: "STARTING", Reason: "connecting to " + s.set.conn.String()})
	s.mu.Lock()
	busy := s.stream != nil
	s.closed = false
	s.mu.Unlock()
	if busy {
		return connectors.Opened{}, errors.New("open PostgreSQL source: it is open")
	}
	o := &opening{set: s.set, opts: s.opts}
	opened, st, err := o.run(ctx, stored)
	if err != nil {
		o.abandon(ctx)
		return connectors.Opened{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		st.close()
		if o.export != nil {
			_ = o.export.Close(ctx)
		}
		return connectors.Opened{}, errClosed
	}
	s.stream = st
	return opened, nil
}

var errClosed = errors.New("PostgreSQL source is closed")

func (s *Source) current() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream
}

// Next returns the next batch. See connectors.Source.
func (s *Source) Next(ctx context.Context) (connectors.Batch, error) {
	st := s.current()
	if st == nil {
		return connectors.Batch{}, errClosed
	}
	return st.next(ctx)
}

// Ack has the server told that everything up to the boundary is published. It only moves a number.
func (s *Source) Ack(_ context.Context, published offsets.Object) error {
	pos, err := catalog.ParsePosition(published)
	if err != nil {
		return err
	}
	if st := s.current(); st != nil && pos != nil {
		st.status.ack(pos.BoundaryLSN)
		st.retire.look()
	}
	return nil
}

// Close ends the stream and every goroutine of it. The last acknowledgement is sent first.
func (s *Source) Close(context.Context) error {
	s.mu.Lock()
	st := s.stream
	s.stream, s.closed = nil, true
	s.mu.Unlock()
	if st != nil {
		st.close()
	}
	return nil
}

// Acknowledged returns the position last acknowledged, for metrics; 0 while not open.
func (s *Source) Acknowledged() pgoutput.LSN {
	if st := s.current(); st != nil {
		return pgoutput.LSN(st.status.acked.Load())
	}
	return 0
}

// Received returns how far the stream was read, for metrics; 0 while not open.
func (s *Source) Received() pgoutput.LSN {
	if st := s.current(); st != nil {
		return pgoutput.LSN(st.status.received.Load())
	}
	return 0
}

// NonFinite returns how many numbers were published as null because a decimal cannot hold them
// (decimal.nonfinite.handling.mode=null), for metrics; 0 while not open. It counts from the opening.
func (s *Source) NonFinite() int64 {
	if st := s.current(); st != nil {
		return st.status.nonFinite.Load() + st.status.readNull.Load()
	}
	return 0
}
