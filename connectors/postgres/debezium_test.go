package postgres

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/pipeline/encode/debezium"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

const recording = "../../pipeline/encode/debezium/testdata"

// What the real connector published of a script (see the recording's cases.json) is what our assembler and encoder make
// of the same log, record by record and field by field, schemas included, but for the exceptions below.
func TestDebezium(t *testing.T) {
	used := map[int]bool{}
	for _, name := range []string{"json", "avro", "modes-a", "modes-b", "modes-c", "modes-d", "modes-e"} {
		t.Run(name, func(t *testing.T) {
			g := readGolden(t, name)
			r := replay(t, g)
			for _, topic := range g.topics() {
				g.compare(t, topic, r.records[topic], r.schemas)
			}
			for topic := range r.records {
				if _, ok := g.records[topic]; !ok {
					t.Errorf("topic %s: Debezium has none", topic)
				}
			}
			maps.Copy(used, g.used)
		})
	}
	for i, d := range different {
		if !used[i] && !t.Failed() {
			t.Errorf("exception %q of %s never occurs", d.pattern, d.topic)
		}
	}
}

// different are the fields in which a record of ours differs, by case and topic, as patterns over
// "record path: ours | Debezium's". Everything else is equal but for the wall clock and the run's id.
var different = []struct{ cases, topic, pattern, why string }{
	{".*", "public.all_types", `value\.after\.nm: "a_name" \| null`, "Debezium has no converter for type name and publishes null"},
	{".*", "public.arrays", `value\.after\.(tm|tmtz): `, "Debezium loses fractions of times in arrays"},
	{".*", "public.arrays", `3 refused`, "an array of two dimensions becomes an array of nulls there, ours blocks"},
	{".*", "public.arrays_other", `value schema|value\.after\.bt: `, "bit(n)[] is one bit string of value null there, an array here"},
	{".*", "public.keyless", `4 (key|value|header .*): absent \| `, "a tombstone without a key says nothing"},
	{"json|avro|modes-[cd]", "public.special_numeric", `[012] refused`, "NaN and infinite become null there, ours blocks"},
	{"modes-e", "public.(all_types|special)", `[23] refused`, "a timestamp beyond nanoseconds becomes null there, ours blocks"},
	{"modes-e", "public.required", `[1-5] `, "Debezium fails on times of NOT NULL columns and publishes nothing more of the row"},
	{"modes-b", "public.unknowns", `value\.after\.(li|ls|bx|pa|po|cr): `, "the JDBC driver prints 1 as 1.0"},
	{".*", "message", `1 value\.source\.ts_`, "a message outside of a transaction has the time of the last commit there, the clock's here"},
	{".*", "transaction", `27 value\.(event_count|data_collections)`, "the array of two dimensions that blocks"},
}

type side struct {
	Schema  int             `json:"schema"`
	Payload json.RawMessage `json:"payload"`
}

type record struct {
	Topic      string
	Key, Value *side
	Headers    []struct{ Key, Value string }
}

type golden struct {
	name    string
	config  map[string]string
	records map[string][]record
	schemas []json.RawMessage
	codecs  map[int]*avro.Codec
	used    map[int]bool // exceptions met
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(recording, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(name, err)
	}
}

