package encode

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The records of every kind of change, as text, are pinned in testdata.
func TestGolden(t *testing.T) {
	table, keyless := ordersTable(), logTable()
	changes := func() []connectors.Change {
		toast := order(1, "")
		toast[1] = schema.Value{} // the log did not carry it
		line := schema.Row{schema.Text([]byte("hello"))}
		return []connectors.Change{
			{Op: connectors.OpCreate, Table: table, After: order(1, "Åsa")},
			{Op: connectors.OpUpdate, Table: table, After: toast},
			{Op: connectors.OpDelete, Table: table, Before: keyOnly(1)},
			{Op: connectors.OpCreate, Table: table, After: order(2, "Bo"), OldKey: keyOnly(1)},
			{Op: connectors.OpDelete, Table: table, Before: order(2, "Bo")},
			{Op: connectors.OpCreate, Table: keyless, After: line},
			{Op: connectors.OpDelete, Table: keyless, Before: line},
			{Op: connectors.OpRead, Table: table, After: order(3, "Cy")},
		}
	}
	for name, adjust := range map[string]func(*Config){
		"flat":            nil,
		"no-tombstones":   func(c *Config) { c.Tombstones = false },
		"only-tombstones": func(c *Config) { c.Deletes = false },
		"renamed": func(c *Config) {
			c.MetadataPrefix = "meta_"
			c.Overrides = map[string]string{"public.orders": "orders.v2"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, adjust)
			r.prepare(t, 4, nil, table)
			c, err := r.encode(changes()...)
			if err != nil {
				t.Fatal(err)
			}
			path, got := filepath.Join("testdata", name+".txt"), r.dump(t, c)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// However a transaction is cut into calls and chunks, the records are the same.
func TestChunksDoNotMatter(t *testing.T) {
	table := ordersTable()
	var changes []connectors.Change
	for i := range 40 {
		changes = append(changes, connectors.Change{Op: connectors.OpCreate, Table: table, Seq: int64(i), After: order(int64(i), strings.Repeat("x", i))})
	}
	r := newRig(t, nil)
	r.prepare(t, 1, nil, table)
	whole, err := r.encode(changes...)
	if err != nil {
		t.Fatal(err)
	}
	want := r.dump(t, whole)
	for _, limit := range []int{1, 700, 5000} {
		r.prepare(t, 1, nil, table)
		b := connectors.Batch{Tx: connectors.Transaction{Pos: `{"lsn":"0/15D6A30"}`, CommitTime: 1_700_000_000_123_456}, Changes: changes}
		var records, entries string
		for from := 0; from < len(changes); {
			c := &pipeline.Chunk{}
			next, err := r.Encode(context.Background(), c, &b, from, limit)
			if err != nil || next <= from {
				t.Fatalf("encoded from %d to %d: %v", from, next, err)
			}
			from = next
			rec, ent, _ := strings.Cut(r.dump(t, c), "entry")
			records, entries = records+rec, entries+ent
		}
		if got := records + "entry" + entries; got != want {
			t.Errorf("limit %d: %s", limit, cmp.Diff(want, got))
		}
	}
}

// A table's entry is written at its first use in a generation, and again only when it changes.
func TestTableEntries(t *testing.T) {
	table := ordersTable()
	insert := connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "a")}
	r := newRig(t, nil)
	r.prepare(t, 1, nil, table)
	c, err := r.encode(insert, insert)
	if err != nil || len(c.Entries) != 1 {
		t.Fatalf("%d entries, %v", len(c.Entries), err)
	}
	stored := c.Entries
	if c, _ = r.encode(insert); len(c.Entries) != 0 {
		t.Error("written again")
	}
	r.prepare(t, 1, stored, table)
	if c, _ = r.encode(insert); len(c.Entries) != 0 {
		t.Error("written again though stored")
	}
	r.prepare(t, 1, nil, table) // the transaction that held it was aborted
	if c, _ = r.encode(insert); len(c.Entries) != 1 {
		t.Error("not written again though not stored")
	}
	r.prepare(t, 2, stored, table)
	if c, _ = r.encode(insert); len(c.Entries) != 1 {
		t.Error("not written in a new generation")
	}
	wider := *table
	wider.Identity = "full"
	if c, _ = r.encode(connectors.Change{Op: connectors.OpCreate, Table: &wider, After: order(1, "a")}); len(c.Entries) != 1 {
		t.Error("not written when it changed")
	}
}

// A new version of a table gets a new value schema, and the old plan is forgotten.
func TestTableVersions(t *testing.T) {
	table := ordersTable()
	r := newRig(t, nil)
	r.prepare(t, 1, nil, table)
	for version := 2; version < 50; version++ {
		next := *table
		next.Version = version
		next.Columns = append(table.Columns[:len(table.Columns):len(table.Columns)], schema.Column{Name: strings.Repeat("n", version), Type: schema.Type{Kind: schema.KindBool, Name: "boolean"}})
		c, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: &next, After: append(order(1, "a"), schema.Bool(true))})
		if err != nil || !strings.Contains(r.dump(t, c), `"`+strings.Repeat("n", version)+`":true`) {
			t.Fatalf("version %d: %v", version, err)
		}
	}
	if len(r.plans) != 1 {
		t.Errorf("%d plans are kept", len(r.plans))
	}
}

