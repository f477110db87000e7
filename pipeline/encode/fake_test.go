package encode

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// fakeRegistry gives ids in the order it is asked, from 1.
type fakeRegistry struct {
	ids   map[string]int
	texts []string
	err   error // for what it does not know
	byID  error // of SchemaByID
}

func (r *fakeRegistry) Resolve(_ context.Context, subject, text string) (int, error) {
	if id, ok := r.ids[subject+text]; ok {
		return id, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	r.texts = append(r.texts, text)
	r.ids[subject+text] = len(r.texts)
	return len(r.texts), nil
}

func (r *fakeRegistry) SchemaByID(_ context.Context, id int) (string, error) {
	if r.byID != nil {
		return "", r.byID
	}
	if id < 1 || id > len(r.texts) {
		return "", errAway
	}
	return r.texts[id-1], nil
}

type fakeTopics struct {
	info      map[string]pipeline.TopicInfo
	forgotten []string
	mu        sync.Mutex
	used      map[string]bool
	atOnce    atomic.Int32
	most      atomic.Int32 // calls of Ensure side by side
	hold      func()       // runs in every Ensure
}

func (f *fakeTopics) Ensure(_ context.Context, topic string, used bool) (pipeline.TopicInfo, error) {
	f.most.Store(max(f.most.Load(), f.atOnce.Add(1)))
	defer f.atOnce.Add(-1)
	if f.hold != nil {
		f.hold()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if used {
		f.used = map[string]bool{topic: true}
	}
	if info, ok := f.info[topic]; ok {
		return info, nil
	}
	return pipeline.TopicInfo{Partitions: 6}, nil
}

func (f *fakeTopics) Forget(topic string) { f.forgotten = append(f.forgotten, topic) }

// rig is an encoder with its surroundings.
type rig struct {
	*Encoder
	registry *fakeRegistry
	topics   *fakeTopics
}

func newRig(t testing.TB, adjust func(*Config)) rig {
	t.Helper()
	r := rig{registry: &fakeRegistry{ids: map[string]int{}}, topics: &fakeTopics{info: map[string]pipeline.TopicInfo{}}}
	cfg := Config{Prefix: "shop", Tombstones: true, Deletes: true, Registry: r.registry, Topics: r.topics}
	if adjust != nil {
		adjust(&cfg)
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.now = func() time.Time { return time.UnixMilli(1_700_000_100_000) }
	r.Encoder = e
	return r
}

func (r rig) prepare(t testing.TB, generation int64, stored []offsets.Entry, tables ...*schema.Table) {
	t.Helper()
	if err := r.Prepare(context.Background(), generation, tables, stored); err != nil {
		t.Fatal(err)
	}
}

// encode encodes changes as one transaction.
func (r rig) encode(changes ...connectors.Change) (*pipeline.Chunk, error) {
	for i := range changes {
		changes[i].Seq = int64(i)
	}
	b := connectors.Batch{
		Tx:      connectors.Transaction{Pos: `{"lsn":"0/15D6A30"}`, CommitTime: 1_700_000_000_123_456},
		Changes: changes, Last: true,
	}
	c := &pipeline.Chunk{}
	_, err := r.Encode(context.Background(), c, &b, 0, 1<<30)
	return c, err
}

// dump writes a chunk as text: the records with key and value as JSON, then the entries.
func (r rig) dump(t testing.TB, c *pipeline.Chunk) string {
	t.Helper()
	var b strings.Builder
	for _, rec := range c.Records {
		fmt.Fprintf(&b, "%s/%d @%d\n", rec.Topic, rec.Partition, rec.Timestamp)
		fmt.Fprintf(&b, "  key   %s\n", r.text(t, rec.Key))
		fmt.Fprintf(&b, "  value %s\n", r.text(t, rec.Value))
		for _, h := range rec.Headers {
			if h.Key == HeaderOldKey {
				fmt.Fprintf(&b, "  %s %s\n", h.Key, r.text(t, h.Value))
				continue
			}
			fmt.Fprintf(&b, "  %s %s\n", h.Key, h.Value)
		}
	}
	for _, e := range c.Entries {
		fmt.Fprintf(&b, "entry %s %s\n", e.Partition, e.Offset)
	}
	return b.String()
}

func (r rig) text(t testing.TB, data []byte) string {
	t.Helper()
	if data == nil {
		return "null"
	}
	id, body, err := registry.ParseHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	codec, err := avro.NewCodec(r.registry.texts[id-1])
	if err != nil {
		t.Fatal(err)
	}
	text, err := codec.AppendJSON(nil, body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s  [%s]", text, hex.EncodeToString(data))
}

var errAway = errors.New("schema registry http://r:8081 cannot be reached")

// ordersTable has the columns of the benchmark.
func ordersTable() *schema.Table {
	return &schema.Table{
		ID: 16385, Database: "shop", Namespace: "public", Name: "orders", Version: 1, Identity: "default", Key: []int{0},
		Columns: []schema.Column{
			{Name: "id", NotNull: true, Type: schema.Type{Kind: schema.KindInt, Bits: 64, Name: "bigint"}},
			{Name: "customer", Type: schema.Type{Kind: schema.KindString, Name: "text"}},
			{Name: "quantity", Type: schema.Type{Kind: schema.KindInt, Bits: 32, Name: "integer"}},
			{Name: "at", Type: schema.Type{Kind: schema.KindInt, Logical: schema.LogicalTimestamp, Bits: 64, Name: "timestamp with time zone"}},
			{Name: "price", Type: schema.Type{Kind: schema.KindDecimal, Precision: 12, Scale: 2, Name: "numeric(12,2)"}},
		},
	}
}

func order(id int64, customer string) schema.Row {
	return schema.Row{schema.Int(id), schema.Text([]byte(customer)), schema.Int(3), schema.Int(1_700_000_000_000_000), schema.Decimal(129900)}
}

// keyOnly is an old image of which the log has only the key.
func keyOnly(id int64) schema.Row { return schema.Row{schema.Int(id), {}, {}, {}, {}} }

func logTable() *schema.Table {
	return &schema.Table{
		ID: 16390, Database: "shop", Namespace: "public", Name: "log", Version: 1, Identity: "full",
		Columns: []schema.Column{{Name: "line", Type: schema.Type{Kind: schema.KindString, Name: "text"}}},
	}
}
