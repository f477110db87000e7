package encode

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// MessageTopic is the topic of logical messages, <prefix>.message.
func (e *Encoder) MessageTopic() string { return e.cfg.Prefix + ".message" }

// messageTable is the shape of logical messages in the flat format.
func messageTable() *schema.Table {
	return &schema.Table{Name: "message", Key: []int{0}, Columns: []schema.Column{
		{Name: "prefix", NotNull: true, Type: schema.Type{Kind: schema.KindString}},
		{Name: "content", Type: schema.Type{Kind: schema.KindBytes}},
		{Name: "transactional", Type: schema.Type{Kind: schema.KindBool}},
	}}
}

// messageRow is a message as a row of messageTable.
func messageRow(m *connectors.Message) schema.Row {
	return schema.Row{schema.Text([]byte(m.Prefix)), schema.Bytes(m.Content), schema.Bool(m.Transactional)}
}

// openMessages makes the message topic and its schemas known, at the first message. It is no table: it has no entry.
func (e *Encoder) openMessages(ctx context.Context) error {
	if e.messages != nil {
		return nil
	}
	p := &plan{table: messageTable(), of: &table{name: "message", topic: e.MessageTopic()}, keyed: true}
	e.cfg.Topics.Forget(p.of.topic)
	var err error
	if p.of.info, err = e.cfg.Topics.Ensure(ctx, p.of.topic, false); err != nil {
		return blockRefused(err)
	}
	if p.format, err = e.cfg.Format.Messages(); err != nil {
		return connectors.Block(err)
	}
	if p.of.keyID, err = e.resolve(ctx, registry.KeySubject(p.of.topic), p.format.Schemas().Key); err != nil {
		return err
	}
	if p.valueID, err = e.resolve(ctx, registry.ValueSubject(p.of.topic), p.format.Schemas().Value); err != nil {
		return err
	}
	e.limit(p)
	e.messages = p
	return nil
}

// message appends a logical message.
func (e *Encoder) message(ctx context.Context, c *pipeline.Chunk, change *connectors.Change, tx *transaction, now int64) error {
	if err := e.openMessages(ctx); err != nil {
		return err
	}
	p := e.messages
	own := transaction{pos: tx.pos, timestamp: clamp(e.meta.Tx.CommitTime, now, &p.of.info)}
	m := *change
	m.After = messageRow(change.Message)
	if err := e.change(c, p, &m, &own); err != nil {
		return connectors.Block(err)
	}
	return nil
}

// truncate appends a truncate of a table: a record without key in each partition of its topic.
func (e *Encoder) truncate(ctx context.Context, c *pipeline.Chunk, p *plan, change *connectors.Change, tx *transaction) error {
	if strings.Contains(p.of.info.CleanupPolicy, "compact") {
		return connectors.Block(fmt.Errorf("table %s was truncated, and its topic %s is compacted: it takes no record without a key; ways out: set skipped.operations=t, which passes over it and goes on at this place, or cleanup.policy=delete on the topic", p.table.QualifiedName(), p.of.topic))
	}
	if p.truncate == nil {
		format, err := e.cfg.Format.Truncate(p.table)
		if err != nil {
			return connectors.Block(err)
		}
		id := p.valueID
		if text := format.Schemas().Value; text != p.format.Schemas().Value {
			if id, err = e.resolve(ctx, truncateSubject(p.of.topic), text); err != nil {
				return err
			}
		}
		p.truncate, p.truncateID = format, id
	}
	e.count(p.of, change.Op, change.Seq)
	r := pipeline.Record{Topic: p.of.topic, Timestamp: tx.timestamp}
	if err := e.headers(c, p, change, tx, &r); err != nil {
		return connectors.Block(err)
	}
	at := len(c.Buf)
	buf, err := p.truncate.AppendValue(e.head(c.Buf, p.truncateID), change, &e.meta)
	if err != nil {
		return connectors.Block(err)
	}
	c.Buf = buf
	r.Value = c.Buf[at:len(c.Buf):len(c.Buf)]
	for r.Partition = range p.of.info.Partitions {
		c.Records = append(c.Records, r)
	}
	return nil
}

// truncateSubject is not the subject of the table's values: the next version of those would be judged against the metadata alone, and refused
// for its key columns, which have no default.
func truncateSubject(topic string) string { return registry.ValueSubject(topic + "-truncate") }

// Messages writes logical messages like rows of a table of their own.
func (f *flat) Messages() (TableFormat, error) { return f.Table(messageTable()) }

// Truncate writes a truncate: the metadata alone, since key columns have no null.
func (f *flat) Truncate(t *schema.Table) (TableFormat, error) {
	o := f.options(t)
	o.Namespace = append(avro.Namespace(f.prefix, t.Namespace, t.Name), "truncate")
	return f.compile(&schema.Table{Namespace: t.Namespace, Name: t.Name}, o)
}
