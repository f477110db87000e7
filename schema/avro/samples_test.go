package avro

import (
	"fmt"
	"math"
	"math/big"

	"github.com/tidemark-cdc/tidemark/schema"
	"pgregory.net/rapid"
)

func typ(kind schema.Kind, name string) schema.Type { return schema.Type{Kind: kind, Name: name} }

func intType(bits int, name string) schema.Type {
	return schema.Type{Kind: schema.KindInt, Bits: bits, Name: name}
}

func logical(kind schema.Kind, l schema.Logical, name string) schema.Type {
	return schema.Type{Kind: kind, Logical: l, Name: name}
}

func decimal(p, s int) schema.Type {
	return schema.Type{Kind: schema.KindDecimal, Precision: p, Scale: s, Name: fmt.Sprintf("numeric(%d,%d)", p, s)}
}

func arrayOf(elem schema.Type) schema.Type {
	return schema.Type{Kind: schema.KindArray, Elem: &elem, Name: elem.Name + "[]"}
}

var mood = schema.Type{Kind: schema.KindString, Logical: schema.LogicalEnum, Labels: []string{"sad", `o"k`, "glücklich"}, Name: "mood"}

// scalars are the types a column may have, arrays aside.
var scalars = []schema.Type{
	typ(schema.KindBool, "boolean"),
	intType(16, "smallint"), intType(32, "integer"), intType(64, "bigint"),
	typ(schema.KindFloat32, "real"), typ(schema.KindFloat64, "double precision"),
	typ(schema.KindString, "character varying(30)"), typ(schema.KindBytes, "bytea"),
	decimal(1, 0), decimal(12, 2), decimal(18, 18), decimal(19, 4), decimal(40, 10), decimal(1000, 0),
	logical(schema.KindInt, schema.LogicalDate, "date"),
	logical(schema.KindInt, schema.LogicalTime, "time without time zone"),
	logical(schema.KindInt, schema.LogicalTimestamp, "timestamp with time zone"),
	logical(schema.KindInt, schema.LogicalLocalTimestamp, "timestamp without time zone"),
	logical(schema.KindString, schema.LogicalUUID, "uuid"),
	logical(schema.KindString, schema.LogicalJSON, "jsonb"),
	mood,
}

func allTypes() []schema.Type {
	types := append([]schema.Type(nil), scalars...)
	for _, t := range scalars {
		types = append(types, arrayOf(t))
	}
	return types
}

// tableOf makes a table with one column a type, c0 and so on, and the key given.
func tableOf(types []schema.Type, key ...int) *schema.Table {
	t := &schema.Table{ID: 1, Namespace: "public", Name: "t", Key: key, Version: 1}
	for i, ty := range types {
		t.Columns = append(t.Columns, schema.Column{Name: fmt.Sprintf("c%d", i), Type: ty, NotNull: t.IsKey(i)})
	}
	return t
}

var options = Options{Namespace: Namespace("shop", "public", "t")}

// edges are values of a type that are known to break encoders.
func edges(t schema.Type) []schema.Value {
	switch t.Kind {
	case schema.KindBool:
		return []schema.Value{schema.Bool(false), schema.Bool(true)}
	case schema.KindInt:
		return intEdges(t)
	case schema.KindFloat32:
		var out []schema.Value
		for _, f := range []float32{0, float32(math.Copysign(0, -1)), 1.5, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32, 0.1} {
			out = append(out, schema.Float32(f))
		}
		return out
	case schema.KindFloat64:
		var out []schema.Value
		for _, f := range []float64{0, math.Copysign(0, -1), 1.5, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, math.MaxFloat64, -math.MaxFloat64, 0.1} {
			out = append(out, schema.Float64(f))
		}
		return out
	case schema.KindDecimal:
		return decimalEdges(t)
	case schema.KindString:
		switch t.Logical {
		case schema.LogicalUUID:
			return []schema.Value{schema.Text([]byte("00000000-0000-0000-0000-000000000000")), schema.Text([]byte("c0ffee00-1234-4abc-8def-0123456789ab"))}
		case schema.LogicalEnum:
			return []schema.Value{schema.Text([]byte("glücklich")), schema.Text([]byte(`o"k`))}
		}
		return []schema.Value{schema.Text(nil), schema.Text([]byte{}), schema.Text([]byte("a\x00\x1f\"\\\n")), schema.Text([]byte("價格 😀 é")), schema.Text(make([]byte, 64)), schema.Text(make([]byte, 9000))}
	case schema.KindBytes:
		return []schema.Value{schema.Bytes(nil), schema.Bytes([]byte{}), schema.Bytes([]byte{0, 0xff, 0x80}), schema.Bytes(make([]byte, 70_000))}
	}
	e := edges(*t.Elem)
	return []schema.Value{schema.Array(nil), schema.Array([]schema.Value{}), schema.Array([]schema.Value{schema.Null()}),
		schema.Array(e), schema.Array(append(append([]schema.Value{schema.Null()}, e...), schema.Null()))}
}

