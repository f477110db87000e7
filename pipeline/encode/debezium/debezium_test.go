package debezium

import (
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// What the real connector publishes is compared in connectors/postgres; here is what its recording does not reach.

func newFormat(adjust func(*Config)) *Format {
	cfg := Config{Prefix: "shop", Database: "d", MoneyDigits: 2, Value: connect.Converter{JSON: true}, Key: connect.Converter{JSON: true},
		Topic: func(namespace, table string) string { return "shop." + namespace + "." + table }}
	if adjust != nil {
		adjust(&cfg)
	}
	return New(cfg)
}

func typeOf(base string, modifier int32) schema.Type {
	return schema.Type{Kind: schema.KindString, Base: base, Name: base, Modifier: modifier}
}

func arrayOfType(elem string, l schema.Logical) schema.Type {
	e := typeOf(elem, -1)
	e.Logical = l
	return schema.Type{Kind: schema.KindArray, Elem: &e, Base: "_" + elem, Name: elem + "[]", Modifier: -1}
}

// convert returns a value as JSON, or the error.
func convert(f *Format, t schema.Type, v schema.Value) string {
	m := f.mapType(&t)
	if m.convert == nil {
		return "no mapping"
	}
	out, err := m.convert(&arena{}, &v)
	if err != nil {
		return err.Error()
	}
	text, err := connect.NewWriter(m.schema.Opt(), connect.Converter{JSON: true}).Append(nil, &out)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestValues(t *testing.T) {
	text := func(s string) schema.Value { return schema.Text([]byte(s)) }
	numeric := func(precision, scale int32) int32 { return 4 + (precision<<16 | scale&0x7ff) }
	str := func(c *Config) { c.Decimal, c.Interval, c.Time = "string", "string", "isostring" }
	for _, c := range []struct {
		adjust func(*Config)
		t      schema.Type
		v      schema.Value
		want   string
	}{
		{nil, typeOf("numeric", -1), text("-0.500"), `{"scale":1,"value":"+w=="}`},
		{nil, typeOf("numeric", -1), text("100"), `{"scale":0,"value":"ZA=="}`},
		{nil, typeOf("numeric", -1), text("x"), "is not a number"},
		{nil, typeOf("numeric", -1), text("NaN"), errNaN.Error()},
		{func(c *Config) { c.NonFiniteNull = true }, typeOf("numeric", numeric(5, 2)), text("-Infinity"), "null"},
		{nil, typeOf("numeric", numeric(40, 2)), text("-12345678901234567890.12"), `"vRLtxPQn38Xs"`},
		{nil, typeOf("numeric", numeric(3, -2)), text("12300"), `"MAw="`},
		{str, typeOf("numeric", -1), text("-Infinity"), `"NEGATIVE_INFINITY"`},
		{nil, typeOf("money", -1), text("-$1,234.56"), `"/h3A"`},
		{func(c *Config) { c.MoneyDigits = 1 }, typeOf("money", -1), text("$0.25"), `"Aw=="`},
		{nil, typeOf("interval", -1), text("-1 years -2 mons +3 days -04:05:06.5"), "-36572706500000"},
		{str, typeOf("interval", -1), text("00:00:00"), `"P0Y0M0DT0H0M0S"`},
		{nil, typeOf("interval", -1), text("soon"), "is not an interval"},
		{nil, typeOf("interval", -1), text("infinity"), "9223372036854775807"},
		{nil, typeOf("interval", -1), text("-infinity"), "-9223372036854775808"},
		{str, typeOf("interval", -1), text("-infinity"), `"-infinity"`},
		{nil, typeOf("interval", -1), text("178000000 years"), errDuration.Error()},
		{nil, typeOf("interval", -1), text("-178000000 years"), errDuration.Error()},
		{nil, typeOf("timetz", -1), text("00:30:00+01:00:30"), `"23:29:30Z"`},
		{nil, typeOf("timetz", -1), text("24:00:00-00"), `"00:00:00Z"`},
		{nil, typeOf("timetz", -1), text("noon"), "is not a time"},
		{nil, typeOf("timestamptz", 0), schema.Int(-1), `"1969-12-31T23:59:59Z"`},
		{str, typeOf("timestamp", -1), schema.Int(-62198755200000000), `"-0001-01-01T00:00:00Z"`},
		{str, typeOf("date", -1), schema.Int(2932897), `"+10000-01-01Z"`},
		{nil, arrayOfType("text", schema.LogicalNone), schema.Array([]schema.Value{text("a"), schema.Null()}), `["a",null]`},
		{nil, arrayOfType("mood", schema.LogicalEnum), schema.Array([]schema.Value{text("a"), schema.Null()}), "element 2: " + errNullElement.Error()},
		{nil, typeOf("bit", 1), text("1"), "true"},
		{nil, typeOf("varbit", -1), text("1000000001"), `"AQI="`},
		{nil, typeOf("bit", 2), text("1x"), "is not a bit string"},
		{nil, typeOf("hstore", -1), text(`"a"=>"1", "b \\ \""=>NULL`), `"{\"a\":\"1\",\"b \\\\ \\\"\":null}"`},
		{func(c *Config) { c.Hstore = "map" }, typeOf("hstore", -1), text(`"a"=>"1", "b"=>NULL`), `{"a":"1","b":null}`},
		{nil, typeOf("hstore", -1), text(`"a"=>`), "is not an hstore"},
		{nil, typeOf("point", -1), text("(1e3,x)"), "is not a point"},
		{nil, typeOf("vector", 2), text("[1,2.5]"), "[1.0,2.5]"},
		{nil, typeOf("halfvec", 2), text("[1,x]"), "is not a vector"},
		{nil, typeOf("line", -1), text("{1,2,3}"), "no mapping"},
		{func(c *Config) { c.Unknown = true }, typeOf("line", -1), text("{1,2,3}"), `"ezEsMiwzfQ=="`},
	} {
		if got := convert(newFormat(c.adjust), c.t, c.v); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.t.Base, c.v.Bytes, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ mode, in, want string }{
		{"none", "a-b.c", "a-b.c"}, {"avro", "a-b.2c", "a_b._2c"}, {"avro", "größe", "gr__e"}, {"avro_unicode", "a_b-c", "a_u005fb_u002dc"},
	} {
		if got := adjust(c.mode, c.in, true); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.mode, c.in, got, c.want)
		}
	}
	columns := func(names ...string) *schema.Table {
		t := &schema.Table{Namespace: "public", Name: "t"}
		for _, n := range names {
			t.Columns = append(t.Columns, schema.Column{Name: n, Type: typeOf("int4", -1)})
		}
		return t
	}
	avro := func(c *Config) { c.Value = connect.Converter{} }
	for _, c := range []struct {
		adjust func(*Config)
		t      *schema.Table
		want   string
	}{
		{nil, columns("a-b"), ""},
		{avro, columns("a-b"), "field.name.adjustment.mode"},
		{func(c *Config) { avro(c); c.FieldNames = "avro" }, columns("a-b"), ""},
		{func(c *Config) { avro(c); c.FieldNames = "avro" }, columns("a-b", "a_b"), `columns "a-b" and "a_b"`},
		{avro, &schema.Table{Namespace: "public", Name: "a-b"}, "schema.name.adjustment.mode"},
	} {
		err := newFormat(c.adjust).Check(c.t)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func ordersTable() *schema.Table {
	return &schema.Table{ID: 1, Namespace: "public", Name: "orders", Key: []int{0}, Columns: []schema.Column{
		{Name: "id", NotNull: true, Type: schema.Type{Kind: schema.KindInt, Bits: 64, Base: "int8", Modifier: -1}},
		{Name: "customer", Type: typeOf("text", -1)}, {Name: "quantity", Type: schema.Type{Kind: schema.KindInt, Bits: 32, Base: "int4", Modifier: -1}},
		{Name: "at", Type: schema.Type{Kind: schema.KindInt, Base: "timestamptz", Modifier: -1}}, {Name: "price", Type: typeOf("numeric", 4+12<<16|2)},
		{Name: "ratio", Type: typeOf("numeric", -1)},
	}}
}

func ordersRow() schema.Row {
	return schema.Row{schema.Int(7), schema.Text([]byte("somebody")), schema.Int(3), schema.Int(1_700_000_000_123_456), schema.Text([]byte("1299.00")), schema.Text([]byte("0.125"))}
}

// Every column the log did not carry is named, those with a placeholder and those without.
func TestUnavailable(t *testing.T) {
	p, err := newFormat(nil).Table(ordersTable())
	if err != nil {
		t.Fatal(err)
	}
	row := ordersRow()
	row[1], row[5] = schema.Value{}, schema.Value{}
	c := &pipeline.Chunk{}
	if err := p.AppendHeaders(c, &connectors.Change{Op: connectors.OpUpdate, After: row}); err != nil {
		t.Fatal(err)
	}
	if last := c.Headers[len(c.Headers)-1]; last.Key != headerUnavailable || string(last.Value) != `["customer","ratio"]` {
		t.Errorf("%s %s", last.Key, last.Value)
	}
	value, err := p.AppendValue(nil, &connectors.Change{Op: connectors.OpUpdate, After: row}, &encode.Meta{Op: connectors.OpUpdate, Tx: &connectors.Transaction{}})
	if err != nil || !strings.Contains(string(value), `"customer":"__debezium_unavailable_value","quantity":3,"at":"2023-11-14T22:13:20.123456Z","price":"Afts","ratio":null`) {
		t.Errorf("%v: %s", err, value)
	}
}

// Rows that were read have no transaction; where they were read says the source's field snapshot.
func TestSnapshotRows(t *testing.T) {
	p, err := newFormat(nil).Table(ordersTable())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		tx   connectors.Transaction
		op   connectors.Op
		want string
	}{
		"initial":       {connectors.Transaction{Pos: `{"lsn":"1/A"}`, CommitTime: 5_000_001, Snapshot: connectors.SnapshotInitial}, 'r', `"ts_ms":5000,"snapshot":"true","db":"d","sequence":"[null,\"4294967306\"]","ts_us":5000001,"ts_ns":5000001000,"schema":"public","table":"orders","txId":null,"lsn":4294967306,`},
		"a chunk's":     {connectors.Transaction{Pos: `{"lsn":"1/A"}`, CommitTime: 5_000_001, Snapshot: connectors.SnapshotIncremental}, 'r', `"snapshot":"incremental","db":"d","sequence":"[null,null]","ts_us":5000001,"ts_ns":5000001000,"schema":"public","table":"orders","txId":null,"lsn":null,`},
		"a change then": {connectors.Transaction{ID: 8, Pos: `{"lsn":"1/A"}`}, 'c', `"snapshot":"false","db":"d","sequence":"[null,\"7\"]","ts_us":0,"ts_ns":0,"schema":"public","table":"orders","txId":8,"lsn":7,`},
	} {
		change := &connectors.Change{Op: tc.op, After: ordersRow(), LSN: 7, Seq: connectors.FirstReadSeq}
		value, err := p.AppendValue(nil, change, &encode.Meta{Op: tc.op, Tx: &tc.tx})
		for _, want := range []string{tc.want, `"before":null,"after":{"id":7`, `"transaction":null,"op":"` + string(tc.op) + `"`} {
			if err != nil || !strings.Contains(string(value), want) {
				t.Errorf("%s: %v: %s, want …%s…", name, err, value, want)
			}
		}
	}
	change, meta := &connectors.Change{Op: 'r', After: ordersRow()}, &encode.Meta{Op: 'r', Tx: &connectors.Transaction{Pos: `{"lsn":"1/A"}`, Snapshot: connectors.SnapshotInitial}}
	buf := make([]byte, 0, 8192)
	if n := testing.AllocsPerRun(100, func() { _, err = p.AppendValue(buf, change, meta) }); n != 0 || err != nil {
		t.Errorf("%v allocations a row, %v", n, err)
	}
}

func records(tb testing.TB, converter connect.Converter) func() {
	tb.Helper()
	p, err := newFormat(func(c *Config) { c.Key, c.Value = converter, converter }).Table(ordersTable())
	if err != nil {
		tb.Fatal(err)
	}
	change := connectors.Change{Op: connectors.OpCreate, After: ordersRow(), LSN: 29254040}
	meta := encode.Meta{Op: connectors.OpCreate, Tx: &connectors.Transaction{ID: 800, PreviousLSN: 29253856, CommitTime: 1_700_000_000_123_456}, Total: 1, Own: 1, Now: 1_700_000_000_123_456_789}
	buf := make([]byte, 0, 8192)
	return func() {
		out, err := p.AppendKey(buf, change.After)
		if err == nil {
			_, err = p.AppendValue(out, &change, &meta)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	for _, converter := range []connect.Converter{{}, {JSON: true}} {
		run := records(t, converter)
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%+v: %v allocations a record", converter, n)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	for name, converter := range map[string]connect.Converter{"avro": {}, "json": {JSON: true}, "json with schemas": {JSON: true, Schemas: true}} {
		b.Run(name, func(b *testing.B) {
			run := records(b, converter)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
