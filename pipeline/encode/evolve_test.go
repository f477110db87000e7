package encode

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

func typed(name string, t schema.Type) *schema.Table {
	t.Name = name
	return &schema.Table{ID: 7, Namespace: "public", Name: "a", Version: 1, Identity: "default", Key: []int{0}, Columns: []schema.Column{
		{Name: "id", NotNull: true, Type: schema.Type{Kind: schema.KindInt, Bits: 64, Name: "bigint"}}, {Name: "n", Type: t},
	}}
}

// What Avro promotes goes on, anything else blocks before the schema is registered: in a running process and
// after a start alike, in the same words, whatever the registry would take.
func TestTypeChanges(t *testing.T) {
	types := map[string]schema.Type{
		"smallint": {Kind: schema.KindInt, Bits: 16}, "integer": {Kind: schema.KindInt, Bits: 32}, "bigint": {Kind: schema.KindInt, Bits: 64},
		"real": {Kind: schema.KindFloat32}, "double precision": {Kind: schema.KindFloat64}, "text": {Kind: schema.KindString}, "bytea": {Kind: schema.KindBytes},
		"boolean": {Kind: schema.KindBool}, "date": {Kind: schema.KindInt, Logical: schema.LogicalDate}, "timestamp": {Kind: schema.KindInt, Logical: schema.LogicalLocalTimestamp},
		"timestamptz": {Kind: schema.KindInt, Logical: schema.LogicalTimestamp}, "uuid": {Kind: schema.KindString, Logical: schema.LogicalUUID}, "json": {Kind: schema.KindString, Logical: schema.LogicalJSON},
		"numeric(10,2)": {Kind: schema.KindDecimal, Precision: 10, Scale: 2}, "numeric(12,2)": {Kind: schema.KindDecimal, Precision: 12, Scale: 2},
		"mood": {Kind: schema.KindString, Logical: schema.LogicalEnum, Labels: []string{"sad"}}, "mood2": {Kind: schema.KindString, Logical: schema.LogicalEnum, Labels: []string{"sad", "ok"}},
		"integer[]": {Kind: schema.KindArray, Elem: &schema.Type{Kind: schema.KindInt, Bits: 32}}, "bigint[]": {Kind: schema.KindArray, Elem: &schema.Type{Kind: schema.KindInt, Bits: 64}},
		"text[]": {Kind: schema.KindArray, Elem: &schema.Type{Kind: schema.KindString}},
	}
	goesOn := map[string]bool{}
	for _, pair := range strings.Fields(`smallint>integer smallint>bigint smallint>real smallint>double integer>smallint integer>bigint integer>real integer>double
		bigint>real bigint>double real>double text>bytea bytea>text text>json json>text text>uuid uuid>text text>mood mood>text mood>mood2 mood2>mood integer[]>bigint[]
		mood>json json>mood mood2>json json>mood2 mood2>text text>mood2 uuid>json json>uuid uuid>mood mood>uuid uuid>mood2 mood2>uuid
		json>bytea bytea>json mood>bytea bytea>mood mood2>bytea bytea>mood2`) {
		goesOn[strings.ReplaceAll(pair, "double", "double precision")] = true
	}
	for was, wt := range types {
		for is, it := range types {
			if was == is {
				continue
			}
			running, err := change(t, typed(was, wt), typed(is, it), false)
			_, again := change(t, typed(was, wt), typed(is, it), true)
			if goesOn[was+">"+is] {
				if err != nil || again != nil {
					t.Errorf("%s to %s: %v; after a start: %v", was, is, err, again)
				}
				continue
			}
			want := fmt.Sprintf(`table public.a: the type of column "n" changed from %s to %s`, was, is)
			if err == nil || again == nil || !strings.Contains(err.Error(), want) || err.Error() != again.Error() || connectors.ClassOf(err) != connectors.ClassBlock {
				t.Errorf("%s to %s: %v (%s); after a start: %v", was, is, err, connectors.ClassOf(err), again)
			}
			if len(running.registry.texts) != 2 {
				t.Errorf("%s to %s: a schema that blocks was registered", was, is)
			}
		}
	}
}

// change publishes a row of one version, then one of another, with a start in between where restart is set.
func change(t *testing.T, was, is *schema.Table, restart bool) (rig, error) {
	t.Helper()
	r := newRig(t, nil)
	r.prepare(t, 3, nil, was)
	null := schema.Row{schema.Int(1), schema.Null()}
	c, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: was, After: null})
	if err != nil {
		t.Fatal(err)
	}
	if restart {
		r.prepare(t, 3, c.Entries, is)
	}
	_, err = r.encode(connectors.Change{Op: connectors.OpCreate, Table: is, After: null})
	return r, err
}

