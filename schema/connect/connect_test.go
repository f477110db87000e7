package connect

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
)

func field(name string, s *Schema) Field { return Field{Name: name, Schema: s} }

// sample is a struct of every type, optional and not, with and without default.
func sample() *Schema {
	seven, text := schema.Int(7), schema.Text([]byte("a\"b"))
	point := &Schema{Type: Struct, Name: "geo.Point", Version: 1, Doc: "a point", Fields: []Field{field("x", Of(Float64)), field("f", Of(Float32).Opt())}}
	small := Of(Int16).Opt()
	small.Default = &seven
	word := Of(String)
	word.Default = &text
	return &Schema{Type: Struct, Name: "a.b.Row", Version: 2, Fields: []Field{
		field("b", Of(Boolean)), field("i", Of(Int32)), field("l", Of(Int64).Opt()), field("s", small), field("w", word),
		field("d", Named(Bytes, DecimalName, Param{ParamScale, "2"}, Param{ParamPrecision, "10"}).Opt()),
		field("y", Of(Bytes)), field("p", point), field("q", point.Opt()),
		field("m", &Schema{Type: Map, Elem: Of(String).Opt()}), field("a", &Schema{Type: Array, Elem: Of(Int32).Opt(), Optional: true}),
		field("t", Named(Int32, DateName).Opt()),
	}}
}

func sampleValue() schema.Value {
	text := func(s string) schema.Value { return schema.Text([]byte(s)) }
	return schema.Array([]schema.Value{
		schema.Bool(true), schema.Int(-3), schema.Null(), schema.Null(), text("x"), schema.Decimal(-12345), schema.Bytes([]byte{0, 255}),
		schema.Array([]schema.Value{schema.Float64(0.1), schema.Float32(1.5)}), schema.Null(),
		schema.Map([]schema.Value{text("k"), text("v"), text("n"), schema.Null()}), schema.Array([]schema.Value{schema.Int(1), schema.Null()}), schema.Int(19000),
	})
}

func TestSchemas(t *testing.T) {
	const wantJSON = `{"type":"struct","fields":[{"type":"boolean","optional":false,"field":"b"},{"type":"int32","optional":false,"field":"i"},{"type":"int64","optional":true,"field":"l"},{"type":"int16","optional":true,"default":7,"field":"s"},{"type":"string","optional":false,"default":"a\"b","field":"w"},{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2","connect.decimal.precision":"10"},"field":"d"},{"type":"bytes","optional":false,"field":"y"},{"type":"struct","fields":[{"type":"double","optional":false,"field":"x"},{"type":"float","optional":true,"field":"f"}],"optional":false,"name":"geo.Point","version":1,"doc":"a point","field":"p"},{"type":"struct","fields":[{"type":"double","optional":false,"field":"x"},{"type":"float","optional":true,"field":"f"}],"optional":true,"name":"geo.Point","version":1,"doc":"a point","field":"q"},{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"string","optional":true},"optional":false,"field":"m"},{"type":"array","items":{"type":"int32","optional":true},"optional":true,"field":"a"},{"type":"int32","optional":true,"name":"org.apache.kafka.connect.data.Date","version":1,"field":"t"}],"optional":false,"name":"a.b.Row","version":2}`
	const wantAvro = `{"type":"record","name":"Row","namespace":"a.b","fields":[{"name":"b","type":"boolean"},{"name":"i","type":"int"},{"name":"l","type":["null","long"],"default":null},{"name":"s","type":[{"type":"int","connect.default":7,"connect.type":"int16"},"null"],"default":7},{"name":"w","type":{"type":"string","connect.default":"a\"b"},"default":"a\"b"},{"name":"d","type":["null",{"type":"bytes","scale":2,"precision":10,"connect.version":1,"connect.parameters":{"scale":"2","connect.decimal.precision":"10"},"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}],"default":null},{"name":"y","type":"bytes"},{"name":"p","type":{"type":"record","name":"Point","namespace":"geo","fields":[{"name":"x","type":"double"},{"name":"f","type":["null","float"],"default":null}],"connect.doc":"a point","connect.version":1,"connect.name":"geo.Point"}},{"name":"q","type":["null","geo.Point"],"default":null},{"name":"m","type":{"type":"map","values":["null","string"]}},{"name":"a","type":["null",{"type":"array","items":["null","int"]}],"default":null},{"name":"t","type":["null",{"type":"int","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Date","logicalType":"date"}],"default":null}],"connect.version":2,"connect.name":"a.b.Row"}`
	if diff := cmp.Diff(wantJSON, sample().JSONSchema()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantAvro, sample().AvroSchema()); diff != "" {
		t.Error(diff)
	}
}

