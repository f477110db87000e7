package connect

import (
	"bytes"
	"math"
	"math/big"
	"strconv"

	"github.com/tidemark-cdc/tidemark/schema"
)

type jsonOptions struct{ numeric bool }

// Converter says in which of Connect's converters' formats a side of a record is written. The zero
// value is Avro in Confluent's wire format.
type Converter struct {
	JSON    bool
	Schemas bool // JSON: {"schema":…,"payload":…} instead of the payload alone (schemas.enable)
	Numeric bool // JSON: decimals as numbers (decimal.format=NUMERIC), else the base64 of their unscaled bytes
}

// Writer writes values of one schema in a converter's format. It is immutable.
type Writer struct {
	*Coder
	c     Converter
	fixed string
	head  []byte // JSON: what precedes the payload
}

// NewWriter compiles a schema for a converter. Floats that JSON has no number for are the strings
// "NaN", "Infinity" and "-Infinity", as Jackson writes them.
func NewWriter(s *Schema, c Converter) *Writer {
	w := &Writer{Coder: Compile(s), c: c}
	if !c.JSON {
		w.fixed = s.AvroSchema()
		return w
	}
	w.fixed = s.JSONSchema()
	if c.Schemas {
		w.head = append(append([]byte(`{"schema":`), w.fixed...), `,"payload":`...)
	}
	return w
}

// Registered returns the schema's text for the registry, empty where the converter needs none.
func (w *Writer) Registered() string {
	if w.c.JSON {
		return ""
	}
	return w.fixed
}

// Fixed returns the text of what the written bytes depend on beside the value.
func (w *Writer) Fixed() string { return w.fixed }

// Append appends one value, in Avro the body without the wire format's header. After an error the
// buffer is as long as before.
func (w *Writer) Append(dst []byte, v *schema.Value) ([]byte, error) {
	if !w.c.JSON {
		return w.AppendAvro(dst, v)
	}
	out, err := w.appendJSONValue(append(dst, w.head...), v, jsonOptions{w.c.Numeric})
	if err != nil {
		return dst, err
	}
	if w.head != nil {
		out = append(out, '}')
	}
	return out, nil
}

// AppendPlain appends the value without schema and envelope, decimals as numbers: what Connect's SimpleHeaderConverter writes.
func (c *Coder) AppendPlain(dst []byte, v *schema.Value) ([]byte, error) {
	out, err := c.appendJSONValue(dst, v, jsonOptions{numeric: true})
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (c *Coder) appendJSONValue(dst []byte, v *schema.Value, o jsonOptions) ([]byte, error) {
	v = c.value(v)
	if v.Kind <= schema.KindNull {
		if !c.s.Optional {
			return dst, errNull
		}
		return append(dst, "null"...), nil
	}
	switch c.s.Type {
	case Boolean:
		return strconv.AppendBool(dst, v.Num != 0), is(v, schema.KindBool)
	case Int16, Int32, Int64:
		return strconv.AppendInt(dst, v.Num, 10), c.integer(v)
	case Float32:
		return appendFloat(dst, float64(math.Float32frombits(uint32(v.Num))), 32), is(v, schema.KindFloat32)
	case Float64:
		return appendFloat(dst, math.Float64frombits(uint64(v.Num)), 64), is(v, schema.KindFloat64)
	case String:
		return appendString(dst, v.Bytes), is(v, schema.KindString)
	case Bytes:
		return c.appendJSONBytes(dst, v, o), isBytes(v)
	case Struct:
		return c.appendJSONStruct(dst, v, o)
	case Map:
		return c.appendJSONMap(dst, v, o)
	}
	return c.appendJSONArray(dst, v, o)
}

func (c *Coder) appendJSONBytes(dst []byte, v *schema.Value, o jsonOptions) []byte {
	if v.Kind != schema.KindDecimal {
		return appendBase64(dst, v.Bytes)
	}
	if o.numeric && c.s.Name == DecimalName {
		return appendDecimal(dst, v, c.scale)
	}
	if v.Bytes != nil {
		return appendBase64(dst, v.Bytes)
	}
	var space [8]byte
	return appendBase64(dst, appendUnscaled(space[:0], v.Num))
}

func (c *Coder) appendJSONStruct(dst []byte, v *schema.Value, o jsonOptions) ([]byte, error) {
	if v.Kind != schema.KindArray || len(v.Elems) != len(c.fields) {
		return dst, errFields
	}
	dst = append(dst, '{')
	var err error
	for i, f := range c.fields {
		dst = append(dst, c.keys[i]...)
		if dst, err = f.appendJSONValue(dst, &v.Elems[i], o); err != nil {
			return dst, fieldError(c.s.Fields[i].Name, err)
		}
	}
	return append(dst, '}'), nil
}

func (c *Coder) appendJSONMap(dst []byte, v *schema.Value, o jsonOptions) ([]byte, error) {
	if err := c.items(v); err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	var err error
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, v.Elems[i].Bytes), ':')
		if dst, err = c.elem.appendJSONValue(dst, &v.Elems[i+1], o); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func (c *Coder) appendJSONArray(dst []byte, v *schema.Value, o jsonOptions) ([]byte, error) {
	if err := c.items(v); err != nil {
		return dst, err
	}
	dst = append(dst, '[')
	var err error
	for i := range v.Elems {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = c.elem.appendJSONValue(dst, &v.Elems[i], o); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// appendFloat appends a number as Java's Float.toString and Double.toString do.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	at := len(dst)
	if a := math.Abs(f); f == 0 || a >= 1e-3 && a < 1e7 {
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		if bytes.IndexByte(dst[at:], '.') < 0 {
			dst = append(dst, '.', '0')
		}
		return dst
	}
	var space [32]byte
	text := strconv.AppendFloat(space[:0], f, 'E', -1, bits)
	e := bytes.IndexByte(text, 'E')
	dst = append(dst, text[:e]...)
	if bytes.IndexByte(text[:e], '.') < 0 {
		dst = append(dst, '.', '0')
	}
	exponent, _ := strconv.Atoi(string(text[e+1:]))
	return strconv.AppendInt(append(dst, 'E'), int64(exponent), 10)
}

// appendDecimal appends a decimal's digits.
func appendDecimal(dst []byte, v *schema.Value, scale int) []byte {
	n := big.NewInt(v.Num)
	if v.Bytes != nil {
		n.SetBytes(v.Bytes)
		if len(v.Bytes) > 0 && v.Bytes[0]&0x80 != 0 {
			n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(v.Bytes))))
		}
	}
	if n.Sign() < 0 {
		dst = append(dst, '-')
		n.Neg(n)
	}
	digits := n.Append(nil, 10)
	for len(digits) <= scale {
		digits = append([]byte{'0'}, digits...)
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	if scale > 0 {
		dst = append(append(dst, '.'), digits[len(digits)-scale:]...)
	}
	return dst
}
