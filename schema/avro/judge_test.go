package avro

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"github.com/tidemark-cdc/tidemark/schema"
	avrolib "github.com/twmb/avro"
	"pgregory.net/rapid"
)

// common is a value in a form every judge's answer can be brought to: integers as int64,
// floats as their bits, decimals as digits of the unscaled integer.
func common(v schema.Value) any {
	switch v.Kind {
	case schema.KindBool:
		return v.Num == 1
	case schema.KindInt:
		return v.Num
	case schema.KindFloat32:
		return uint32(v.Num)
	case schema.KindFloat64:
		return uint64(v.Num)
	case schema.KindDecimal:
		if v.Bytes == nil {
			return fmt.Sprint(v.Num)
		}
		return unscaled(v.Bytes)
	case schema.KindString, schema.KindBytes:
		return string(v.Bytes)
	case schema.KindArray:
		out := []any{}
		for _, e := range v.Elems {
			out = append(out, common(e))
		}
		return out
	}
	return nil
}

func unscaled(b []byte) string {
	n := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n.String()
}

// judged brings what a library decoded to the common form.
func judged(v any, t schema.Type) any {
	switch v := v.(type) {
	case int32:
		return int64(v)
	case time.Duration:
		return v.Microseconds()
	case time.Time:
		if t.Logical == schema.LogicalDate {
			return v.Unix() / 86400
		}
		return v.UnixMicro()
	case float32:
		return math.Float32bits(v)
	case float64:
		return math.Float64bits(v)
	case *big.Rat:
		n := new(big.Rat).Mul(v, new(big.Rat).SetInt(pow10(t.Scale)))
		return n.RatString()
	case []byte:
		if t.Kind == schema.KindDecimal {
			if !bytes.Equal(v, minimal(v)) {
				return "not minimal"
			}
			return unscaled(v)
		}
		return string(v)
	case map[string]any: // goavro's union
		for _, branch := range v {
			return judged(branch, t)
		}
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, judged(e, *t.Elem))
		}
		return out
	}
	return v
}

var logicalProperty = regexp.MustCompile(`,"logicalType":"[a-z-]+"`)

type judge struct {
	twmb   *avrolib.Schema
	goavro *goavro.Codec
	own    *Codec
}

