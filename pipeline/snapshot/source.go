package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

// The modes, Debezium's names.
const (
	ModeInitial     = "initial"      // the tables' content, where the stream begins
	ModeInitialOnly = "initial_only" // likewise, and then the end
	ModeNoData      = "no_data"      // none
	ModeNever       = "never"        // none
	ModeAlways      = "always"       // at every start
	ModeWhenNeeded  = "when_needed"  // as initial; and anew where the log no longer has what is needed
)

// Config says what is read and how.
type Config struct {
	Server        string // of the stored entries
	Mode          string
	Run           string                      // of the process: mode always reads once in a run; empty: each Open is one
	Tables        func(qualified string) bool // tables that an initial snapshot reads; nil: all
	ChunkSize     int                         // rows of a chunk, at most; default 10240
	RowsPerSecond int                         // 0: no limit
	Threads       int                         // tables read at once; default 2
	Channels      []signal.Channel
	SignalTable   string              // qualified name of a captured table whose inserted rows are signals; empty: none
	Report        connectors.Reporter // nil: none
	Log           *slog.Logger        // nil: the default
	Observer      Observer            // nil: none
	// MaxTrackedKeys bounds the keys remembered of transactions that chunks may not see; default 200,000.
	MaxTrackedKeys int
	// UntilCurrent ends the source at a marker written at Open, once all tables are read.
	UntilCurrent bool

	ring  int           // ids of transactions remembered for tables that begin to be read later
	pause time.Duration // before a chunk is read again, at first
	retry time.Duration // before a connection is opened again, at first
	stall time.Duration // for which the stream is held for the place of a keyless table's copy
}

func (c *Config) defaults() {
	if c.ChunkSize <= 0 {
		c.ChunkSize = 10240
	}
	if c.Threads <= 0 {
		c.Threads = 2
	}
	if c.MaxTrackedKeys <= 0 {
		c.MaxTrackedKeys = 200_000
	}
	if c.Tables == nil {
		c.Tables = func(string) bool { return true }
	}
	if c.Report == nil {
		c.Report = func(connectors.State) {}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.ring <= 0 {
		c.ring = 1 << 16
	}
	if c.pause <= 0 {
		c.pause = 20 * time.Millisecond
	}
	if c.retry <= 0 {
		c.retry = 100 * time.Millisecond
	}
	if c.stall <= 0 {
		c.stall = 10 * time.Second
	}
}

// Source is a connectors.Source that hands out the stream of an inner one and the rows of its tables.
type Source struct {
	cfg   Config
	inner connectors.Snapshotter

	// Of Next's goroutine.
	tables   map[string]*table // captured ones
	order    []*table          // in the order they are read
	exported connectors.Exported
	rows     connectors.ExportedRows // what is left of the run last returned
	last     connectors.Batch        // the boundary last handed out, without its changes
	partial  bool                    // a transaction was handed out in part
	held     *connectors.Batch       // kept back for a copy
	pos      string                  // the inner source's position before the batch kept back
	changes  []connectors.Change     // reused
	seq      sequencer
	win      window
	baseline bool // its tables are not all read yet, or it was not activated
	first    bool // the tables to be read were not stored yet
	state    state
	dirty    bool            // the state is to be stored
	inserted []signal.Signal // rows of the signal table in the transaction that is handed out
	nonce    string          // of the marker that ends a bounded run; empty: none is waited for
	answered *copying
	given    given             // what the last Next gave
	chunkOut *connectors.Chunk // whose rows the last Next gave, to be freed
	changing chan struct{}     // closed when the last change of the table set begun is over
	ended    bool

	shared
	flight   flight
	summary  summary
	limiter  limiter
	cancel   context.CancelFunc
	ctx      context.Context // of all goroutines; ends with Close
	workers  sync.WaitGroup
	closing  sync.Once
	notified chan struct{} // something changed for Next
}

var _ connectors.Rejecter = (*Source)(nil)

// New returns a source that was not opened.
func New(cfg Config, inner connectors.Snapshotter) *Source {
	cfg.defaults()
	s := &Source{cfg: cfg, inner: inner, tables: map[string]*table{}, notified: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.shared.init()
	s.win.init(cfg.ring, cfg.MaxTrackedKeys)
	s.limiter.rate = float64(cfg.RowsPerSecond)
	return s
}

// Open opens the inner source and decides what is to be read.
func (s *Source) Open(ctx context.Context, stored []offsets.Entry) (connectors.Opened, error) {
	opened, err := s.inner.Open(ctx, stored)
	if err != nil {
		return opened, err
	}
	s.exported, opened.Exported = opened.Exported, nil
	s.mu.Lock()
	s.opened = s.exported // for Close, whatever comes of this
	s.mu.Unlock()
	if err := s.plan(stored, &opened); err != nil {
		return connectors.Opened{}, err
	}
	if s.cfg.UntilCurrent {
		s.nonce = newNonce()
		if err := s.inner.Mark(ctx, s.nonce); err != nil {
			return connectors.Opened{}, fmt.Errorf("write the marker at which the bounded run ends: %w", err)
		}
	}
	s.listen()
	if name := s.cfg.SignalTable; name != "" && !slices.ContainsFunc(s.order, func(t *table) bool { return strings.EqualFold(t.name, name) }) {
		s.cfg.Log.Warn("the signal table is not captured, so that its rows are no signals until it is", "table", name)
	}
	if s.exported == nil {
		s.startReaders()
	}
	return opened, nil
}

// Next returns the next batch: one of its own where there is something to hand out at this boundary, else the stream's.
func (s *Source) Next(ctx context.Context) (connectors.Batch, error) {
	s.release()
	s.given = given{}
	for {
		if !s.partial {
			b, ok, err := s.own(ctx)
			if ok || err != nil {
				return b, err
			}
			if s.finished() {
				return connectors.Batch{}, connectors.ErrEnd
			}
		}
		if s.held == nil && !s.partial && s.copies() {
			if err := s.wait(ctx, time.Second/10); err != nil {
				return connectors.Batch{}, err
			}
			continue
		}
		if s.held == nil {
			if !s.partial && len(s.win.tracked) > 0 { // it may be kept back
				s.pos = s.inner.Position()
			}
			b, err := s.inner.Next(ctx)
			if err != nil {
				return connectors.Batch{}, err
			}
			s.held = &b
		}
		if !s.partial && s.holds(s.held) {
			if err := s.wait(ctx, time.Second/10); err != nil {
				return connectors.Batch{}, err
			}
			continue
		}
		b := *s.held
		s.held = nil
		s.stream(&b)
		return b, nil
	}
}

// own returns a batch that is not the stream's.
func (s *Source) own(ctx context.Context) (connectors.Batch, bool, error) {
	if s.first {
		s.first = false
		return s.begin(), true, nil
	}
	for s.exported != nil {
		if b, ok := s.requests(); ok { // to pause and to stop are for this kind too
			return b, true, nil
		}
		b, ok, err := s.nextExported(ctx)
		if ok || err != nil {
			return b, ok, err
		}
	}
	if b, ok := s.requests(); ok {
		return b, true, nil
	}
	s.collect()
	for i, t := range s.order {
		if b, ok := s.advance(t); ok {
			s.order = append(append(s.order[:i:i], s.order[i+1:]...), t) // tables take turns
			return b, true, nil
		}
	}
	if s.activates() {
		b := s.boundary()
		s.activate(&b)
		return b, true, nil
	}
	return connectors.Batch{}, false, nil
}

// boundary returns an empty batch at the boundary last handed out.
func (s *Source) boundary() connectors.Batch {
	pos := s.pos
	if s.held == nil {
		pos = s.inner.Position()
	}
	return connectors.Batch{Tx: connectors.Transaction{Pos: pos, Snapshot: connectors.SnapshotIncremental}, Last: true, Boundary: s.last.Boundary}
}

// stream takes note of a batch of the inner source that is handed out.
func (s *Source) stream(b *connectors.Batch) {
	s.win.changes(b, s.touched)
	s.rowSignals(b)
	s.summary.streamed(b, s.partial)
	s.partial = !b.Last
	if !b.Last {
		return
	}
	s.win.end()
	for _, nonce := range b.Markers {
		if nonce == s.nonce {
			s.nonce = ""
		}
	}
	s.last = connectors.Batch{Tx: b.Tx, Last: true, Boundary: b.Boundary}
	s.flight.leaves(b, 0)
	progress := append([]connectors.TableProgress(nil), b.Progress...)
	progress = s.membership(b, progress)
	progress = s.moved(progress)
	progress = s.insertedSignals(b, progress)
	if len(progress) > 0 {
		b.Progress, b.Lazy = progress, false
	}
}

// wait blocks until something changed for Next, at most for d.
func (s *Source) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.notified:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return errClosed
	}
}

