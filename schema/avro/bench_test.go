package avro

import (
	"testing"

	"github.com/tidemark-cdc/tidemark/schema"
)

var benchMeta = Meta{Op: 'c', Pos: `{"lsn":"3D/485795A0"}`, Seq: 731, Gen: 1, TsMicros: 1_764_497_000_123_456}

// benchRow is the row of make bench: bigint key, text of 30, int, timestamptz, numeric(12,2).
func benchRow(t testing.TB) (key, value *Plan, row schema.Row) {
	table := tableOf([]schema.Type{intType(64, "bigint"), typ(schema.KindString, "text"), intType(32, "integer"),
		logical(schema.KindInt, schema.LogicalTimestamp, "timestamp with time zone"), decimal(12, 2)}, 0)
	key, value = compile(t, table, options)
	return key, value, schema.Row{schema.Int(734_512), schema.Text([]byte("abcdefghijklmnopqrstuvwxyz0123")), schema.Int(4711),
		schema.Int(1_764_496_000_654_321), schema.Decimal(1_234_567)}
}

func TestAllocations(t *testing.T) {
	buf := make([]byte, 0, 1<<20)
	key, value, row := benchRow(t)
	missing := append(schema.Row(nil), row...)
	missing[1] = schema.Value{}
	check := func(name string, run func() error) {
		t.Helper()
		if n := testing.AllocsPerRun(100, func() {
			if err := run(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	m := benchMeta
	check("key", func() error { _, err := key.AppendKey(buf[:0], row); return err })
	check("value", func() error { _, err := value.AppendValue(buf[:0], row, &m); return err })
	check("unavailable", func() error { _, err := value.AppendValue(buf[:0], missing, &m); return err })
	for _, ty := range allTypes() {
		plan, _ := compile(t, tableOf([]schema.Type{ty}, 0), options)
		for _, v := range edges(ty) {
			one := schema.Row{v}
			check(ty.Name, func() error { _, err := plan.AppendKey(buf[:0], one); return err })
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, ty := range allTypes() {
		if ty.Kind == schema.KindArray && ty.Elem.Name != "integer" && ty.Elem.Name != "numeric(12,2)" {
			continue
		}
		b.Run(ty.Name, func(b *testing.B) {
			plan, _ := compile(b, tableOf([]schema.Type{ty}, 0), options)
			row := schema.Row{sample(ty)}
			run(b, func(buf []byte) ([]byte, error) { return plan.AppendKey(buf, row) })
		})
	}
	key, value, row := benchRow(b)
	b.Run("key of 5 columns", func(b *testing.B) {
		run(b, func(buf []byte) ([]byte, error) { return key.AppendKey(buf, row) })
	})
	b.Run("value of 5 columns", func(b *testing.B) {
		m := benchMeta
		run(b, func(buf []byte) ([]byte, error) { return value.AppendValue(buf, row, &m) })
	})
	b.Run("columns alone", func(b *testing.B) {
		run(b, func(buf []byte) ([]byte, error) { buf, _, err := value.appendColumns(buf, row); return buf, err })
	})
}

func sample(t schema.Type) schema.Value {
	if t.Kind == schema.KindString && t.Logical == schema.LogicalNone {
		return schema.Text([]byte("abcdefghijklmnopqrstuvwxyz0123"))
	}
	if t.Kind == schema.KindArray {
		s := sample(*t.Elem)
		return schema.Array([]schema.Value{s, s, schema.Null(), s})
	}
	e := edges(t)
	return e[min(3, len(e)-1)]
}

func run(b *testing.B, appendTo func([]byte) ([]byte, error)) {
	buf := make([]byte, 0, 128<<10)
	b.ReportAllocs()
	for b.Loop() {
		out, err := appendTo(buf[:0])
		if err != nil {
			b.Fatal(err)
		}
		if len(out) > 0 {
			buf = out
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	_, value, row := benchRow(b)
	codec := newJudge(b, value.Schema()).own
	m := benchMeta
	body, err := value.AppendValue(nil, row, &m)
	if err != nil {
		b.Fatal(err)
	}
	run(b, func(buf []byte) ([]byte, error) { return codec.AppendJSON(buf, body) })
}

func BenchmarkLong(b *testing.B) {
	_, value, row := benchRow(b)
	codec := newJudge(b, value.Schema()).own
	m := benchMeta
	body, err := value.AppendValue(nil, row, &m)
	if err != nil {
		b.Fatal(err)
	}
	run(b, func(buf []byte) ([]byte, error) { _, _, err := codec.Long(body, "__seq"); return buf, err })
}