func TestWhatBlocks(t *testing.T) {
	table := ordersTable()
	create := func(t *schema.Table) connectors.Change {
		return connectors.Change{Op: connectors.OpCreate, Table: t, After: order(1, "secret")}
	}
	with := func(change func(*schema.Table)) *schema.Table {
		v := *table
		v.Columns = append([]schema.Column(nil), table.Columns...)
		change(&v)
		return &v
	}
	for name, c := range map[string]struct {
		adjust func(rig)
		change connectors.Change
		want   []string
	}{
		"null key": {nil, connectors.Change{Op: connectors.OpDelete, Table: table, Before: schema.Row{schema.Null(), {}, {}, {}, {}}},
			[]string{`"id"`, "public.orders", "change 0", "0/15D6A30"}},
		"wrong kind": {nil, connectors.Change{Op: connectors.OpCreate, Table: table, After: schema.Row{schema.Int(1), schema.Int(1), {}, {}, {}}},
			[]string{`"customer"`, "public.orders"}},
		"decimal beyond its precision": {nil, connectors.Change{Op: connectors.OpCreate, Table: table, After: schema.Row{schema.Int(1), {}, {}, {}, schema.Decimal(4_711_000_000_000)}},
			[]string{`"price"`, "numeric(12,2)", "public.orders", "more than 12 digits"}},
		"too large": {nil, connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, strings.Repeat("secret", 200_000))},
			[]string{"public.orders", "shop.public.orders", "1200", "max.request.size", "max.message.bytes"}},
		"too large a row of a snapshot": {nil, connectors.Change{Op: connectors.OpRead, Seq: connectors.FirstReadSeq, Table: table, After: order(1, strings.Repeat("secret", 200_000))},
			[]string{"a row of a snapshot, at {", "0/15D6A30", "public.orders", "max.request.size"}},
		"too large for the topic": {func(r rig) {
			r.topics.info["shop.public.orders"] = pipeline.TopicInfo{Partitions: 6, MaxMessageBytes: 300}
		},
			connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, strings.Repeat("secret", 30))}, []string{"max.message.bytes (now 300)"}},
		"key column renamed":  {nil, create(with(func(t *schema.Table) { t.Columns[0].Name = "no" })), []string{"key of table public.orders has changed", `["no"]`}},
		"key type changed":    {nil, create(with(func(t *schema.Table) { t.Columns[0].Type.Bits, t.Columns[0].Type.Name = 32, "integer" })), []string{"key of table public.orders has changed", "integer"}},
		"column like a field": {nil, create(with(func(t *schema.Table) { t.Columns[1].Name = "__pos" })), []string{`"__pos"`, "metadata.field.prefix"}},
		"topic taken": {nil, create(with(func(t *schema.Table) {
			t.Name, t.Namespace = "orders", "public"
			t.Name = "orders"
			t.ID++
			t.Namespace = "public.orders"
			t.Name = "x"
		})),
			[]string{"topic.naming.overrides"}},
		"incompatible": {func(r rig) { r.registry.err = &registry.IncompatibleError{Subject: "s"} }, create(with(func(t *schema.Table) { t.Version = 2; t.Columns[1].Name = "c" })), []string{"refuses"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Overrides = map[string]string{"public.orders.x": "shop.public.orders"} })
			if c.adjust != nil && name != "incompatible" {
				c.adjust(r)
			}
			r.prepare(t, 1, nil, table)
			if name == "incompatible" {
				c.adjust(r)
			}
			_, err := r.encode(c.change)
			if err == nil || connectors.ClassOf(err) != connectors.ClassBlock {
				t.Fatalf("class of %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %s", err, want)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q shows a value", err)
			}
		})
	}
}