func intEdges(t schema.Type) []schema.Value {
	var ns []int64
	switch {
	case t.Logical == schema.LogicalTime:
		ns = []int64{0, 1, dayMicros - 1, dayMicros}
	case t.Logical == schema.LogicalDate:
		ns = []int64{0, 1, -1, 19_000, -719_528, schema.InfinityDate, schema.NegativeInfinityDate}
	case t.Logical != schema.LogicalNone:
		ns = []int64{0, 1, -1, 1_700_000_000_123_456, -62_135_596_800_000_001, schema.InfinityTimestamp, schema.NegativeInfinityTimestamp, schema.InfinityTimestamp - 1}
	default:
		hi := int64(1)<<(t.Bits-1) - 1
		ns = []int64{0, 1, -1, 63, 64, -64, -65, 8191, 8192, hi, hi - 1, -hi - 1, -hi}
		for s := uint(13); s < uint(t.Bits-1); s++ {
			ns = append(ns, 1<<s, 1<<s-1, -1<<s, -1<<s-1)
		}
	}
	var out []schema.Value
	for _, n := range ns {
		out = append(out, schema.Int(n))
	}
	return out
}

// pow10 returns 10^p.
func pow10(p int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(p)), nil) }

// twos returns the two's complement of n with extra bytes of sign.
func twos(n *big.Int, extra int) []byte {
	size := n.BitLen()/8 + 1 + extra
	if n.Sign() >= 0 {
		return n.FillBytes(make([]byte, size))
	}
	m := new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	return m.FillBytes(make([]byte, size))
}

func decimalEdges(t schema.Type) []schema.Value {
	limit := new(big.Int).Sub(pow10(t.Precision), big.NewInt(1))
	var out []schema.Value
	for _, n := range []int64{0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, -32769, math.MaxInt64, math.MinInt64} {
		b := big.NewInt(n)
		if b.CmpAbs(limit) <= 0 {
			out = append(out, schema.Decimal(n), schema.BigDecimal(twos(b, 0)), schema.BigDecimal(twos(b, 3)))
		}
	}
	return append(out, schema.BigDecimal(twos(limit, 0)), schema.BigDecimal(twos(new(big.Int).Neg(limit), 2)))
}

// values draws a value of a type; null is the caller's business.
func values(t schema.Type) *rapid.Generator[schema.Value] {
	return rapid.OneOf(rapid.SampledFrom(edges(t)), rapid.Custom(func(r *rapid.T) schema.Value { return drawValue(r, t) }))
}

func drawValue(r *rapid.T, t schema.Type) schema.Value {
	switch t.Kind {
	case schema.KindBool:
		return schema.Bool(rapid.Bool().Draw(r, "bool"))
	case schema.KindInt:
		_, lo, hi := intRange(&t)
		return schema.Int(rapid.Int64Range(lo, hi).Draw(r, "int"))
	case schema.KindFloat32:
		return schema.Float32(rapid.Float32().Draw(r, "float"))
	case schema.KindFloat64:
		return schema.Float64(rapid.Float64().Draw(r, "double"))
	case schema.KindDecimal:
		n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(r, "digits"))
		n.Mod(n, pow10(rapid.IntRange(1, t.Precision).Draw(r, "precision")))
		if rapid.Bool().Draw(r, "negative") {
			n.Neg(n)
		}
		if n.IsInt64() && rapid.Bool().Draw(r, "num") {
			return schema.Decimal(n.Int64())
		}
		return schema.BigDecimal(twos(n, rapid.IntRange(0, 2).Draw(r, "extra")))
	case schema.KindBytes:
		return schema.Bytes(rapid.SliceOf(rapid.Byte()).Draw(r, "bytes"))
	case schema.KindArray:
		elems := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) schema.Value {
			if rapid.IntRange(0, 3).Draw(r, "null") == 0 {
				return schema.Null()
			}
			return values(*t.Elem).Draw(r, "elem")
		}), 0, 5)
		return schema.Array(elems.Draw(r, "elems"))
	}
	if t.Logical == schema.LogicalUUID {
		return schema.Text([]byte(rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).Draw(r, "uuid")))
	}
	return schema.Text([]byte(rapid.String().Draw(r, "text")))
}
