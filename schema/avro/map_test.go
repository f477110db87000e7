package avro

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/linkedin/goavro/v2"

	"github.com/tidemark-cdc/tidemark/schema"
)

var pairs = schema.Type{Kind: schema.KindMap, Elem: &schema.Type{Kind: schema.KindString}, Name: "hstore"}

func TestMap(t *testing.T) {
	text := func(s string) schema.Value { return schema.Text([]byte(s)) }
	long := strings.Repeat("x", 9000)
	for _, c := range []struct {
		in   []schema.Value
		want map[string]any
		json string
	}{
		{nil, map[string]any{}, `{}`},
		{[]schema.Value{text("a"), text("1"), text(""), schema.Null()}, map[string]any{"a": map[string]any{"string": "1"}, "": nil}, `{"a":"1","":null}`},
		{[]schema.Value{text(long), text(long)}, map[string]any{long: map[string]any{"string": long}}, `{"` + long + `":"` + long + `"}`},
	} {
		for _, typ := range []schema.Type{pairs, arrayOf(pairs)} {
			key, _ := compile(t, tableOf([]schema.Type{typ}, 0), options)
			v := schema.Map(c.in)
			if typ.Kind == schema.KindArray {
				v = schema.Array([]schema.Value{v, schema.Null()})
			}
			body, err := key.AppendKey(nil, schema.Row{v})
			if err != nil {
				t.Fatal(err)
			}
			codec, err := goavro.NewCodec(key.Schema())
			if err != nil {
				t.Fatal(err)
			}
			got, rest, err := codec.NativeFromBinary(body)
			if err != nil || len(rest) > 0 {
				t.Fatalf("%v, %d bytes left", err, len(rest))
			}
			var want any = c.want
			json := `{"c0":` + c.json + `}`
			if typ.Kind == schema.KindArray {
				want, json = []any{map[string]any{"map": c.want}, nil}, `{"c0":[`+c.json+`,null]}`
			}
			if d := cmp.Diff(map[string]any{"c0": want}, got); d != "" {
				t.Error(d)
			}
			own, err := NewCodec(key.Schema())
			if err != nil {
				t.Fatal(err)
			}
			if out, err := own.AppendJSON(nil, body); err != nil || string(out) != json {
				t.Errorf("%s, %v; want %s", out, err, json)
			}
			buf, row := make([]byte, 0, 64<<10), schema.Row{v}
			if n := testing.AllocsPerRun(100, func() { _, _ = key.AppendKey(buf, row) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		}
	}
}

func TestMapRefuses(t *testing.T) {
	key, _ := compile(t, tableOf([]schema.Type{pairs}, 0), options)
	for _, in := range [][]schema.Value{{schema.Text(nil)}, {schema.Int(1), schema.Text(nil)}, {schema.Text(nil), schema.Int(1)}, {schema.Null(), schema.Null()}, {schema.Text(nil), {}}} {
		if out, err := key.AppendKey(nil, schema.Row{schema.Map(in)}); !IsValueError(err) || len(out) > 0 {
			t.Errorf("%v: %v, %v", in, out, err)
		}
	}
	if _, err := KeySchema(tableOf([]schema.Type{{Kind: schema.KindMap, Name: "m"}}, 0), options); err == nil {
		t.Error("a map without a type of its values has a schema")
	}
}
