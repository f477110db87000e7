// Package encode turns changes into Kafka records: topics, headers, offset entries of tables, deletes and tombstones,
// sizes; what keys and values hold is up to a Format.
//
// The flat format, the default, in Avro: the key is the Avro record of the key columns, the value that of the row and
// its metadata, both in Confluent's wire format. Every record has the headers __pos, __seq, __gen and __op,
// the create half of a key change also __old_key, the old key's bytes. A delete is a record of
// the old image and a tombstone. A keyless table has a null key, partition 0 and no tombstones.
package encode

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
)

// The headers.
const (
	HeaderPos    = "__pos"     // commit position, compact JSON
	HeaderSeq    = "__seq"     // ordinal of the change in its commit group, ASCII decimal
	HeaderGen    = "__gen"     // generation, ASCII decimal
	HeaderOp     = "__op"      // c, u, d, r, t or m
	HeaderOldKey = "__old_key" // key before a key change, in wire format
)

// Encoder implements pipeline.Encoder. It is used by one goroutine.
type Encoder struct {
	cfg Config
	now func() time.Time
	ops map[connectors.Op][]byte

	generation int64
	genText    []byte
	stored     map[string]offsets.TableState // by qualified name, as loaded
	tables     map[string]*table             // by qualified name
	topics     map[string]taken              // by what collides
	plans      map[*schema.Table]*plan
	last       *plan
	messages   *plan     // of the logical messages; nil before the first
	brackets   *brackets // nil: no transaction topic
	meta       Meta
}

var (
	_ pipeline.Encoder            = (*Encoder)(nil)
	_ pipeline.TransactionEncoder = (*Encoder)(nil)
)

// New returns an encoder; it does not connect.
func New(cfg Config) (*Encoder, error) {
	switch {
	case cfg.Prefix == "":
		return nil, connectors.Refuse(errors.New("topic.prefix is missing"))
	case !cfg.Tombstones && !cfg.Deletes:
		return nil, connectors.Refuse(errNoDeletes)
	case cfg.Registry == nil || cfg.Topics == nil:
		return nil, connectors.Refuse(errors.New("an encoder needs a registry and topics"))
	}
	if cfg.Server == "" {
		cfg.Server = cfg.Prefix
	}
	if cfg.MaxRequestSize == 0 {
		cfg.MaxRequestSize = defaultMaxRequestSize
	}
	if cfg.Format == nil {
		cfg.Format = &flat{cfg.Prefix, cfg.MetadataPrefix, cfg.Key, cfg.Value}
	}
	ops := map[connectors.Op][]byte{}
	for _, op := range []connectors.Op{connectors.OpRead, connectors.OpCreate, connectors.OpUpdate, connectors.OpDelete, connectors.OpTruncate, connectors.OpMessage} {
		ops[op] = []byte{byte(op)}
	}
	return &Encoder{cfg: cfg, now: time.Now, ops: ops}, nil
}

// at says in front of an error which change it is about.
func at(b *connectors.Batch, change *connectors.Change, err error) error {
	if change.Op == connectors.OpRead {
		return fmt.Errorf("a row of a snapshot, at %s: %w", b.Tx.Pos, err)
	}
	return fmt.Errorf("transaction %s, change %d: %w", b.Tx.Pos, change.Seq, err)
}

