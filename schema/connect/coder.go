package connect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/tidemark-cdc/tidemark/schema"
)

// Coder appends values of one schema. It is immutable and may be used by many goroutines at once.
type Coder struct {
	s      *Schema
	scale  int      // of a decimal
	fields []*Coder // Struct
	keys   [][]byte // Struct: of each field in JSON: a comma where another precedes it, the name, a colon
	elem   *Coder   // Array, Map
}

// Compile returns the coder of a schema.
func Compile(s *Schema) *Coder {
	c := &Coder{s: s}
	if s.Name == DecimalName {
		c.scale, _ = strconv.Atoi(s.Param(ParamScale))
	}
	for i, f := range s.Fields {
		var key []byte
		if i > 0 {
			key = append(key, ',')
		}
		c.keys = append(c.keys, append(appendString(key, f.Name), ':'))
		c.fields = append(c.fields, Compile(f.Schema))
	}
	if s.Elem != nil {
		c.elem = Compile(s.Elem)
	}
	return c
}

// Schema returns the schema the coder was compiled from.
func (c *Coder) Schema() *Schema { return c.s }

var (
	errNull   = errors.New("has no value and must have one")
	errKind   = errors.New("is of another kind than its schema")
	errRange  = errors.New("is out of the range of its type")
	errFields = errors.New("has another number of fields than its schema")
)

// value returns what is written for v: the default for a null, as Connect's Struct.get has it.
func (c *Coder) value(v *schema.Value) *schema.Value {
	if v.Kind <= schema.KindNull && c.s.Default != nil {
		return c.s.Default
	}
	return v
}

// AppendAvro appends an Avro body of a schema that is not optional at its top. After an error the buffer is as long as before.
func (c *Coder) AppendAvro(dst []byte, v *schema.Value) ([]byte, error) {
	out, err := c.appendAvro(dst, v)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func (c *Coder) appendAvroField(dst []byte, v *schema.Value) ([]byte, error) {
	v = c.value(v)
	if c.s.Optional {
		null := v.Kind <= schema.KindNull
		if branch := null == (c.s.Default != nil); branch { // the null is first unless there is a default
			dst = append(dst, 2)
		} else {
			dst = append(dst, 0)
		}
		if null {
			return dst, nil
		}
	}
	return c.appendAvro(dst, v)
}

func (c *Coder) appendAvro(dst []byte, v *schema.Value) ([]byte, error) {
	if v.Kind <= schema.KindNull {
		return dst, errNull
	}
	switch c.s.Type {
	case Boolean:
		return append(dst, byte(v.Num&1)), is(v, schema.KindBool)
	case Int16, Int32, Int64:
		return binary.AppendVarint(dst, v.Num), c.integer(v)
	case Float32:
		return binary.LittleEndian.AppendUint32(dst, uint32(v.Num)), is(v, schema.KindFloat32)
	case Float64:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.Num)), is(v, schema.KindFloat64)
	case String:
		return append(binary.AppendVarint(dst, int64(len(v.Bytes))), v.Bytes...), is(v, schema.KindString)
	case Bytes:
		if v.Kind == schema.KindDecimal && v.Bytes == nil {
			n := unscaledLen(v.Num)
			return appendUnscaled(binary.AppendVarint(dst, int64(n)), v.Num), nil
		}
		return append(binary.AppendVarint(dst, int64(len(v.Bytes))), v.Bytes...), isBytes(v)
	case Struct:
		return c.appendAvroStruct(dst, v)
	}
	return c.appendAvroItems(dst, v)
}

func (c *Coder) appendAvroStruct(dst []byte, v *schema.Value) ([]byte, error) {
	if v.Kind != schema.KindArray || len(v.Elems) != len(c.fields) {
		return dst, errFields
	}
	var err error
	for i, f := range c.fields {
		if dst, err = f.appendAvroField(dst, &v.Elems[i]); err != nil {
			return dst, fieldError(c.s.Fields[i].Name, err)
		}
	}
	return dst, nil
}

func (c *Coder) appendAvroItems(dst []byte, v *schema.Value) ([]byte, error) {
	step := 1
	if c.s.Type == Map {
		step = 2
	}
	if err := c.items(v); err != nil {
		return dst, err
	}
	if len(v.Elems) > 0 {
		dst = binary.AppendVarint(dst, int64(len(v.Elems)/step))
	}
	var err error
	for i := 0; i < len(v.Elems); i += step {
		if step == 2 {
			dst = append(binary.AppendVarint(dst, int64(len(v.Elems[i].Bytes))), v.Elems[i].Bytes...)
		}
		if dst, err = c.elem.appendAvroField(dst, &v.Elems[i+step-1]); err != nil {
			return dst, err
		}
	}
	return append(dst, 0), nil
}

// items checks an array or a map.
func (c *Coder) items(v *schema.Value) error {
	if c.s.Type == Map {
		return is(v, schema.KindMap)
	}
	return is(v, schema.KindArray)
}

// FieldError says which field cannot be written. It never holds the value.
type FieldError struct {
	Field string // dots between the names of nested ones
	Err   error
}

func (e *FieldError) Error() string { return fmt.Sprintf("field %q %s", e.Field, e.Err) }

// Unwrap returns the reason.
func (e *FieldError) Unwrap() error { return e.Err }

func fieldError(name string, err error) error {
	var inner *FieldError
	if errors.As(err, &inner) {
		return &FieldError{name + "." + inner.Field, inner.Err}
	}
	return &FieldError{name, err}
}

func is(v *schema.Value, kind schema.Kind) error {
	if v.Kind != kind {
		return errKind
	}
	return nil
}

func isBytes(v *schema.Value) error {
	if v.Kind != schema.KindBytes && v.Kind != schema.KindDecimal {
		return errKind
	}
	return nil
}

func (c *Coder) integer(v *schema.Value) error {
	if v.Kind != schema.KindInt {
		return errKind
	}
	if c.s.Type == Int16 && v.Num != int64(int16(v.Num)) || c.s.Type == Int32 && (v.Num < math.MinInt32 || v.Num > math.MaxInt32) {
		return errRange
	}
	return nil
}

// unscaledLen is the length of the shortest two's complement form.
func unscaledLen(n int64) int {
	size := 1
	for size < 8 && n>>(8*size-1) != 0 && n>>(8*size-1) != -1 {
		size++
	}
	return size
}

func appendUnscaled(dst []byte, n int64) []byte {
	for i := unscaledLen(n) - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return dst
}
