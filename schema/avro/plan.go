package avro

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-cdc/tidemark/schema"
)

// dayMicros is 24:00:00, the largest time of day.
const dayMicros = 86_400_000_000

// operation is how a step writes a value; the value's kind has been checked.
type operation uint8

const (
	opBool operation = iota
	opLong           // within lo and hi
	opFloat
	opDouble
	opString // bytes too
	opUUID
	opDecimal
	opArray
	opMap
)

// step writes one column, or one element of an array.
type step struct {
	kind     schema.Kind
	op       operation
	nullable bool  // a union of null and the type
	index    int   // of the column in the row
	lo, hi   int64 // bounds of Num, for integers and decimals
	limit    *decimalLimit
	elem     *step
}

// Plan appends the rows of one table version. It is immutable and may be used by many
// goroutines at once.
type Plan struct {
	table  *schema.Table
	schema string
	steps  []step
	names  [][]byte // of each step's column, as an Avro string
	value  bool
}

// CompileKey returns the plan for the table's keys. A table without a key is an error.
func CompileKey(t *schema.Table, o Options) (*Plan, error) {
	text, err := KeySchema(t, o)
	if err != nil {
		return nil, err
	}
	p := &Plan{table: t, schema: text}
	for _, k := range t.Key {
		p.add(k)
	}
	return p, nil
}

// CompileValue returns the plan for the table's values in the flat format.
func CompileValue(t *schema.Table, o Options) (*Plan, error) {
	text, err := ValueSchema(t, o)
	if err != nil {
		return nil, err
	}
	p := &Plan{table: t, schema: text, value: true}
	for i := range t.Columns {
		p.add(i)
	}
	return p, nil
}

// Schema returns the schema's text: compact JSON, the same for the same table and options.
func (p *Plan) Schema() string { return p.schema }

// Table returns the table version the plan was compiled for.
func (p *Plan) Table() *schema.Table { return p.table }

// add appends the step of one column.
func (p *Plan) add(index int) {
	c := &p.table.Columns[index]
	s := typeStep(&c.Type)
	s.index = index
	s.nullable = !p.table.IsKey(index)
	p.steps = append(p.steps, s)
	p.names = append(p.names, append(appendLong(nil, int64(len(c.Name))), c.Name...))
}

// typeStep compiles a type that appendType has accepted.
func typeStep(t *schema.Type) step {
	s := step{kind: t.Kind}
	switch t.Kind {
	case schema.KindBool:
		s.op = opBool
	case schema.KindInt:
		s.op, s.lo, s.hi = intRange(t)
	case schema.KindFloat32:
		s.op = opFloat
	case schema.KindFloat64:
		s.op = opDouble
	case schema.KindString, schema.KindBytes:
		s.op = opString
		if t.Logical == schema.LogicalUUID {
			s.op = opUUID
		}
	case schema.KindDecimal:
		s.op, s.limit = opDecimal, newDecimalLimit(t.Precision)
		s.lo, s.hi = -s.limit.num, s.limit.num
		if s.hi == 0 {
			s.lo, s.hi = math.MinInt64, math.MaxInt64
		}
	case schema.KindArray:
		elem := typeStep(t.Elem)
		elem.nullable = true
		s.op, s.elem = opArray, &elem
	case schema.KindMap:
		elem := typeStep(t.Elem)
		elem.nullable = true
		s.op, s.elem = opMap, &elem
	}
	return s
}

func intRange(t *schema.Type) (op operation, lo, hi int64) {
	switch {
	case t.Logical == schema.LogicalTime:
		return opLong, 0, dayMicros
	case t.Logical == schema.LogicalDate:
		return opLong, math.MinInt32, math.MaxInt32
	case t.Logical != schema.LogicalNone || t.Bits == 64:
		return opLong, math.MinInt64, math.MaxInt64
	case t.Bits == 16:
		return opLong, math.MinInt16, math.MaxInt16
	}
	return opLong, math.MinInt32, math.MaxInt32
}

// ValueError says that a value cannot be written as its column's type. It never holds the value.
type ValueError struct {
	Table  string // qualified name
	Column string // empty where the row as a whole is wrong
	Type   string // the database's name of the column's type
	Reason string
}

func (e *ValueError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("encode row of table %s: %s", e.Table, e.Reason)
	}
	return fmt.Sprintf("encode column %q (%s) of table %s: %s", e.Column, e.Type, e.Table, e.Reason)
}

// IsValueError reports whether err holds a ValueError: encoding the same row again fails again.
func IsValueError(err error) bool {
	var e *ValueError
	return errors.As(err, &e)
}

// fault is why a value was refused.
type fault uint8

const (
	faultNone fault = iota
	faultKind
	faultRange
	faultPrecision
	faultDecimal
	faultUUID
	faultElem
	faultMap
)

func (p *Plan) fail(s *step, v *schema.Value, f fault) error {
	c := &p.table.Columns[s.index]
	e := &ValueError{Table: p.table.QualifiedName(), Column: c.Name, Type: c.Type.Name}
	if e.Type == "" {
		e.Type = c.Type.Kind.String()
	}
	switch f {
	case faultKind:
		e.Reason = fmt.Sprintf("the value is of kind %s, not %s", v.Kind, c.Type.Kind)
		if v.Kind == schema.KindNull || v.Kind == schema.KindUnavailable {
			e.Reason = fmt.Sprintf("a key column must have a value, this one is %s; see the table's replica identity and message.key.columns", v.Kind)
		}
	case faultRange:
		e.Reason = "the number is out of the type's range"
	case faultPrecision:
		e.Reason = fmt.Sprintf("the number has more than %d digits", precision(&c.Type))
	case faultDecimal:
		e.Reason = "the decimal has no bytes"
	case faultUUID:
		e.Reason = "the text is not 36 characters long"
	case faultElem:
		e.Reason = "an element is neither null nor of the type of the elements"
	case faultMap:
		e.Reason = "the map is not made of pairs of a text and a value"
	}
	return e
}

func precision(t *schema.Type) int {
	if t.Elem != nil {
		return t.Elem.Precision
	}
	return t.Precision
}

func (p *Plan) failRow(row schema.Row) error {
	return &ValueError{Table: p.table.QualifiedName(),
		Reason: fmt.Sprintf("the row has %d values, the table has %d columns", len(row), len(p.table.Columns))}
}