var errClosed = errors.New("the source is closed")

// notify makes Next look for something to hand out, wherever it waits.
func (s *Source) notify() {
	select {
	case s.notified <- struct{}{}:
	default:
	}
	s.inner.Wake()
}

// finished tells that a bounded source has come to its end: nothing is left to be read.
func (s *Source) finished() bool {
	if s.ended {
		return true
	}
	over := s.cfg.Mode == ModeInitialOnly || s.cfg.UntilCurrent && s.nonce == ""
	if !over || s.dirty || s.exported != nil {
		return false
	}
	for _, t := range s.order {
		if t.job != nil && !s.state.Paused {
			return false
		}
	}
	s.ended = len(s.state.Requests) == 0 || s.state.Paused
	return s.ended
}

// bounded tells that the source comes to an end.
func (s *Source) bounded() bool { return s.cfg.Mode == ModeInitialOnly || s.cfg.UntilCurrent }

// Ack passes the acknowledgement on.
func (s *Source) Ack(ctx context.Context, published offsets.Object) error {
	if s.flight.lands(published) {
		s.notify()
	}
	return s.inner.Ack(ctx, published)
}

// Close ends every goroutine, and the inner source.
func (s *Source) Close(ctx context.Context) error {
	var err error
	s.closing.Do(func() {
		s.cancel()
		s.mu.Lock()
		exported := s.opened
		s.mu.Unlock()
		if exported != nil {
			err = exported.Close(ctx)
		}
		err = errors.Join(s.inner.Close(ctx), err)
		done := make(chan struct{})
		go func() { s.workers.Wait(); close(done) }()
		select {
		case <-done:
		case <-ctx.Done():
			err = errors.Join(err, fmt.Errorf("wait for the readers of the snapshot: %w", ctx.Err()))
		}
	})
	return err
}

// sequencer numbers rows: on from the last row at the same position, else from connectors.FirstReadSeq.
type sequencer struct {
	stored map[string]int64 // position → highest ordinal
	pos    string
	next   int64
}

func (q *sequencer) take(pos string, n int) int64 {
	if pos != q.pos || q.next == 0 {
		q.pos, q.next = pos, connectors.FirstReadSeq
		if last, ok := q.stored[pos]; ok {
			q.next = last + 1
		}
	}
	first := q.next
	q.next += int64(n)
	return first
}
