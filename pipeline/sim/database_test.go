package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
	"github.com/tidemark-cdc/tidemark/schema"
)

var tables = []*schema.Table{sourcetest.Table("a"), sourcetest.Table("b"), sourcetest.Table("c")}

// database is what the sources read: a log, and the rows it makes.
type database struct {
	log *sourcetest.Log

	mu      sync.Mutex
	rows    map[*schema.Table]map[int64]string
	written []int // changes of each transaction
	next    int
	reader  *source // who has the slot, where there is one
	freed   chan struct{}
}

func newDatabase() *database {
	d := &database{log: sourcetest.NewLog(), rows: map[*schema.Table]map[int64]string{}, freed: make(chan struct{})}
	for _, t := range tables {
		d.rows[t] = map[int64]string{}
	}
	return d
}

// commit appends one transaction.
func (d *database) commit(r *rand.Rand) {
	sizes := []int{0, 0, 0, 1, 1, 1, 2, 2, 3, 5, 10, 30, 30 + r.IntN(2)*200}
	tx := sourcetest.Tx{Lazy: r.IntN(2) == 0}
	d.mu.Lock()
	for range sizes[r.IntN(len(sizes))] {
		tx.Changes = append(tx.Changes, d.change(r)...)
	}
	d.written = append(d.written, len(tx.Changes))
	d.mu.Unlock()
	if r.IntN(15) == 0 { // the connection to the database ends in the middle of it
		tx.Err, tx.ErrAfter, tx.Once = errors.New("the database ended the connection"), r.IntN(len(tx.Changes)+1), true
	}
	d.log.Append(tx)
}

// change changes one row, a hot one in half of the cases, or its key.
func (d *database) change(r *rand.Rand) []connectors.Change {
	t := tables[r.IntN(len(tables))]
	id := int64(r.IntN(100))
	if r.IntN(2) == 0 {
		id = int64(r.IntN(3))
	}
	d.next++
	v := fmt.Sprint(d.next, strings.Repeat("x", []int{0, 10, 200}[r.IntN(3)]))
	was, there := d.rows[t][id]
	old, row := schema.Row{schema.Int(id), schema.Text([]byte(was))}, schema.Row{schema.Int(id), schema.Text([]byte(v))}
	switch {
	case !there:
		d.rows[t][id] = v
		return []connectors.Change{{Op: connectors.OpCreate, Table: t, After: row}}
	case r.IntN(4) == 0:
		delete(d.rows[t], id)
		return []connectors.Change{sourcetest.Delete(t, id)}
	case r.IntN(8) == 0:
		to := int64(100 + d.next)
		moved := schema.Row{schema.Int(to), schema.Text([]byte(v))}
		delete(d.rows[t], id)
		d.rows[t][to] = v
		del := sourcetest.Delete(t, id)
		del.NewKey = moved
		return []connectors.Change{del, {Op: connectors.OpCreate, Table: t, After: moved, OldKey: old}}
	}
	d.rows[t][id] = v
	return []connectors.Change{{Op: connectors.OpUpdate, Table: t, After: row}}
}

// content is the tables as they are, by topic.
func (d *database) content() map[string]verify.Table {
	out := map[string]verify.Table{}
	for _, t := range tables {
		c := verify.Table{Columns: []string{"id", "v"}}
		for id, v := range d.rows[t] {
			key := fmt.Sprint(id)
			c.Rows = append(c.Rows, []verify.Text{&key, &v})
		}
		out[topicOf(t)] = c
	}
	return out
}

// size returns how many changes transaction n has.
func (d *database) size(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.written[n]
}

// source is a worker's source.
type source struct {
	*sourcetest.Source
	d     *database
	w     *worker
	later *time.Timer // of the acknowledgement under way
}

var errDead = errors.New("this worker was killed")

// take waits for the slot, where there is one. A killed worker's is free after a while.
func (s *source) take(ctx context.Context) error {
	for {
		s.d.mu.Lock()
		holder, freed := s.d.reader, s.d.freed
		if holder == nil || holder.w.host.killed() {
			s.d.reader = s
			s.d.mu.Unlock()
			return nil
		}
		s.d.mu.Unlock()
		select {
		case <-freed:
		case <-holder.w.host.dead:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(3 * time.Second):
			return errors.New("the slot is active for another process")
		}
	}
}

func (s *source) Open(ctx context.Context, stored []offsets.Entry) (connectors.Opened, error) {
	if s.w.r.plan.exclusive {
		if err := s.take(ctx); err != nil {
			return connectors.Opened{}, err
		}
	}
	if s.w.host.killed() {
		return connectors.Opened{}, errDead
	}
	return s.Source.Open(ctx, stored)
}

func (s *source) Next(ctx context.Context) (connectors.Batch, error) {
	if s.w.host.killed() {
		return connectors.Batch{}, errDead
	}
	return s.Source.Next(ctx)
}

func (s *source) Ack(ctx context.Context, published offsets.Object) error {
	if s.w.host.killed() {
		return errDead
	}
	n, ok := published.Int(sourcetest.FieldEnd)
	if !ok {
		return connectors.Refuse(errors.New("the acknowledged boundary has no end"))
	}
	s.w.r.judge.acknowledged(s.w, n)
	if s.w.r.plan.slowAcks && n%3 == 0 { // under way: it arrives unless the worker ends before
		s.later = time.AfterFunc(2*time.Second, func() { _ = s.confirm(context.Background(), n, published) })
		return nil
	}
	return s.confirm(ctx, n, published)
}

// confirm drops what is older, of a worker that was overtaken or that overtook itself.
func (s *source) confirm(ctx context.Context, n int64, published offsets.Object) error {
	if s.w.host.killed() || n < s.d.log.Acked() {
		return nil
	}
	return s.Source.Ack(ctx, published)
}

func (s *source) Close(ctx context.Context) error {
	if s.later != nil {
		s.later.Stop()
	}
	s.d.mu.Lock()
	if s.d.reader == s {
		s.d.reader = nil
		close(s.d.freed)
		s.d.freed = make(chan struct{})
	}
	s.d.mu.Unlock()
	return s.Source.Close(ctx)
}
