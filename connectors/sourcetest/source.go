package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// ErrClosed is returned by a Source that was closed.
var ErrClosed = errors.New("the source is closed")

// Source reads a Log. It overwrites the memory of a batch at the next Next, so that whoever keeps some is found out.
type Source struct {
	Log    *Log
	Server string                      // server of the stored entries
	Tables []*schema.Table             // reported by Open
	Cut    func(remaining int) int     // size of the next batch, default all that remains
	Early  bool                        // close a transaction with a batch of its own, without changes
	OnAck  func(published int64) error // called before an acknowledgement is taken

	tx, change int
	closed     chan struct{}
	once       sync.Once
	arena      []byte
	values     []schema.Value
	changes    []connectors.Change
}

// New returns a source of the log.
func New(log *Log, server string, tables ...*schema.Table) *Source {
	return &Source{Log: log, Server: server, Tables: tables, closed: make(chan struct{})}
}

// Open positions the source at the stored boundary, or at the log's start.
func (s *Source) Open(_ context.Context, stored []offsets.Entry) (connectors.Opened, error) {
	n := int64(0)
	if o, ok := offsets.Find(stored, offsets.StreamPartition(s.Server)); ok {
		if n, ok = o.Int(FieldEnd); !ok {
			return connectors.Opened{}, connectors.Refuse(errors.New("the stored offset has no end"))
		}
	}
	if n < s.Log.Acked() {
		return connectors.Opened{}, connectors.Refuse(fmt.Errorf("transactions up to %d were acknowledged, only %d are stored: some are lost", s.Log.Acked(), n))
	}
	if n > s.Log.Len() {
		return connectors.Opened{}, connectors.Refuse(fmt.Errorf("%d transactions are stored, the log has %d", n, s.Log.Len()))
	}
	s.tx, s.change = int(n), 0
	return connectors.Opened{Start: Pos(int(n)), Boundary: Boundary(int(n)), Tables: s.Tables}, nil
}

// Next returns the next batch as Cut says.
func (s *Source) Next(ctx context.Context) (connectors.Batch, error) {
	s.scribble()
	tx, grown := s.Log.at(s.tx)
	for tx == nil {
		if err := s.wait(ctx, grown); err != nil {
			return connectors.Batch{}, err
		}
		tx, grown = s.Log.at(s.tx)
	}
	if err := s.wait(ctx, nil); err != nil {
		return connectors.Batch{}, err
	}
	if tx.Gate != nil && s.change >= tx.GateAt {
		if err := s.wait(ctx, tx.Gate); err != nil {
			return connectors.Batch{}, err
		}
	}
	remaining := len(tx.Changes) - s.change
	if tx.Err != nil && s.change >= tx.ErrAfter && s.Log.fails(s.tx, tx) {
		return connectors.Batch{}, tx.Err
	}
	n := remaining
	if s.Cut != nil && n > 0 {
		n = min(n, max(1, s.Cut(n)))
	}
	if tx.Err != nil && s.change < tx.ErrAfter {
		n = min(n, tx.ErrAfter-s.change)
	}
	if tx.Gate != nil && s.change < tx.GateAt {
		n = min(n, tx.GateAt-s.change)
	}
	b := connectors.Batch{
		Tx:      connectors.Transaction{Pos: Pos(s.tx), ID: uint64(s.tx + 1), CommitTime: int64(s.tx+1) * 1_000_000},
		Changes: s.copy(tx.Changes[s.change : s.change+n]),
	}
	atErr := s.change+n == tx.ErrAfter && s.Log.willFail(s.tx, tx)
	if n == remaining && !atErr && (n == 0 || !s.Early) {
		b.Last, b.Boundary, b.Lazy = true, Boundary(s.tx+1), tx.Lazy && len(tx.Changes) == 0
		s.tx, s.change = s.tx+1, 0
		return b, nil
	}
	s.change += n
	return b, nil
}

// wait waits for ready, or only looks at the others where ready is nil.
func (s *Source) wait(ctx context.Context, ready <-chan struct{}) error {
	if ready == nil {
		done := make(chan struct{})
		close(done)
		ready = done
	}
	select {
	case <-s.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	default:
	}
	select {
	case <-ready:
		return nil
	case <-s.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ack records the acknowledgement in the log.
func (s *Source) Ack(_ context.Context, published offsets.Object) error {
	n, ok := published.Int(FieldEnd)
	if !ok {
		return connectors.Refuse(errors.New("the acknowledged boundary has no end"))
	}
	if s.OnAck != nil {
		if err := s.OnAck(n); err != nil {
			return err
		}
	}
	return s.Log.ack(n)
}

// Close makes Next return.
func (s *Source) Close(context.Context) error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// copy copies changes into the source's own memory.
func (s *Source) copy(in []connectors.Change) []connectors.Change {
	for _, c := range in {
		c.Before, c.After, c.OldKey = s.copyRow(c.Before), s.copyRow(c.After), s.copyRow(c.OldKey)
		s.changes = append(s.changes, c)
	}
	return s.changes
}

func (s *Source) copyRow(row schema.Row) schema.Row {
	if row == nil {
		return nil
	}
	from := len(s.values)
	for _, v := range row {
		if v.Bytes != nil {
			at := len(s.arena)
			s.arena = append(s.arena, v.Bytes...)
			v.Bytes = s.arena[at:len(s.arena):len(s.arena)]
		}
		s.values = append(s.values, v)
	}
	return schema.Row(s.values[from:len(s.values):len(s.values)])
}

// scribble destroys the last batch.
func (s *Source) scribble() {
	for i := range s.arena {
		s.arena[i] = 0xDD
	}
	for i := range s.values {
		s.values[i] = schema.Value{}
	}
	for i := range s.changes {
		s.changes[i] = connectors.Change{}
	}
	s.arena, s.values, s.changes = s.arena[:0], s.values[:0], s.changes[:0]
}