// newJudge parses a schema with every library. goavro reads it without logical types, of
// which it has its own ideas, but must accept the schema as it is too.
func newJudge(t fataler, text string) judge {
	t.Helper()
	if _, err := goavro.NewCodec(text); err != nil {
		t.Fatalf("goavro refuses the schema: %v\n%s", err, text)
	}
	raw, err := goavro.NewCodec(logicalProperty.ReplaceAllString(text, ""))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := avrolib.Parse(text)
	if err != nil {
		t.Fatalf("twmb refuses the schema: %v\n%s", err, text)
	}
	own, err := NewCodec(text)
	if err != nil {
		t.Fatal(err)
	}
	return judge{parsed, raw, own}
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// decode has both judges decode the body, and demands that they agree with each other's field
// count, leave nothing over, and that encoding again gives the same bytes.
func (j judge) decode(t fataler, body []byte) (fromTwmb, fromGoavro map[string]any) {
	t.Helper()
	var v any
	rest, err := j.twmb.Decode(body, &v)
	if err != nil || len(rest) > 0 {
		t.Fatalf("twmb: %v, %d bytes left", err, len(rest))
	}
	again, err := j.twmb.Encode(v)
	if err != nil || !bytes.Equal(again, body) {
		t.Fatalf("twmb encodes what it decoded otherwise: %v\n%x\n%x", err, body, again)
	}
	w, rest, err := j.goavro.NativeFromBinary(body)
	if err != nil || len(rest) > 0 {
		t.Fatalf("goavro: %v, %d bytes left", err, len(rest))
	}
	text, err := j.own.AppendJSON(nil, body)
	if err != nil || !json.Valid(text) {
		t.Fatalf("own: %v\n%s", err, text)
	}
	return v.(map[string]any), w.(map[string]any)
}

func checkRow(t fataler, j judge, table *schema.Table, indexes []int, row schema.Row, body []byte) map[string]any {
	t.Helper()
	a, b := j.decode(t, body)
	for _, i := range indexes {
		c := table.Columns[i]
		want := common(row[i])
		if got := judged(a[Name(c.Name)], c.Type); !reflect.DeepEqual(got, want) {
			t.Fatalf("twmb: column %s %s: got %v, want %v", c.Name, c.Type.Name, got, want)
		}
		if got := judged(b[Name(c.Name)], c.Type); !reflect.DeepEqual(got, want) {
			t.Fatalf("goavro: column %s %s: got %v, want %v", c.Name, c.Type.Name, got, want)
		}
	}
	return a
}

func TestEdges(t *testing.T) {
	for _, ty := range allTypes() {
		t.Run(ty.Name, func(t *testing.T) {
			table := tableOf([]schema.Type{ty, ty}, 0)
			key, value := compile(t, table, options)
			kj, vj := newJudge(t, key.Schema()), newJudge(t, value.Schema())
			m := &Meta{Op: 'u', Pos: `{"lsn":"0/1"}`, Seq: 1<<50 + 3, Gen: 1, TsMicros: 1_700_000_000_000_001}
			for _, v := range edges(ty) {
				row := schema.Row{v, v}
				body, err := key.AppendKey(nil, row)
				if err != nil {
					t.Fatal(err)
				}
				checkRow(t, kj, table, []int{0}, row, body)
				if body, err = value.AppendValue([]byte("kept"), row, m); err != nil {
					t.Fatal(err)
				}
				if string(body[:4]) != "kept" {
					t.Fatal("the buffer's head was changed")
				}
				checkRow(t, vj, table, []int{0, 1}, row, body[4:])
			}
		})
	}
}

func TestRandomRows(t *testing.T) { rapid.Check(t, randomRows) }

// FuzzRows is TestRandomRows with the fuzzer's bytes for its choices.
func FuzzRows(f *testing.F) {
	for seed := range uint64(8) {
		b := make([]byte, 4096)
		src := rand.NewChaCha8([32]byte{byte(seed)})
		_, _ = src.Read(b)
		f.Add(b)
	}
	f.Fuzz(rapid.MakeFuzz(randomRows))
}

// randomRows holds a random table's plans and a few rows of it against both libraries.
func randomRows(r *rapid.T) {
	table := drawTable(r)
	j := map[bool]judge{}
	key, value := (*Plan)(nil), compileValue(r, table, options)
	if len(table.Key) > 0 {
		key, _ = compile(r, table, options)
		j[true] = newJudge(r, key.Schema())
	}
	j[false] = newJudge(r, value.Schema())
	all := make([]int, len(table.Columns))
	for i := range all {
		all[i] = i
	}
	for range 3 {
		row, missing := drawRow(r, table)
		if key != nil {
			body, err := key.AppendKey(nil, row)
			if err != nil {
				r.Fatalf("%v", err)
			}
			checkRow(r, j[true], table, table.Key, row, body)
		}
		m := &Meta{Op: rapid.SampledFrom([]byte("cudr")).Draw(r, "op"), Pos: rapid.String().Draw(r, "pos"),
			Seq: rapid.Int64().Draw(r, "seq"), Gen: rapid.Int64Min(1).Draw(r, "gen"), TsMicros: rapid.Int64().Draw(r, "ts")}
		body, err := value.AppendValue(nil, row, m)
		if err != nil {
			r.Fatalf("%v", err)
		}
		got := checkRow(r, j[false], table, all, row, body)
		checkMeta(r, got, m, missing)
		checkFields(r, j[false].own, body, m)
	}
}

func checkMeta(t fataler, got map[string]any, m *Meta, missing []any) {
	t.Helper()
	if m.Op == 'd' {
		missing = []any{}
	}
	want := []any{string(m.Op), m.Pos, m.Seq, m.Gen, m.TsMicros, missing}
	for i, f := range metadataFields {
		v := got["__"+f]
		if f == FieldTs {
			v = v.(time.Time).UnixMicro()
		}
		if !reflect.DeepEqual(v, want[i]) {
			t.Fatalf("%s: got %v, want %v", f, v, want[i])
		}
	}
}

func checkFields(t fataler, c *Codec, body []byte, m *Meta) {
	t.Helper()
	pos, ok, err := c.Text(body, "__pos")
	if err != nil || !ok || string(pos) != m.Pos {
		t.Fatalf("Text(__pos) = %q, %v, %v", pos, ok, err)
	}
	for f, want := range map[string]int64{"__seq": m.Seq, "__gen": m.Gen, "__ts_us": m.TsMicros} {
		if n, ok, err := c.Long(body, f); err != nil || !ok || n != want {
			t.Fatalf("Long(%s) = %d, %v, %v", f, n, ok, err)
		}
	}
}

func drawTable(r *rapid.T) *schema.Table {
	types := rapid.SliceOfN(rapid.SampledFrom(allTypes()), 1, 8).Draw(r, "types")
	table := tableOf(types)
	names := rapid.SliceOfNDistinct(identifiers(), len(types), len(types), rapid.ID).Draw(r, "names")
	keys := rapid.SliceOfNDistinct(rapid.IntRange(0, len(types)-1), 0, len(types), rapid.ID).Draw(r, "key")
	table.Key = keys
	for i, n := range names {
		table.Columns[i].Name = n
	}
	return table
}

// drawRow draws a row and the names of its unavailable columns.
func drawRow(r *rapid.T, table *schema.Table) (schema.Row, []any) {
	row, missing := make(schema.Row, len(table.Columns)), []any{}
	for i, c := range table.Columns {
		pick := 9
		if !table.IsKey(i) {
			pick = rapid.IntRange(0, 9).Draw(r, "presence")
		}
		switch pick {
		case 0:
			missing = append(missing, c.Name)
		case 1:
			row[i] = schema.Null()
		default:
			row[i] = values(c.Type).Draw(r, "value")
		}
	}
	return row, missing
}

func compile(t fataler, table *schema.Table, o Options) (key, value *Plan) {
	t.Helper()
	key, err := CompileKey(table, o)
	if err != nil {
		t.Fatal(err)
	}
	return key, compileValue(t, table, o)
}

func compileValue(t fataler, table *schema.Table, o Options) *Plan {
	t.Helper()
	value, err := CompileValue(table, o)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