// A reader that knows nothing of ours gets back what was written; a null takes the field's default.
func TestValues(t *testing.T) {
	v := sampleValue()
	w := NewWriter(sample(), Converter{})
	body, err := w.Append([]byte("head"), &v)
	if err != nil || string(body[:4]) != "head" {
		t.Fatal(err)
	}
	codec, err := avro.NewCodec(w.Registered())
	if err != nil {
		t.Fatal(err)
	}
	read, err := codec.AppendJSON(nil, body[4:])
	if err != nil {
		t.Fatal(err, hex.EncodeToString(body))
	}
	const want = `{"b":true,"i":-3,"l":null,"s":7,"w":"x","d":"-123.45","y":"AP8=","p":{"x":0.1,"f":1.5},"q":null,"m":{"k":"v","n":null},"a":[1,null],"t":"2022-01-08"}`
	if diff := cmp.Diff(want, string(read)); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		converter Converter
		want      string
	}{
		{Converter{JSON: true}, `{"b":true,"i":-3,"l":null,"s":7,"w":"x","d":"z8c=","y":"AP8=","p":{"x":0.1,"f":1.5},"q":null,"m":{"k":"v","n":null},"a":[1,null],"t":19000}`},
		{Converter{JSON: true, Numeric: true}, `{"b":true,"i":-3,"l":null,"s":7,"w":"x","d":-123.45,"y":"AP8=","p":{"x":0.1,"f":1.5},"q":null,"m":{"k":"v","n":null},"a":[1,null],"t":19000}`},
	} {
		got, err := NewWriter(sample(), c.converter).Append(nil, &v)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Error(diff)
		}
	}
	both, err := NewWriter(sample(), Converter{JSON: true, Schemas: true}).Append(nil, &v)
	if err != nil || !json.Valid(both) || string(both[:11]) != `{"schema":{` {
		t.Errorf("%v: %s", err, both)
	}
}

// What a schema cannot hold is an error that names the field, and leaves the buffer as it was.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		at    int
		v     schema.Value
		field string
	}{
		{0, schema.Null(), "b"}, {0, schema.Int(1), "b"}, {1, schema.Int(1 << 31), "i"}, {3, schema.Int(40000), "s"},
		{7, schema.Array([]schema.Value{schema.Null(), schema.Null()}), "p.x"}, {7, schema.Array(nil), "p"}, {9, schema.Array(nil), "m"}, {10, schema.Text(nil), "a"},
	} {
		v := sampleValue()
		v.Elems[c.at] = c.v
		for _, converter := range []Converter{{}, {JSON: true}} {
			out, err := NewWriter(sample(), converter).Append([]byte("head"), &v)
			var f *FieldError
			if !errors.As(err, &f) || f.Field != c.field || string(out) != "head" {
				t.Errorf("%s: %v, %q", c.field, err, out)
			}
		}
	}
}

// Floats are written as Java writes them.
func TestFloats(t *testing.T) {
	for _, c := range []struct {
		f    float64
		bits int
		want string
	}{
		{0, 64, "0.0"}, {math.Copysign(0, -1), 64, "-0.0"}, {1, 64, "1.0"}, {-2.25, 64, "-2.25"}, {0.001, 64, "0.001"}, {0.0001, 64, "1.0E-4"},
		{9999999, 64, "9999999.0"}, {1e7, 64, "1.0E7"}, {1e300, 64, "1.0E300"}, {123456789.125, 64, "1.23456789125E8"}, {5e-324, 64, "5.0E-324"},
		{float64(float32(0.1)), 32, "0.1"}, {math.NaN(), 64, `"NaN"`}, {math.Inf(1), 32, `"Infinity"`}, {math.Inf(-1), 64, `"-Infinity"`},
	} {
		if got := string(appendFloat(nil, c.f, c.bits)); got != c.want {
			t.Errorf("%v: %s, want %s", c.f, got, c.want)
		}
	}
}

func TestUnscaled(t *testing.T) {
	for n, want := range map[int64]string{0: "00", 127: "7f", 128: "0080", -128: "80", -129: "ff7f", math.MaxInt64: "7fffffffffffffff", math.MinInt64: "8000000000000000"} {
		if got := hex.EncodeToString(appendUnscaled(nil, n)); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	big := schema.BigDecimal([]byte{0xff, 0x7f})
	if got := string(appendDecimal(nil, &big, 3)); got != "-0.129" {
		t.Error(got)
	}
}

func TestStrings(t *testing.T) {
	for in, want := range map[string]string{"é\"\\\n\x01\x7f/": "\"é\\\"\\\\\\n\\u0001\x7f/\"", "a\xffb": "\"a\uFFFDb\""} {
		if got := string(appendString(nil, in)); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	v := sampleValue()
	for _, converter := range []Converter{{}, {JSON: true, Schemas: true}} {
		w := NewWriter(sample(), converter)
		buf := make([]byte, 0, 8192)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := w.Append(buf, &v); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%+v: %v allocations", converter, n)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	v := sampleValue()
	for name, converter := range map[string]Converter{"avro": {}, "json": {JSON: true}} {
		b.Run(name, func(b *testing.B) {
			w := NewWriter(sample(), converter)
			buf := make([]byte, 0, 8192)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Append(buf, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