func TestUnavailableRegistryIsWaitedFor(t *testing.T) {
	table := ordersTable()
	r := newRig(t, nil)
	r.prepare(t, 1, nil, table)
	r.registry.err = errAway
	_, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "a")})
	if err == nil || connectors.ClassOf(err) != connectors.ClassWait || !strings.Contains(err.Error(), errAway.Error()) {
		t.Errorf("class of %v", err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	table := ordersTable()
	twin := *table
	twin.Name = "ord?rs"
	twin2 := *table
	twin2.Name = "ord!rs"
	long := *table
	long.Name = strings.Repeat("n", 250)
	meta := *table
	meta.Columns = append(meta.Columns[:4:4], schema.Column{Name: "__gen"})
	r := newRig(t, nil)
	r.prepare(t, 1, nil, table)
	c, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "a")})
	if err != nil {
		t.Fatal(err)
	}
	stored := c.Entries
	for name, c := range map[string]struct {
		adjust func(*rig)
		tables []*schema.Table
		class  connectors.Class
		want   string
	}{
		"two tables, one topic": {nil, []*schema.Table{&twin, &twin2}, connectors.ClassRefused, "topic.naming.overrides"},
		"long name":             {nil, []*schema.Table{&long}, connectors.ClassRefused, "249"},
		"column like a field":   {nil, []*schema.Table{&meta}, connectors.ClassRefused, "metadata.field.prefix"},
		"keyless, compacted": {func(r *rig) {
			r.topics.info["shop.public.log"] = pipeline.TopicInfo{Partitions: 1, CleanupPolicy: "compact,delete"}
		},
			[]*schema.Table{logTable()}, connectors.ClassRefused, "cleanup.policy"},
		"other partition count": {func(r *rig) { r.topics.info["shop.public.orders"] = pipeline.TopicInfo{Partitions: 7} }, []*schema.Table{table}, connectors.ClassBlock, "7 partitions, it had 6"},
		"other key schema":      {func(r *rig) { r.registry.texts = make([]string, 10) }, []*schema.Table{table}, connectors.ClassBlock, "key schema of table public.orders"},
		"other topic":           {func(r *rig) { r.cfg.Overrides = map[string]string{"public.orders": "elsewhere"} }, []*schema.Table{table}, connectors.ClassRefused, "elsewhere"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			if c.adjust != nil {
				c.adjust(&r)
			}
			err := r.Prepare(context.Background(), 1, c.tables, stored)
			if err == nil || connectors.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v: %v", connectors.ClassOf(err), err)
			}
		})
	}
	fresh := newRig(t, nil)
	fresh.topics.info["shop.public.orders"] = pipeline.TopicInfo{Partitions: 7}
	fresh.prepare(t, 2, stored, table) // a new generation may begin with other keys
	if len(fresh.topics.forgotten) != 1 {
		t.Error("the topic was not looked up again")
	}
	again := newRig(t, nil)
	again.registry.texts = r.registry.texts
	again.registry.ids = r.registry.ids
	again.prepare(t, 1, stored, table)
	if fresh.topics.used["shop.public.orders"] || !again.topics.used["shop.public.orders"] {
		t.Error("only a topic that this generation has used must be there")
	}
}

