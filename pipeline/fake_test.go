package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/offsets/memstore"
	"github.com/tidemark-cdc/tidemark/schema"
)

const server = "srv"

// verdict is what happens to one call at the broker.
type verdict int

const (
	works   verdict = iota
	fails           // nothing happened
	unknown         // it happened, the answer was lost
	crash           // nothing happened, and this worker is gone
	expired         // the broker has ended the transaction
	verdicts
)

// broker models Kafka: records become visible with their offsets at a commit, and only the newest producer may write.
// It checks at every commit that what is visible is exactly what the stored boundary covers.
type broker struct {
	log   *sourcetest.Log
	store *memstore.Store
	want  []string // every record, in order
	ends  []int    // ends[n]: records of the first n source transactions

	mu       sync.Mutex
	epoch    int
	visible  []string
	stored   int64 // boundary committed last
	commits  []commit
	gens     []string
	calls    int
	faults   map[int]verdict
	delay    time.Duration // of each commit
	keep     time.Duration // until a sink gives a chunk back
	problems []string
	aborts   int
	acks     []int64
	refuse   string // a commit with a record that holds this is refused
}

type commit struct {
	records int
	at      time.Time
	entries []offsets.Entry
}

func (b *broker) complain(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// expect computes what a faultless run publishes.
func (b *broker) expect(txs []sourcetest.Tx) {
	base := len(b.ends) - 1
	for i, tx := range txs {
		for j, c := range tx.Changes {
			if !skipped(&c) {
				b.want = append(b.want, sourcetest.Pos(base+i)+" "+fmt.Sprint(j)+" "+string(c.After[1].Bytes))
			}
		}
		b.ends = append(b.ends, len(b.want))
	}
}

func (b *broker) append(txs ...sourcetest.Tx) {
	b.mu.Lock()
	b.expect(txs)
	b.mu.Unlock()
	b.log.Append(txs...)
}

func newBroker() *broker {
	return &broker{log: sourcetest.NewLog(), store: memstore.New(), ends: []int{0}, faults: map[int]verdict{}}
}

// onAck is the source's view: never ahead of what is committed.
func (b *broker) onAck(n int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.stored {
		b.complain("acknowledged %d, committed %d", n, b.stored)
	}
	b.acks = append(b.acks, n)
	return nil
}

func (b *broker) verdict(s *sink) verdict {
	v := b.faults[b.calls]
	b.calls++
	if s.dead {
		return fails
	}
	if v == crash {
		s.dead = true
		return fails
	}
	return v
}

// sink is one producer.
type sink struct {
	b     *broker
	epoch int
	dead  bool
	open  []string
	gens  []string
	kept  []*Chunk

	entries []offsets.Entry // of the chunks written
}

var errKafka = errors.New("kafka is away")

func (s *sink) Fence(context.Context) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if v := s.b.verdict(s); v == fails {
		return errKafka
	}
	s.b.epoch++
	s.epoch = s.b.epoch
	return nil
}

func (s *sink) failed(v verdict) error {
	switch {
	case s.epoch != s.b.epoch:
		return connectors.WithClass(connectors.ClassFenced, errors.New("fenced"))
	case v == expired:
		return fmt.Errorf("produce: %w", ErrTransactionTimedOut)
	case v == fails:
		return errKafka
	}
	return nil
}

func (s *sink) Write(_ context.Context, c *Chunk) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.kept = append(s.kept, c)
	if err := s.failed(s.b.verdict(s)); err != nil {
		return err
	}
	s.entries = append(s.entries, c.Entries...)
	if s.b.keep == 0 {
		s.flush()
		return nil
	}
	time.AfterFunc(s.b.keep, func() {
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		if len(s.kept) > 0 {
			s.flush()
		}
	})
	return nil
}

// flush reads the oldest chunk as late as a client may.
func (s *sink) flush() {
	c := s.kept[0]
	s.kept = s.kept[1:]
	for _, r := range c.Records {
		if r.Topic == "gens" {
			s.gens = append(s.gens, string(r.Key)+" "+string(r.Value))
			continue
		}
		s.open = append(s.open, string(r.Value))
	}
	c.Release()
}

