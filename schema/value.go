// Package schema describes tables, columns, types and typed values, without knowing
// any database or any wire format. It is a leaf: it imports nothing of ours.
package schema

import "math"

// Kind tells how a Value is carried.
type Kind uint8

// The kinds. The zero Value is Unavailable, so that a slot nobody filled is never
// published as a NULL.
const (
	KindUnavailable Kind = iota // the log did not carry the column
	KindNull                    // SQL NULL
	KindBool                    // Num is 0 or 1
	KindInt                     // Num holds the integer, of Type.Bits bits
	KindFloat32                 // the low 32 bits of Num are the IEEE 754 bits
	KindFloat64                 // Num holds the IEEE 754 bits
	KindDecimal                 // unscaled integer at Type.Scale: Num where Bytes is nil, else Bytes (two's complement, big endian, at least one byte)
	KindString                  // Bytes is UTF-8 text
	KindBytes                   // Bytes as they are
	KindArray                   // Elems, one dimension
	KindMap                     // Elems: key, value, key, value; keys are KindString and differ
)

// String returns the kind's name for messages.
func (k Kind) String() string {
	names := [...]string{"unavailable", "null", "bool", "int", "float32", "float64", "decimal", "string", "bytes", "array", "map"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Value is one typed value. It owns no memory: Bytes and Elems belong to whoever
// decoded the row and are valid as long as the Batch that carries them (see
// connectors.Source.Next).
type Value struct {
	Kind  Kind
	Num   int64
	Bytes []byte
	Elems []Value
}

// Row is one row image, indexed like Table.Columns.
type Row []Value

// Null returns the SQL NULL.
func Null() Value { return Value{Kind: KindNull} }

// Bool returns a boolean value.
func Bool(b bool) Value {
	if b {
		return Value{Kind: KindBool, Num: 1}
	}
	return Value{Kind: KindBool}
}

// Int returns an integer value; dates, times and timestamps are integers too (see Logical).
func Int(n int64) Value { return Value{Kind: KindInt, Num: n} }

// Float32 returns a single-precision value, bit for bit.
func Float32(f float32) Value {
	return Value{Kind: KindFloat32, Num: int64(math.Float32bits(f))}
}

// Float64 returns a double-precision value, bit for bit.
func Float64(f float64) Value {
	return Value{Kind: KindFloat64, Num: int64(math.Float64bits(f))}
}

// Decimal returns a decimal whose unscaled integer fits 64 bits.
func Decimal(unscaled int64) Value { return Value{Kind: KindDecimal, Num: unscaled} }

// BigDecimal returns a decimal from its unscaled integer, two's complement, big endian.
func BigDecimal(unscaled []byte) Value { return Value{Kind: KindDecimal, Bytes: unscaled} }

// Text returns a string value; the bytes must be UTF-8 and are not copied.
func Text(b []byte) Value { return Value{Kind: KindString, Bytes: b} }

// Bytes returns a byte string; b is not copied.
func Bytes(b []byte) Value { return Value{Kind: KindBytes, Bytes: b} }

// Map returns a map of pairs: key, value, key, value; pairs are not copied.
func Map(pairs []Value) Value { return Value{Kind: KindMap, Elems: pairs} }

// Array returns a one-dimensional array; elems are not copied.
func Array(elems []Value) Value { return Value{Kind: KindArray, Elems: elems} }
