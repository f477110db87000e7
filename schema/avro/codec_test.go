package avro

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/tidemark-cdc/tidemark/schema"
)

func TestAppendJSON(t *testing.T) {
	micros := int64(1_700_000_000_000_001)
	big := schema.BigDecimal(twos(pow10(39), 0))
	for _, c := range []struct {
		typ  schema.Type
		v    schema.Value
		want string
	}{
		{scalars[0], schema.Bool(true), `true`},
		{intType(64, ""), schema.Int(-1 << 63), `-9223372036854775808`},
		{scalars[4], schema.Float32(0.1), `0.1`},
		{scalars[5], edges(scalars[5])[1], `-0`},
		{scalars[5], edges(scalars[5])[3], `"NaN"`},
		{scalars[5], edges(scalars[5])[5], `"-Infinity"`},
		{scalars[6], schema.Text([]byte("é\"\\\n\t\x00\xff<")), `"é\"\\\n\t\u0000` + "\uFFFD" + `<"`},
		{scalars[7], schema.Bytes([]byte{0, 255}), `"AP8="`},
		{decimal(12, 2), schema.Decimal(-5), `"-0.05"`},
		{decimal(12, 2), schema.Decimal(123456), `"1234.56"`},
		{decimal(12, 0), schema.Decimal(0), `"0"`},
		{decimal(40, 10), big, `"100000000000000000000000000000.0000000000"`},
		{logical(schema.KindInt, schema.LogicalDate, "date"), schema.Int(-1), `"1969-12-31"`},
		{logical(schema.KindInt, schema.LogicalDate, "date"), schema.Int(schema.InfinityDate), `"infinity"`},
		{logical(schema.KindInt, schema.LogicalTime, "time"), schema.Int(dayMicros), `"24:00:00"`},
		{logical(schema.KindInt, schema.LogicalTime, "time"), schema.Int(3_723_000_001), `"01:02:03.000001"`},
		{logical(schema.KindInt, schema.LogicalTimestamp, "ts"), schema.Int(micros), `"2023-11-14T22:13:20.000001Z"`},
		{logical(schema.KindInt, schema.LogicalTimestamp, "ts"), schema.Int(schema.NegativeInfinityTimestamp), `"-infinity"`},
		{logical(schema.KindInt, schema.LogicalLocalTimestamp, "ts"), schema.Int(micros), `"2023-11-14T22:13:20.000001"`},
		{logical(schema.KindInt, schema.LogicalLocalTimestamp, "ts"), schema.Int(schema.InfinityTimestamp), `"infinity"`},
		{arrayOf(intType(32, "")), schema.Array([]schema.Value{schema.Int(1), schema.Null()}), `[1,null]`},
		{arrayOf(intType(32, "")), schema.Array(nil), `[]`},
	} {
		plan, _ := compile(t, tableOf([]schema.Type{c.typ}, 0), options)
		codec := newJudge(t, plan.Schema()).own
		body, err := plan.AppendKey(nil, schema.Row{c.v})
		if err != nil {
			t.Fatal(err)
		}
		got, err := codec.AppendJSON([]byte("x"), body)
		if err != nil || string(got) != `x{"c0":`+c.want+`}` {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
}

// foreign uses what our schemas do not: references, recursion, enums, fixed, maps.
const foreign = `{"type":"record","name":"R","namespace":"a.b","fields":[
	{"name":"e","type":{"type":"enum","name":"E","symbols":["X","Y"]}},
	{"name":"e2","type":["null","E"]},
	{"name":"f","type":{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":4,"scale":2}},
	{"name":"m","type":{"type":"map","values":"a.b.E"}},
	{"name":"t","type":{"type":"int","logicalType":"time-millis"}},
	{"name":"ms","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"z","type":{"type":"array","items":"null"}},
	{"name":"next","type":["null","R"]}]}`

func TestForeignSchema(t *testing.T) {
	c, err := NewCodec(foreign)
	if err != nil {
		t.Fatal(err)
	}
	record := "\x02" + "\x02\x00" + "\xff\xfe" + "\x01\x06\x02k\x02\x00" + "\xd0\x0f" + "\x00" + "\x00"
	body := record + "\x02" + record + "\x00"
	inner := `"e":"Y","e2":"X","f":"-0.02","m":{"k":"Y"},"t":"00:00:01","ms":"1970-01-01T00:00:00Z","z":[],"next":`
	want := `{` + inner + `{` + inner + `null}}`
	got, err := c.AppendJSON(nil, []byte(body))
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if got, err = c.AppendFieldJSON(nil, []byte(body), "next"); err != nil || string(got) != `{`+inner+`null}` {
		t.Errorf("field next: %s, %v", got, err)
	}
	if len(c.Fields()) != 8 || c.Fields()[1] != "e2" {
		t.Errorf("fields %q", c.Fields())
	}
}

func TestMalformed(t *testing.T) {
	c, err := NewCodec(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"empty":          "",
		"symbol":         "\x04",
		"branch":         "\x00\x06",
		"negative":       "\x01",
		"cut":            "\x00\x00\xff",
		"long varint":    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"huge block":     "\x00\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"nulls forever":  "\x00\x00\x00\x00\x00\x00\x00\xfe\xff\xff\xff\x0f\x00\x00",
		"bytes left":     "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"negative count": "\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
	} {
		if out, err := c.AppendJSON([]byte("x"), []byte(body)); !errors.Is(err, ErrMalformed) || string(out) != "x" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	for _, text := range []string{"", "{", `{"type":"record","name":"R"}`, `{"type":"record","name":"R","fields":[{"name":"a","type":"Q"}]}`} {
		if _, err := NewCodec(text); err == nil {
			t.Errorf("NewCodec(%q) accepts it", text)
		}
	}
}

func TestFieldAccess(t *testing.T) {
	plan := compileValue(t, tableOf([]schema.Type{intType(64, "bigint"), intType(32, "int"), typ(schema.KindString, "text")}, 0), options)
	c := newJudge(t, plan.Schema()).own
	body, err := plan.AppendValue(nil, schema.Row{schema.Int(7), schema.Null(), schema.Text([]byte("a"))}, &Meta{Op: 'c', Pos: "p", Seq: 5})
	if err != nil {
		t.Fatal(err)
	}
	if n, ok, err := c.Long(body, "c0"); n != 7 || !ok || err != nil {
		t.Errorf("c0: %d %v %v", n, ok, err)
	}
	if _, ok, err := c.Long(body, "c1"); ok || err != nil {
		t.Errorf("c1: %v %v", ok, err)
	}
	if b, ok, err := c.Text(body, "c2"); string(b) != "a" || !ok || err != nil {
		t.Errorf("c2: %q %v %v", b, ok, err)
	}
	if _, _, err := c.Long(body, "c2"); err == nil {
		t.Error("a string read as long")
	}
	if _, _, err := c.Text(body, "c0"); err == nil {
		t.Error("a long read as text")
	}
	if _, _, err := c.Long(body, "nope"); err == nil {
		t.Error("a missing field read")
	}
	if _, _, err := c.Long(body[:3], "__seq"); !errors.Is(err, ErrMalformed) {
		t.Errorf("a cut body read: %v", err)
	}
}

func FuzzAppendJSON(f *testing.F) {
	plan, err := CompileValue(tableOf(allTypes(), 0), options)
	if err != nil {
		f.Fatal(err)
	}
	own, err := NewCodec(plan.Schema())
	if err != nil {
		f.Fatal(err)
	}
	other, err := NewCodec(foreign)
	if err != nil {
		f.Fatal(err)
	}
	row := make(schema.Row, len(allTypes()))
	for i, ty := range allTypes() {
		row[i] = edges(ty)[0]
	}
	body, err := plan.AppendValue(nil, row, &Meta{Op: 'c', Pos: "p"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte("\x02\x02\x00\xff\xfe\x01\x06\x02k\x02\x00\xd0\x0f\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range []*Codec{own, other} {
			if text, err := c.AppendJSON(nil, body); err == nil && !json.Valid(text) {
				t.Fatalf("not JSON: %s", text)
			}
		}
		_, _, _ = own.Long(body, "__seq")
		_, _ = other.AppendFieldJSON(nil, body, "next")
	})
}