func (s *sink) Commit(ctx context.Context, entries ...offsets.Entry) error {
	if s.b.delay > 0 {
		time.Sleep(s.b.delay)
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	v := s.b.verdict(s)
	if err := s.failed(v); err != nil {
		return err
	}
	for len(s.kept) > 0 {
		s.flush()
	}
	for _, r := range s.open {
		if s.b.refuse != "" && strings.Contains(r, s.b.refuse) {
			return connectors.Block(errors.New("the broker refuses a record"))
		}
	}
	s.b.commit(s, append(s.entries, entries...))
	s.open, s.gens, s.entries = nil, nil, nil
	if v == unknown {
		return errors.New("no answer to the commit")
	}
	return nil
}

func (b *broker) commit(s *sink, entries []offsets.Entry) {
	for i, r := range s.open {
		if at := len(b.visible) + i; at >= len(b.want) || b.want[at] != r {
			b.complain("record %d is %q", at, r)
		}
	}
	b.visible = append(b.visible, s.open...)
	b.gens = append(b.gens, s.gens...)
	b.commits = append(b.commits, commit{len(s.open), time.Now(), append([]offsets.Entry(nil), entries...)})
	b.store.Apply(entries...)
	last := entries[len(entries)-1]
	n, ok := last.Offset.Int(sourcetest.FieldEnd)
	if !ok || !last.Partition.Equal(offsets.StreamPartition(server)) {
		b.complain("the last entry of a commit is %v", last)
		return
	}
	if b.stored > n {
		b.complain("the boundary went back from %d to %d", b.stored, n)
	}
	b.stored = n
	if b.ends[n] != len(b.visible) {
		b.complain("boundary %d covers %d records, %d are visible", n, b.ends[n], len(b.visible))
	}
}

func (s *sink) Abort(context.Context) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.aborts++
	for _, c := range s.kept {
		c.Release()
	}
	s.open, s.gens, s.kept, s.entries = nil, nil, nil, nil
	return nil
}

func (s *sink) Close(ctx context.Context) error { return s.Abort(ctx) }

// encoder writes each change as "<pos> <seq> <v>".
type encoder struct {
	used map[string]bool
	gen  int64
	err  func(c *connectors.Change) error
}

// skipped changes are filtered by the encoder.
func skipped(c *connectors.Change) bool { return string(c.After[1].Bytes) == "skip" }

func (e *encoder) Prepare(_ context.Context, gen int64, _ []*schema.Table, _ []offsets.Entry) error {
	e.used, e.gen = map[string]bool{}, gen
	return nil
}

func (e *encoder) Progress(_ context.Context, c *Chunk, b *connectors.Batch) error {
	for _, p := range b.Progress {
		c.Entries = append(c.Entries, offsets.Entry{Partition: offsets.TablePartition(server, p.Table.QualifiedName()), Offset: offsets.TableState{Snapshot: p.Progress}.Object()})
	}
	return nil
}

func (e *encoder) Encode(_ context.Context, c *Chunk, b *connectors.Batch, from, limit int) (int, error) {
	for ; from < len(b.Changes); from++ {
		change := &b.Changes[from]
		if e.err != nil {
			if err := e.err(change); err != nil {
				return from, err
			}
		}
		if skipped(change) {
			continue
		}
		name := change.Table.QualifiedName()
		if !e.used[name] {
			e.used[name] = true
			c.Entries = append(c.Entries, offsets.Entry{Partition: offsets.TablePartition(server, name), Offset: offsets.Object{{Name: "generation", Value: e.gen}}})
		}
		at := len(c.Buf)
		c.Buf = append(c.Buf, b.Tx.Pos+" "+fmt.Sprint(change.Seq)+" "...)
		c.Buf = append(c.Buf, change.After[1].Bytes...)
		c.Records = append(c.Records, Record{Topic: "t", Value: c.Buf[at:len(c.Buf):len(c.Buf)]})
		if c.Size() >= limit {
			return from + 1, nil
		}
	}
	return from, nil
}

type highest int64

func (h highest) Highest(context.Context, []*schema.Table) (int64, error) { return int64(h), nil }

// config is one of small limits and fake parts.
func (b *broker) config(enc Encoder, adjust func(*sourcetest.Source)) Config {
	return Config{
		NewSource: func() (connectors.Source, error) {
			s := sourcetest.New(b.log, server, sourcetest.Table("a"))
			s.OnAck = b.onAck
			if adjust != nil {
				adjust(s)
			}
			return s, nil
		},
		NewSink: func() (Sink, error) { return &sink{b: b}, nil },
		Encoder: enc, Store: b.store, Generations: highest(0),
		Server: server, Connector: "c", Group: "g", GenerationsTopic: "gens",
		ChunkBytes: 4 << 10, MemoryBudget: 64 << 10,
	}
}

// tx makes a transaction of n inserts.
func tx(n int, v string) sourcetest.Tx { return txOf(sourcetest.Table("a"), n, v) }

func txOf(table *schema.Table, n int, v string) sourcetest.Tx {
	var t sourcetest.Tx
	for i := range n {
		t.Changes = append(t.Changes, sourcetest.Insert(table, int64(i), v))
	}
	return t
}

// done tells that everything appended is committed and acknowledged.
func (b *broker) done() bool {
	n := b.log.Len()
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.gens) > 0 && b.stored == n && b.log.Acked() == n
}

func (b *broker) report() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.problems, "\n")
}

// until waits in small steps (of a synctest bubble's clock) and reports whether cond came true.
func until(limit time.Duration, cond func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return cond()
}
