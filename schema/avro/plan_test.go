package avro

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/schema"
)

func TestCheckNames(t *testing.T) {
	named := func(names ...string) *schema.Table {
		table := tableOf(make([]schema.Type, len(names)))
		for i, n := range names {
			table.Columns[i] = schema.Column{Name: n, Type: intType(64, "bigint")}
		}
		return table
	}
	for _, c := range []struct {
		name   string
		table  *schema.Table
		prefix string
		want   string // part of the error; empty: none
	}{
		{"plain", named("id", "pos", "__posx", "__POS"), "", ""},
		{"position", named("id", "__pos"), "", `column "__pos" of table public.t has the name of a metadata field; set metadata.field.prefix (now "__")`},
		{"unavailable", named("__unavailable"), "", "metadata.field.prefix"},
		{"other prefix", named("__pos"), "_tm_", ""},
		{"clash with other prefix", named("_tm_ts_us"), "_tm_", `(now "_tm_")`},
		{"twice", named("a b", "a b"), "", `columns "a b" and "a b" of table public.t both become the field a_x20_b`},
		{"escape and its literal", named("a b", "a_x20_b"), "", ""},
		{"bad prefix", named("id"), "a-", `metadata.field.prefix "a-"`},
		{"digit prefix", named("id"), "1", `metadata.field.prefix "1"`},
		{"escape prefix", named("id"), "_x5f_", `metadata.field.prefix "_x5f_"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{MetadataPrefix: c.prefix}
			err := CheckNames(c.table, o)
			if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, cerr := CompileValue(c.table, o); (cerr == nil) != (err == nil) {
				t.Errorf("CompileValue: %v, CheckNames: %v", cerr, err)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, ty := range []schema.Type{
		{}, {Kind: schema.KindNull}, {Kind: schema.KindInt, Bits: 8}, {Kind: schema.KindDecimal},
		{Kind: schema.KindDecimal, Precision: 2, Scale: 3}, {Kind: schema.KindDecimal, Precision: 2, Scale: -1},
		{Kind: schema.KindArray}, arrayOf(arrayOf(intType(64, ""))), arrayOf(schema.Type{}),
	} {
		table := tableOf([]schema.Type{ty}, 0)
		_, err := CompileKey(table, options)
		_, verr := CompileValue(table, options)
		for _, err := range []error{err, verr} {
			if err == nil || !strings.Contains(err.Error(), `column "c0" of table public.t`) {
				t.Errorf("%+v: %v", ty, err)
			}
		}
	}
	if _, err := CompileKey(tableOf([]schema.Type{intType(64, "")}), options); err == nil {
		t.Error("a table without a key has a key plan")
	}
}

func TestValueErrors(t *testing.T) {
	text := schema.Text([]byte("4711"))
	num := func(n int64) schema.Value { return schema.Decimal(n) }
	over := new(big.Int).Neg(pow10(40))
	for _, c := range []struct {
		name string
		typ  schema.Type
		v    schema.Value
		want string
	}{
		{"kind", intType(64, "bigint"), text, "the value is of kind string, not int"},
		{"float32 for float64", typ(schema.KindFloat64, ""), schema.Float32(4711), "kind float32, not float64"},
		{"unknown kind", intType(64, ""), schema.Value{Kind: 99}, "kind unknown"},
		{"smallint above", intType(16, "smallint"), schema.Int(32768), "out of the type's range"},
		{"smallint below", intType(16, "smallint"), schema.Int(-32769), "out of the type's range"},
		{"int above", intType(32, "integer"), schema.Int(1 << 31), "out of the type's range"},
		{"int below", intType(32, "integer"), schema.Int(-1<<31 - 1), "out of the type's range"},
		{"date", logical(schema.KindInt, schema.LogicalDate, "date"), schema.Int(1 << 31), "out of the type's range"},
		{"time above", logical(schema.KindInt, schema.LogicalTime, "time"), schema.Int(dayMicros + 1), "out of the type's range"},
		{"time below", logical(schema.KindInt, schema.LogicalTime, "time"), schema.Int(-1), "out of the type's range"},
		{"decimal above", decimal(3, 1), num(1000), "more than 3 digits"},
		{"decimal below", decimal(3, 1), num(-1000), "more than 3 digits"},
		{"decimal far above", decimal(3, 1), schema.BigDecimal(twos(pow10(30), 0)), "more than 3 digits"},
		{"big decimal above", decimal(40, 1), schema.BigDecimal(twos(pow10(40), 0)), "more than 40 digits"},
		{"big decimal below", decimal(40, 1), schema.BigDecimal(twos(over, 2)), "more than 40 digits"},
		{"decimal of 18 digits", decimal(18, 0), num(1e18), "more than 18 digits"},
		{"decimal without bytes", decimal(3, 1), schema.BigDecimal([]byte{}), "no bytes"},
		{"uuid", logical(schema.KindString, schema.LogicalUUID, "uuid"), text, "36 characters"},
		{"element kind", arrayOf(intType(32, "integer")), schema.Array([]schema.Value{text}), "element"},
		{"element unavailable", arrayOf(intType(32, "integer")), schema.Array([]schema.Value{{}}), "element"},
		{"element range", arrayOf(intType(32, "integer")), schema.Array([]schema.Value{schema.Int(1 << 40)}), "range"},
		{"element precision", arrayOf(decimal(3, 1)), schema.Array([]schema.Value{num(4711)}), "more than 3 digits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := tableOf([]schema.Type{c.typ, c.typ}, 0)
			key, value := compile(t, table, options)
			out, kerr := key.AppendKey([]byte("x"), schema.Row{c.v, c.v})
			checkValueError(t, out, kerr, c.want, "c0")
			table = tableOf([]schema.Type{intType(64, ""), c.typ}, 0)
			out, verr := compileValue(t, table, options).AppendValue([]byte("x"), schema.Row{schema.Int(1), c.v}, &Meta{Op: 'c'})
			checkValueError(t, out, verr, c.want, "c1")
			out, verr = value.AppendValue([]byte("x"), schema.Row{c.v, schema.Null()}, &Meta{Op: 'd'})
			checkValueError(t, out, verr, c.want, "c0")
		})
	}
}

func checkValueError(t *testing.T, out []byte, err error, want, column string) {
	t.Helper()
	var e *ValueError
	if !errors.As(err, &e) || !IsValueError(err) {
		t.Fatalf("got %v, want a ValueError", err)
	}
	if string(out) != "x" {
		t.Errorf("the buffer is %q after the error", out)
	}
	if e.Table != "public.t" || e.Column != column || e.Type == "" || !strings.Contains(e.Error(), want) {
		t.Errorf("got %v, want %q", e, want)
	}
	if strings.Contains(e.Error(), "4711") {
		t.Errorf("%v shows the value", e)
	}
}

func TestAbsentKey(t *testing.T) {
	table := tableOf([]schema.Type{intType(64, "bigint"), intType(64, "bigint")}, 1)
	key, value := compile(t, table, options)
	for _, v := range []schema.Value{schema.Null(), {}} {
		row := schema.Row{schema.Int(1), v}
		want := "a key column must have a value, this one is " + v.Kind.String()
		out, err := key.AppendKey([]byte("x"), row)
		checkValueError(t, out, err, want, "c1")
		for _, op := range []byte("cud") {
			out, err = value.AppendValue([]byte("x"), row, &Meta{Op: op})
			checkValueError(t, out, err, want, "c1")
		}
	}
	for _, row := range []schema.Row{nil, {schema.Int(1)}, make(schema.Row, 3)} {
		out, err := key.AppendKey([]byte("x"), row)
		checkValueError2(t, out, err)
		out, err = value.AppendValue([]byte("x"), row, &Meta{Op: 'c'})
		checkValueError2(t, out, err)
	}
	row := schema.Row{schema.Int(1), schema.Int(1)}
	if _, err := value.AppendKey(nil, row); err == nil {
		t.Error("a value plan appends keys")
	}
	if _, err := key.AppendValue(nil, row, &Meta{}); err == nil {
		t.Error("a key plan appends values")
	}
}

func checkValueError2(t *testing.T, out []byte, err error) {
	t.Helper()
	if !IsValueError(err) || string(out) != "x" || !strings.Contains(err.Error(), "the table has 2 columns") {
		t.Errorf("got %v, buffer %q", err, out)
	}
}

func TestUnavailable(t *testing.T) {
	table := tableOf([]schema.Type{intType(64, "bigint"), typ(schema.KindString, "text"), typ(schema.KindString, "text")}, 0)
	table.Columns[1].Name = "größe"
	value := compileValue(t, table, options)
	j := newJudge(t, value.Schema())
	row := schema.Row{schema.Int(1), {}, schema.Null()}
	for _, c := range []struct {
		m    Meta
		want string
	}{
		{Meta{Op: 'c'}, `["größe"]`},
		{Meta{Op: 'u'}, `["größe"]`},
		{Meta{Op: 'r'}, `["größe"]`},
		{Meta{Op: 'd'}, `[]`},
		{Meta{Op: 'u', Delete: true}, `[]`},
	} {
		body, err := value.AppendValue(nil, row, &c.m)
		if err != nil {
			t.Fatal(err)
		}
		j.decode(t, body)
		if got, err := j.own.AppendFieldJSON(nil, body, "__unavailable"); err != nil || string(got) != c.want {
			t.Errorf("%c: got %s, %v, want %s", c.m.Op, got, err, c.want)
		}
	}
}

func TestDecimalBytes(t *testing.T) {
	plan, _ := compile(t, tableOf([]schema.Type{decimal(38, 2)}, 0), options)
	for n, want := range map[int64]string{
		0: "\x02\x00", 1: "\x02\x01", -1: "\x02\xff", 127: "\x02\x7f", 128: "\x04\x00\x80", -128: "\x02\x80", -129: "\x04\xff\x7f",
		1<<63 - 1: "\x10\x7f\xff\xff\xff\xff\xff\xff\xff", -1 << 63: "\x10\x80\x00\x00\x00\x00\x00\x00\x00",
	} {
		for _, v := range []schema.Value{schema.Decimal(n), schema.BigDecimal(twos(big.NewInt(n), 0)), schema.BigDecimal(twos(big.NewInt(n), 5))} {
			if got, err := plan.AppendKey(nil, schema.Row{v}); err != nil || string(got) != want {
				t.Errorf("%d: got %x, %v, want %x", n, got, err, want)
			}
		}
	}
}
