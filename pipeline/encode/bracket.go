package encode

import (
	"context"
	"fmt"
	"strconv"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// brackets publishes the transaction topic.
type brackets struct {
	format         Brackets
	topic          string
	info           pipeline.TopicInfo
	keyID, valueID int

	begun  bool
	total  int64
	counts []*table // of the transaction, in the order of their first record
	list   []Count
}

// TransactionTopic is the topic of the ends of transactions: topic.transaction, or <prefix>.transaction.
func (e *Encoder) TransactionTopic() string {
	if e.cfg.TransactionTopic != "" {
		return e.cfg.TransactionTopic
	}
	return e.cfg.Prefix + ".transaction"
}

// PublishesTransactions reports whether transactions have records of their own.
func (e *Encoder) PublishesTransactions() bool { return e.cfg.Transactions }

// openBrackets makes the transaction topic and its schemas known.
func (e *Encoder) openBrackets(ctx context.Context) (err error) {
	e.brackets = nil
	if !e.cfg.Transactions {
		return nil
	}
	if topic := e.TransactionTopic(); topic == e.MessageTopic() || topic == GenerationsTopic(e.cfg.Prefix) {
		return connectors.Refuse(fmt.Errorf("the topic of the transactions, %s, is one that the stream needs itself; set topic.transaction to another name", topic))
	}
	t := &brackets{format: e.cfg.Format.Brackets(), topic: e.TransactionTopic()}
	e.cfg.Topics.Forget(t.topic)
	if t.info, err = e.cfg.Topics.Ensure(ctx, t.topic, false); err != nil {
		return err
	}
	s := t.format.Schemas()
	if t.keyID, err = e.resolve(ctx, registry.KeySubject(t.topic), s.Key); err != nil {
		return err
	}
	if t.valueID, err = e.resolve(ctx, registry.ValueSubject(t.topic), s.Value); err != nil {
		return err
	}
	e.brackets = t
	return nil
}

// BeginTransaction forgets what was counted; see pipeline.TransactionEncoder.
func (e *Encoder) BeginTransaction() {
	t := e.brackets
	if t == nil {
		return
	}
	for _, of := range t.counts {
		of.events = 0
	}
	t.begun, t.total, t.counts = false, 0, t.counts[:0]
}

// EndTransaction appends the record of a transaction's end; see pipeline.TransactionEncoder.
func (e *Encoder) EndTransaction(_ context.Context, c *pipeline.Chunk, b *connectors.Batch) error {
	t := e.brackets
	if t == nil || b.Tx.ID == 0 { // what is no transaction: a heartbeat, a message outside of one
		return nil
	}
	if err := e.beginBracket(c, &b.Tx); err != nil {
		return err
	}
	t.list = t.list[:0]
	for _, of := range t.counts {
		t.list = append(t.list, Count{of.name, of.events})
	}
	return e.bracket(c, &Bracket{End: true, Tx: &b.Tx, Gen: e.generation, Events: t.total, Counts: t.list})
}

// beginBracket appends the record of a transaction's begin, once, where the format has one.
func (e *Encoder) beginBracket(c *pipeline.Chunk, tx *connectors.Transaction) error {
	t := e.brackets
	if t.begun || tx.ID == 0 {
		return nil
	}
	t.begun = true
	if !t.format.Begins() {
		return nil
	}
	return e.bracket(c, &Bracket{Tx: tx, Gen: e.generation})
}

func (e *Encoder) bracket(c *pipeline.Chunk, b *Bracket) (err error) {
	t := e.brackets
	defer func() {
		if err != nil {
			err = connectors.Block(fmt.Errorf("transaction %s: record of topic %s: %w", b.Tx.Pos, t.topic, err))
		}
	}()
	r := pipeline.Record{Topic: t.topic, Timestamp: clamp(b.Tx.CommitTime, e.now().UnixMilli(), &t.info)}
	at := len(c.Buf)
	if c.Buf, err = t.format.AppendKey(e.head(c.Buf, t.keyID), b); err != nil {
		return err
	}
	r.Key = c.Buf[at:len(c.Buf):len(c.Buf)]
	if t.format.Begins() {
		r.Partition = offsets.KafkaPartition(r.Key, t.info.Partitions)
	} // else all in order, in partition 0
	at = len(c.Buf)
	if c.Buf, err = t.format.AppendValue(e.head(c.Buf, t.valueID), b); err != nil {
		return err
	}
	r.Value = c.Buf[at:len(c.Buf):len(c.Buf)]
	from := len(c.Headers)
	pos := span(c, func(buf []byte) []byte { return append(buf, b.Tx.Pos...) })
	c.Headers = append(c.Headers, pipeline.Header{Key: HeaderPos, Value: pos}, pipeline.Header{Key: HeaderGen, Value: e.genText})
	r.Headers = c.Headers[from:len(c.Headers):len(c.Headers)]
	c.Records = append(c.Records, r)
	return nil
}

// head appends the wire format's header where the side has a registered schema.
func (e *Encoder) head(dst []byte, id int) []byte {
	if id == 0 {
		return dst
	}
	return registry.AppendHeader(dst, id)
}

// flatBrackets is the flat format's END.
type flatBrackets struct{ key, value *connect.Writer }

func (f *flat) Brackets() Brackets {
	text, long := connect.Of(connect.String), connect.Of(connect.Int64)
	name := func(last string) string {
		return schemaName(f.options(&schema.Table{Name: "transaction"}), last)
	}
	count := &connect.Schema{Type: connect.Struct, Name: name("Count"), Fields: []connect.Field{{Name: "data_collection", Schema: text}, {Name: "event_count", Schema: long}}}
	o := f.options(&schema.Table{})
	pos := connect.Field{Name: o.Field("pos"), Schema: text}
	value := &connect.Schema{Type: connect.Struct, Name: name("Value"), Fields: []connect.Field{
		{Name: "status", Schema: text}, {Name: "id", Schema: text}, {Name: "event_count", Schema: long},
		{Name: "data_collections", Schema: &connect.Schema{Type: connect.Array, Elem: count}},
		pos, {Name: o.Field("gen"), Schema: long}, {Name: o.Field("ts_us"), Schema: long},
	}}
	key := &connect.Schema{Type: connect.Struct, Name: name("Key"), Fields: []connect.Field{pos}}
	return &flatBrackets{connect.NewWriter(key, f.key), connect.NewWriter(value, f.value)}
}

func (f *flatBrackets) Schemas() Schemas {
	return Schemas{Key: f.key.Registered(), Value: f.value.Registered(), Fixed: f.key.Fixed()}
}

func (f *flatBrackets) Begins() bool { return false }

func (f *flatBrackets) AppendKey(dst []byte, b *Bracket) ([]byte, error) {
	v := schema.Array([]schema.Value{schema.Text([]byte(b.Tx.Pos))})
	return f.key.Append(dst, &v)
}

func (f *flatBrackets) AppendValue(dst []byte, b *Bracket) ([]byte, error) {
	counts := make([]schema.Value, len(b.Counts))
	for i, c := range b.Counts {
		counts[i] = schema.Array([]schema.Value{schema.Text([]byte(c.Table)), schema.Int(c.Events)})
	}
	v := schema.Array([]schema.Value{
		schema.Text([]byte("END")), schema.Text(strconv.AppendUint(nil, b.Tx.ID, 10)), schema.Int(b.Events), schema.Array(counts),
		schema.Text([]byte(b.Tx.Pos)), schema.Int(b.Gen), schema.Int(b.Tx.CommitTime),
	})
	return f.value.Append(dst, &v)
}