// What is stored of a snapshot comes with the version that its reader or the catalogue knows. It is not the one that rows had last: they may
// have had a newer one, or still have an older one to come.
func TestProgressUsesNoVersion(t *testing.T) {
	old, now := typed("integer", schema.Type{Kind: schema.KindInt, Bits: 32}), typed("bigint", schema.Type{Kind: schema.KindInt, Bits: 64})
	now.Version = 2
	row := func(r rig, of *schema.Table) (*pipeline.Chunk, error) {
		return r.encode(connectors.Change{Op: connectors.OpCreate, Table: of, After: schema.Row{schema.Int(1), schema.Null()}})
	}
	progress := func(r rig, of *schema.Table, rows int64) offsets.TableState {
		t.Helper()
		c := &pipeline.Chunk{}
		if err := r.Progress(t.Context(), c, &connectors.Batch{Progress: []connectors.TableProgress{{Table: of, Progress: offsets.Progress{State: offsets.SnapshotReading, Rows: rows}}}}); err != nil {
			t.Fatal(err)
		}
		state, err := offsets.TableStateFrom(c.Entries[0].Offset)
		if err != nil || len(c.Entries) != 1 || state.Snapshot.Rows != rows {
			t.Fatalf("entries %v, %v", c.Entries, err)
		}
		return state
	}
	r := newRig(t, nil)
	r.prepare(t, 3, nil, now) // the catalogue is ahead of the log
	if s := progress(r, now, 1); s.ValueSchemaID != 0 || s.KeySchemaID == 0 {
		t.Errorf("no row was published: %+v", s)
	}
	c, err := row(r, old)
	if err != nil {
		t.Fatalf("a row before the change: %v", err)
	}
	first := progress(r, now, 2).ValueSchemaID
	r.prepare(t, 3, c.Entries, now) // likewise after a start
	if s := progress(r, now, 3); first == 0 || s.ValueSchemaID != first {
		t.Errorf("value schema %d, want %d", s.ValueSchemaID, first)
	}
	if _, err := row(r, old); err != nil {
		t.Fatalf("a row before the change, after a start: %v", err)
	}
	if _, err := row(r, now); err != nil {
		t.Fatal(err)
	}
	if s := progress(r, old, 4); s.ValueSchemaID == first || s.ValueSchemaID == 0 {
		t.Errorf("value schema %d after a row of the next", s.ValueSchemaID)
	}
	if _, err := row(r, now); err != nil {
		t.Fatal(err)
	}
}

func TestValueSchemaBefore(t *testing.T) {
	was, is := typed("integer", schema.Type{Kind: schema.KindInt, Bits: 32}), typed("text", schema.Type{Kind: schema.KindString})
	r := newRig(t, nil)
	r.prepare(t, 3, nil, was)
	row := schema.Row{schema.Int(1), schema.Null()}
	c, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: was, After: row})
	if err != nil {
		t.Fatal(err)
	}
	stored := c.Entries[0]
	without := stored
	without.Offset = without.Offset[:len(without.Offset)-1] // as written before there was the member
	for name, tc := range map[string]struct {
		stored     offsets.Entry
		generation int64
		err        error
		want       string
	}{
		"the same generation":     {stored, 3, nil, "exclude the column (column.exclude.list=public\\.a\\.n)"},
		"another generation":      {stored, 4, nil, ""},
		"an entry without it":     {without, 3, nil, ""},
		"a registry that is away": {stored, 3, errAway, errAway.Error()},
		"a registry made anew":    {stored, 3, notFound(t), ""},
	} {
		r.registry.byID = tc.err
		r.prepare(t, tc.generation, []offsets.Entry{tc.stored}, is)
		_, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: is, After: row})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// A refusal of the registry names the change.
func TestRefusedVersionNamesTheChange(t *testing.T) {
	was := typed("integer", schema.Type{Kind: schema.KindInt, Bits: 32})
	r := newRig(t, nil)
	r.prepare(t, 3, nil, was)
	if _, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: was, After: schema.Row{schema.Int(1), schema.Null()}}); err != nil {
		t.Fatal(err)
	}
	r.registry.err = &registry.IncompatibleError{Subject: "s", Level: "FULL"}
	is := typed("bigint", schema.Type{Kind: schema.KindInt, Bits: 64})
	is.Columns = append(is.Columns, schema.Column{Name: "größe", Type: schema.Type{Kind: schema.KindString, Name: "text"}})
	_, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: is, After: schema.Row{schema.Int(1), schema.Null(), schema.Null()}})
	for _, want := range []string{`the type of column "n" changed from integer to bigint; column "größe" (text) was added`, "FULL", "ways out"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// An envelope's columns are those of the record inside.
func TestCompareEnvelopes(t *testing.T) {
	envelope := func(n string) string {
		return `{"type":"record","name":"Envelope","namespace":"s.a","fields":[{"name":"before","type":["null",{"type":"record","name":"Value","fields":[` +
			`{"name":"id","type":"int"},{"name":"n","type":["null",` + n + `],"default":null}]}],"default":null},{"name":"after","type":["null","Value"],"default":null},{"name":"op","type":"string"}]}`
	}
	changes, refused := compareSchemas(envelope(`"int"`), envelope(`"long"`))
	if len(refused) > 0 || len(changes) != 1 || changes[0].String() != `the type of column "n" changed from int to long` {
		t.Errorf("int to long: %v, refused %v", changes, refused)
	}
	_, refused = compareSchemas(envelope(`"int"`), envelope(`{"type":"int","connect.name":"io.debezium.time.Date"}`))
	if len(refused) != 1 || refused[0].Column != "n" {
		t.Errorf("int to date: refused %v", refused)
	}
}

func notFound(t *testing.T) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
	}))
	defer server.Close()
	client, err := registry.New(registry.Config{URLs: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.SchemaByID(t.Context(), 2)
	return err
}

// A type without the database's name is called as its readers know it.
func TestTypeNames(t *testing.T) {
	for text, want := range map[string]string{
		`["null","long"]`: "long",
		`{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}`:                                                                 "decimal(12,2)",
		`{"type":"bytes","logicalType":"decimal","precision":5}`:                                                                            "decimal(5,0)",
		`["null",{"type":"bytes","scale":2,"precision":10,"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}]`: "Decimal(10,2)",
		`{"type":"int","connect.version":1,"connect.name":"io.debezium.time.Date"}`:                                                         "Date",
		`{"type":"long","logicalType":"timestamp-micros"}`:                                                                                  "timestamp-micros",
		`{"type":"array","items":"int"}`:                                                                                                    `{"items":"int","type":"array"}`,
	} {
		var n node
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		if got := avroName(n); got != want {
			t.Errorf("%s is called %s, want %s", text, got, want)
		}
	}
}