// Encode appends the records of b.Changes[from:] until c is full; see pipeline.Encoder. A change
// that cannot be encoded blocks, naming transaction, table and column, never a value.
func (e *Encoder) Encode(ctx context.Context, c *pipeline.Chunk, b *connectors.Batch, from, limit int) (int, error) {
	if from >= len(b.Changes) {
		return from, nil
	}
	tx := transaction{pos: span(c, func(buf []byte) []byte { return append(buf, b.Tx.Pos...) })}
	clock := e.now()
	e.meta = Meta{Tx: &b.Tx, Gen: e.generation, Now: clock.UnixNano()}
	now := clock.UnixMilli()
	if e.brackets != nil {
		if err := e.beginBracket(c, &b.Tx); err != nil {
			return from, err
		}
	}
	for ; from < len(b.Changes); from++ {
		change := &b.Changes[from]
		if change.Op == connectors.OpMessage {
			if err := e.message(ctx, c, change, &tx, now); err != nil {
				return from, at(b, change, err)
			}
			if c.Size() >= limit {
				return from + 1, nil
			}
			continue
		}
		p := e.last
		if p == nil || p.table != change.Table {
			var err error
			if p, err = e.use(ctx, change.Table); err != nil {
				return from, at(b, change, err)
			}
			e.announce(c, p.of, p.state)
			e.last = p
			tx.of = nil
		}
		if tx.of != p {
			tx.of, tx.timestamp = p, clamp(b.Tx.CommitTime, now, &p.of.info)
		}
		if change.Op == connectors.OpTruncate {
			if err := e.truncate(ctx, c, p, change, &tx); err != nil {
				return from, at(b, change, err)
			}
		} else if err := e.change(c, p, change, &tx); err != nil {
			return from, connectors.Block(at(b, change, err))
		}
		if c.Size() >= limit {
			return from + 1, nil
		}
	}
	return from, nil
}

// transaction is what the changes of one call share.
type transaction struct {
	pos       []byte
	timestamp int64
	of        *plan // whose topic the timestamp was clamped for
}

// Progress appends the tables' entries with how far they have been read; see pipeline.Encoder. It does not make a version the one used last: rows
// of an older one may still come where the catalogue told of this one, and of a newer one they may have come.
func (e *Encoder) Progress(ctx context.Context, c *pipeline.Chunk, b *connectors.Batch) error {
	for i := range b.Progress {
		t := b.Progress[i].Table
		of, ok := e.tables[t.QualifiedName()]
		if !ok {
			var err error
			if of, err = e.open(ctx, t); err != nil {
				return fmt.Errorf("progress of the snapshot: %w", blockRefused(err))
			}
		}
		of.snapshot = b.Progress[i].Progress
		state := of.stored
		switch {
		case of.plan != nil:
			of.plan.state.Snapshot = of.snapshot
			state = of.plan.state
		case of.stored.Generation != e.generation:
			state = e.state(&plan{table: t, of: of})
		}
		state.Snapshot = of.snapshot
		e.announce(c, of, state)
	}
	return nil
}

// announce appends the table's entry where it is not stored like this.
func (e *Encoder) announce(c *pipeline.Chunk, of *table, state offsets.TableState) {
	if state == of.stored {
		return
	}
	of.stored = state
	c.Entries = append(c.Entries, offsets.Entry{Partition: offsets.TablePartition(e.cfg.Server, state.Name), Offset: state.Object()})
}

// change appends one change: a record, for a delete what is published of it.
func (e *Encoder) change(c *pipeline.Chunk, p *plan, change *connectors.Change, tx *transaction) error {
	op, ok := p.format.Op(change)
	if !ok {
		return nil
	}
	e.count(p.of, op, change.Seq)
	row := change.After
	if op == connectors.OpDelete {
		row = change.Before
	}
	r := pipeline.Record{Topic: p.of.topic, Timestamp: tx.timestamp}
	if p.keyed {
		key, err := e.appendKey(c, p, row)
		if err != nil {
			return err
		}
		r.Key, r.Partition = key, offsets.KafkaPartition(key, p.of.info.Partitions)
	}
	if err := e.headers(c, p, change, tx, &r); err != nil {
		return err
	}
	if op != connectors.OpDelete || e.cfg.Deletes || !p.keyed {
		at := len(c.Buf)
		c.Buf = e.head(c.Buf, p.valueID)
		buf, err := p.format.AppendValue(c.Buf, change, &e.meta)
		if err != nil {
			return err
		}
		c.Buf = buf
		r.Value = c.Buf[at:len(c.Buf):len(c.Buf)]
		if size := recordSize(&r); size > p.limit {
			return fmt.Errorf("the record of table %s for topic %s has %d bytes: raise %s, or exclude the large column", p.table.QualifiedName(), p.of.topic, size, p.limitCause)
		}
		c.Records = append(c.Records, r)
	}
	if op == connectors.OpDelete && e.cfg.Tombstones && p.keyed {
		r.Value = nil
		c.Records = append(c.Records, r)
	}
	return nil
}