func readGolden(t *testing.T, name string) *golden {
	t.Helper()
	g := &golden{name: name, records: map[string][]record{}, codecs: map[int]*avro.Codec{}, used: map[int]bool{}}
	cases := map[string]map[string]string{}
	readJSON(t, "cases.json", &cases)
	g.config = cases[name]
	readJSON(t, name+".schemas.json", &g.schemas)
	f, err := os.Open(filepath.Join(recording, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		g.records[r.Topic] = append(g.records[r.Topic], r)
	}
	return g
}

func (g *golden) topics() []string {
	var out []string
	for t := range g.records {
		out = append(out, t)
	}
	slices.Sort(out)
	return out
}

func (g *golden) mode(name, def string) string {
	if v, ok := g.config[name]; ok {
		return v
	}
	return def
}

// recordedCatalogue is a lookup of the catalogue as it was recorded.
type recordedCatalogue struct {
	Tables []*catalog.Table
	Types  catalog.TypeSet
}

func (c *recordedCatalogue) table(_ context.Context, oid uint32) (*catalog.Table, error) {
	for _, t := range c.Tables {
		if t.OID == oid {
			return t, nil
		}
	}
	return nil, nil
}

func (c *recordedCatalogue) types(context.Context, bool, ...uint32) (values.Resolver, error) {
	return resolver(c.Types), nil
}

// ours are our records of a replay, and the schema texts by id.
type ours struct {
	records map[string][]pipeline.Record
	schemas map[int]string
}

func (o *ours) Resolve(_ context.Context, _, text string) (int, error) {
	id := len(o.schemas) + 1
	o.schemas[id] = text
	return id, nil
}

func (o *ours) SchemaByID(_ context.Context, id int) (string, error) { return o.schemas[id], nil }

func (o *ours) Ensure(context.Context, string, bool) (pipeline.TopicInfo, error) {
	return pipeline.TopicInfo{Partitions: 1}, nil
}

func (o *ours) Forget(string) {}

// replay sends the recorded log through assembler and encoder.
func replay(t *testing.T, g *golden) *ours {
	t.Helper()
	ctx := context.Background()
	o := &ours{records: map[string][]pipeline.Record{}, schemas: map[int]string{}}
	transactions := g.mode("provide.transaction.metadata", "false") == "true"
	converter := connect.Converter{JSON: g.name != "avro", Schemas: true}
	var enc *encode.Encoder
	format := debezium.New(debezium.Config{
		Prefix: "golden", Database: "dbz_golden", Key: converter, Value: converter, RunID: "run",
		Topic:   func(namespace, name string) string { return enc.Topic(&schema.Table{Namespace: namespace, Name: name}) },
		Decimal: g.mode("decimal.handling.mode", ""), Time: g.mode("time.precision.mode", ""), Interval: g.mode("interval.handling.mode", ""),
		Binary: g.mode("binary.handling.mode", ""), Hstore: g.mode("hstore.handling.mode", ""), MoneyDigits: map[bool]int{true: 4, false: 2}[g.mode("money.fraction.digits", "") == "4"],
		Placeholder: g.mode("unavailable.value.placeholder", ""), Unknown: g.mode("include.unknown.datatypes", "") == "true",
		SchemaNames: g.mode("schema.name.adjustment.mode", ""), FieldNames: g.mode("field.name.adjustment.mode", ""),
		SkipUnchanged: g.mode("skip.messages.without.change", "") == "true",
		PlainHeaders:  g.mode("extended.headers.enabled", "true") == "false",
	})
	enc, err := encode.New(encode.Config{
		Prefix: "golden", Tombstones: g.mode("tombstones.on.delete", "true") == "true", Deletes: true,
		Format: format, Transactions: transactions, Registry: o, Topics: o,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := enc.Prepare(ctx, 1, nil, nil); err != nil {
		t.Fatal(err)
	}
	raw := map[string]string{propTableExclude: `public\.excluded`, propKeyColumns: "public.keyed:a,b", propSnapshotMode: "no_data", propSkipped: g.mode("skipped.operations", "t")}
	cfg, _ := Spec().Parse(raw)
	f, err := newFilter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var c recordedCatalogue
	readJSON(t, "catalogue.json", &c)
	a := newAssembler(newPlanner("dbz_golden", f, values.Options{Text: true}, catalog.Operations{Insert: true, Update: true, Delete: true, Truncate: true}, &c), 0, 0)
	if a.rules, err = newRules(cfg); err != nil {
		t.Fatal(err)
	}
	each(t, func(lsn uint64, message []byte) {
		a.lsn = lsn
		result, err := a.message(ctx, message)
		if err != nil && strings.Contains(err.Error(), "more than one dimension") {
			o.records["golden.public.arrays"] = append(o.records["golden.public.arrays"], pipeline.Record{Value: []byte("refused")})
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if result == stepCommit || result == stepEmpty {
			o.encode(t, enc, connectors.Batch{Tx: a.tx, Changes: a.changes, Last: true}, transactions)
			a.reset()
		}
	})
	return o
}

// each calls with every recorded message.
func each(t *testing.T, message func(lsn uint64, b []byte)) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(recording, "pgoutput.hex"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Fields(strings.ReplaceAll(string(b), " ", ":")) {
		at, text, _ := strings.Cut(line, ":")
		lsn, err := pgoutput.ParseLSN(at)
		if err != nil {
			t.Fatal(err)
		}
		m, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		message(uint64(lsn), m)
	}
}

// encode encodes one transaction. A change that ours refuses and Debezium publishes with a null leaves a hole.
func (o *ours) encode(t *testing.T, enc *encode.Encoder, b connectors.Batch, transactions bool) {
	t.Helper()
	c := &pipeline.Chunk{}
	enc.BeginTransaction()
	for from := 0; from < len(b.Changes); {
		next, err := enc.Encode(context.Background(), c, &b, from, 1<<30)
		if err == nil {
			from = next
			continue
		}
		if !avro.IsValueError(err) {
			t.Fatal(err)
		}
		from = next + 1
		c.Records = append(c.Records, pipeline.Record{Topic: enc.Topic(b.Changes[next].Table), Value: []byte("refused")})
	}
	if transactions {
		if err := enc.EndTransaction(context.Background(), c, &b); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range c.Records {
		o.records[r.Topic] = append(o.records[r.Topic], r)
	}
}

// compare compares a topic's records, each as lines of "path = value".
func (g *golden) compare(t *testing.T, topic string, got []pipeline.Record, schemas map[int]string) {
	t.Helper()
	want := g.records[topic]
	for i := range max(len(got), len(want)) {
		var is, should []string
		if i < len(got) {
			is = g.linesOfOurs(t, &got[i], schemas)
		}
		if i < len(want) {
			should = g.lines(t, &want[i])
		}
		found := differences(is, should)
		if i < len(got) && string(got[i].Value) == "refused" {
			found = []string{"refused"}
		}
		for _, d := range found {
			if !g.excepted(topic, i, d) {
				t.Errorf("topic %s, record %d: %s", topic, i, d)
			}
		}
	}
}