// Many topics are looked up side by side: each waits here until another one is asked for too.
func TestTopicsSideBySide(t *testing.T) {
	r := newRig(t, nil)
	var asked atomic.Int32
	r.topics.hold = func() {
		asked.Add(1)
		for deadline := time.Now().Add(5 * time.Second); asked.Load() < 2 && time.Now().Before(deadline); {
			runtime.Gosched()
		}
	}
	one, two := *ordersTable(), *ordersTable()
	two.Name = "orders2"
	r.prepare(t, 1, nil, &one, &two)
	if n := r.topics.most.Load(); n != 2 {
		t.Errorf("%d at once, want 2", n)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Config{Prefix: "p", Registry: &fakeRegistry{}, Topics: &fakeTopics{}}); connectors.ClassOf(err) != connectors.ClassRefused {
		t.Errorf("deletes lost: %v", err)
	}
}

func TestTopicNames(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Overrides = map[string]string{"public.x": "y"} })
	for name, want := range map[string]string{"test table": "shop.public.test_table", "C##U": "shop.public.C__U", "größe": "shop.public.gr__e", "a.b": "shop.public.a.b", "x": "y"} {
		if got := r.Topic(&schema.Table{Namespace: "public", Name: name}); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestClamp(t *testing.T) {
	const now, day = int64(1_700_000_000_000), int64(86_400_000)
	limits := pipeline.TopicInfo{TimestampBeforeMaxMs: 7 * day, TimestampAfterMaxMs: 3_600_000}
	open := pipeline.TopicInfo{TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: math.MaxInt64}
	for _, c := range []struct {
		micros int64
		info   pipeline.TopicInfo
		want   int64
	}{
		{now*1000 + 999, limits, now},
		{(now - 8*day) * 1000, limits, now - 7*day + clockMargin},
		{(now + day) * 1000, limits, now + 3_600_000 - clockMargin},
		{(now - 8*day) * 1000, open, now - 8*day},
		{(now + 900*day) * 1000, open, now + 900*day},
		{-1, open, 0},
		{-1, pipeline.TopicInfo{}, 0},
	} {
		if got := clamp(c.micros, now, &c.info); got != c.want {
			t.Errorf("clamp(%d) is %d, want %d", c.micros, got, c.want)
		}
	}
}

// The steady state allocates nothing, also where every change is of another table than the one before.
func TestEncodeDoesNotAllocate(t *testing.T) {
	for tables := range 3 {
		encode, _ := steady(t, tables+1)
		if n := testing.AllocsPerRun(100, encode); n != 0 {
			t.Errorf("%d tables: %v allocations for 1000 changes", tables+1, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	encode, n := steady(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		encode()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/change")
}

// steady returns a function that encodes n changes of known tables, in turns, into a chunk that has room.
func steady(t testing.TB, tables int) (encode func(), n int) {
	r := newRig(t, nil)
	var all []*schema.Table
	for i := range tables {
		table := ordersTable()
		table.Name += fmt.Sprint(i)
		all = append(all, table)
	}
	r.prepare(t, 1, nil, all...)
	b := connectors.Batch{Tx: connectors.Transaction{Pos: `{"lsn":"3D/485795A0"}`, CommitTime: 1_700_000_000_123_456}}
	for i := range 1000 {
		b.Changes = append(b.Changes, connectors.Change{Op: connectors.OpCreate, Table: all[i%tables], Seq: int64(i), After: order(int64(i)*7919, "thirty characters of some text")})
	}
	c := &pipeline.Chunk{}
	encode = func() {
		c.Reset()
		if next, err := r.Encode(context.Background(), c, &b, 0, 1<<30); err != nil || next != len(b.Changes) {
			t.Fatal(next, err)
		}
	}
	encode()
	return encode, len(b.Changes)
}