func (e *Encoder) appendKey(c *pipeline.Chunk, p *plan, row schema.Row) ([]byte, error) {
	at := len(c.Buf)
	c.Buf = e.head(c.Buf, p.of.keyID)
	buf, err := p.format.AppendKey(c.Buf, row)
	if err != nil {
		return nil, err
	}
	c.Buf = buf
	return c.Buf[at:len(c.Buf):len(c.Buf)], nil
}

// count numbers a record in its transaction.
func (e *Encoder) count(of *table, op connectors.Op, seq int64) {
	e.meta.Op, e.meta.Seq = op, seq
	t := e.brackets
	if t == nil || e.meta.Tx.ID == 0 {
		return
	}
	if of.events == 0 {
		t.counts = append(t.counts, of)
	}
	t.total++
	of.events++
	e.meta.Total, e.meta.Own = t.total, of.events
}

// headers appends the record's headers: the format's, then ours.
func (e *Encoder) headers(c *pipeline.Chunk, p *plan, change *connectors.Change, tx *transaction, r *pipeline.Record) error {
	from := len(c.Headers)
	if err := p.format.AppendHeaders(c, change); err != nil {
		return err
	}
	at := len(c.Buf)
	c.Buf = strconv.AppendInt(c.Buf, change.Seq, 10)
	seq := c.Buf[at:len(c.Buf):len(c.Buf)]
	c.Headers = append(c.Headers,
		pipeline.Header{Key: HeaderPos, Value: tx.pos}, pipeline.Header{Key: HeaderSeq, Value: seq},
		pipeline.Header{Key: HeaderGen, Value: e.genText}, pipeline.Header{Key: HeaderOp, Value: e.ops[e.meta.Op]})
	if change.OldKey != nil && p.keyed {
		old, err := e.appendKey(c, p, change.OldKey)
		if err != nil {
			return err
		}
		c.Headers = append(c.Headers, pipeline.Header{Key: HeaderOldKey, Value: old})
	}
	r.Headers = c.Headers[from:len(c.Headers):len(c.Headers)]
	return nil
}

// span appends to the chunk's buffer and returns what was appended.
func span(c *pipeline.Chunk, add func([]byte) []byte) []byte {
	at := len(c.Buf)
	c.Buf = add(c.Buf)
	return c.Buf[at:len(c.Buf):len(c.Buf)]
}

// recordSize is at least what a record batch with only this record takes, before compression:
// the batch's head of 61 bytes, and lengths as the longest varints they can be.
//
// Format: https://kafka.apache.org/documentation/#recordbatch
func recordSize(r *pipeline.Record) int {
	const batch, record, header = 61, 5 + 1 + 10 + 5 + 5 + 5 + 5, 5 + 5
	n := batch + record + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += header + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// clockMargin keeps a clamped timestamp inside the limit when the broker's clock is ahead or the record waits.
const clockMargin = int64(10 * 60 * 1000)

// clamp returns a commit time as the topic takes it, in milliseconds: no further from now than
// its limits (KIP-1030), which refuse the record otherwise.
func clamp(micros, now int64, info *pipeline.TopicInfo) int64 {
	ms := micros / 1000
	if micros%1000 < 0 {
		ms--
	}
	if before := info.TimestampBeforeMaxMs; before > 0 && before < math.MaxInt64-clockMargin {
		ms = max(ms, now-before+min(clockMargin, before/2))
	}
	if after := info.TimestampAfterMaxMs; after > 0 && after < math.MaxInt64-now {
		ms = min(ms, now+after-min(clockMargin, after/2))
	}
	return max(ms, 0) // the broker takes no negative time
}
