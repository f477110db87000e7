package debezium

import (
	"crypto/md5" //nolint:gosec // G501: Java's UUID.nameUUIDFromBytes, no protection
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// role is what a value is of.
type role uint8

const (
	asNew role = iota
	asOld      // an old row: what the log did not carry is null, or where that is not allowed the fallback
	asKey
)

// column converts one column from what the source decodes, with values.Options.Text, to Debezium's value.
type column struct {
	index       int // in the table
	schema      *connect.Schema
	convert     converter
	placeholder schema.Value // for a value that the log did not carry; KindUnavailable: null
	fallback    schema.Value // for a value that is missing and may not be null
}

// converter turns a decoded value, neither null nor unavailable, into Debezium's. What it makes lives in the arena.
type converter func(a *arena, v *schema.Value) (schema.Value, error)

var errNoValue = errors.New("a key column must have a value, this one has none; see the table's replica identity and message.key.columns")

func (c *column) value(a *arena, v, into *schema.Value, as role) (err error) {
	switch {
	case v.Kind > schema.KindNull:
		*into, err = c.convert(a, v)
		return err
	case as == asKey:
		return errNoValue
	case as == asNew && v.Kind == schema.KindUnavailable && c.placeholder.Kind > schema.KindNull:
		*into = c.placeholder
	case !c.schema.Optional && c.schema.Default == nil:
		*into = c.fallback
	default:
		*into = schema.Null()
	}
	return nil
}

// errNullElement: Debezium's schema of an array of an enum or of a domain has elements that are not optional.
var errNullElement = errors.New("is NULL, which Debezium's schema of such an array does not allow; exclude the column (column.exclude.list)")

// mapping is what is known of a type.
type mapping struct {
	schema      *connect.Schema
	convert     converter
	placeholder schema.Value
	fallback    schema.Value
}

// column maps a column; its convert is nil where Debezium publishes none.
func (f *Format) column(c *schema.Column, index int) column {
	m := f.mapType(&c.Type)
	if m.convert == nil {
		return column{}
	}
	s := *m.schema
	s.Optional = !c.NotNull
	if d, ok := f.parseDefault(c, m); ok {
		s.Default = &d
	}
	return column{index: index, schema: &s, convert: m.convert, placeholder: m.placeholder, fallback: m.fallback}
}

// simple maps a type whose value needs no conversion.
func simple(t connect.Type, fallback schema.Value) mapping {
	return mapping{schema: connect.Of(t), convert: same, fallback: fallback}
}

func same(_ *arena, v *schema.Value) (schema.Value, error) { return *v, nil }

// text maps to a string, named or not.
func (f *Format) text(name string) mapping {
	m := mapping{schema: connect.Of(connect.String), convert: same, placeholder: f.placeholder(), fallback: schema.Text([]byte{})}
	if name != "" {
		m.schema = connect.Named(connect.String, name)
	}
	return m
}

func (f *Format) placeholder() schema.Value { return schema.Text([]byte(f.cfg.Placeholder)) }

// mapType maps a type of the database by its internal name.
func (f *Format) mapType(t *schema.Type) mapping {
	switch t.Base {
	case "bool":
		return simple(connect.Boolean, schema.Bool(false))
	case "int2":
		return simple(connect.Int16, schema.Int(0))
	case "int4":
		return simple(connect.Int32, schema.Int(0))
	case "int8", "oid":
		return simple(connect.Int64, schema.Int(0))
	case "float4":
		return simple(connect.Float32, schema.Float32(0))
	case "float8":
		return simple(connect.Float64, schema.Float64(0))
	case "numeric":
		return f.mapNumeric(t)
	case "money":
		return f.mapMoney()
	case "text", "varchar", "bpchar", "char", "name", "inet", "cidr", "macaddr", "macaddr8", "citext", "isbn",
		"int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange":
		return f.text("")
	case "json", "jsonb":
		return f.text("io.debezium.data.Json")
	case "uuid":
		return f.text("io.debezium.data.Uuid")
	case "xml":
		return f.text("io.debezium.data.Xml")
	case "ltree":
		return f.text("io.debezium.data.Ltree")
	case "tsvector":
		return f.text("io.debezium.data.Tsvector")
	case "bytea":
		return f.mapBinary(schema.Bytes([]byte(f.cfg.Placeholder)))
	case "date":
		return f.mapDate()
	case "time":
		return f.mapTime(t.Modifier)
	case "timestamp":
		return f.mapTimestamp(t.Modifier)
	case "timestamptz":
		return mapZoned(t.Modifier, f.placeholder())
	case "timetz":
		return mapping{schema: connect.Named(connect.String, "io.debezium.time.ZonedTime"), convert: zonedTime, fallback: schema.Text([]byte("00:00:00Z"))}
	case "interval":
		return f.mapInterval()
	case "bit", "varbit":
		return mapBits(t)
	case "hstore":
		return f.mapHstore()
	case "point":
		return mapPoint()
	case "vector", "halfvec":
		return mapVector(t.Base)
	}
	switch {
	case t.Logical == schema.LogicalEnum:
		m := f.text("io.debezium.data.Enum")
		m.schema.Params = []connect.Param{{Name: "allowed", Value: strings.Join(t.Labels, ",")}}
		return m
	case t.Kind == schema.KindArray:
		return f.mapArray(t)
	case f.cfg.Unknown:
		return f.mapUnknown(t)
	}
	return mapping{}
}

// mapUnknown maps any other type to the bytes of its text.
func (f *Format) mapUnknown(t *schema.Type) mapping {
	m := f.mapBinary(schema.Value{})
	if t.Kind != schema.KindString && t.Kind != schema.KindBytes {
		return mapping{}
	}
	inner := m.convert
	m.convert = func(a *arena, v *schema.Value) (schema.Value, error) {
		b := schema.Bytes(v.Bytes)
		return inner(a, &b)
	}
	return m
}

// mapArray maps an array whose elements Debezium publishes.
func (f *Format) mapArray(t *schema.Type) mapping {
	switch t.Elem.Base {
	case "money", "interval", "varbit", "xml", "point", "name":
		return mapping{} // "still need to be implemented" there, also with include.unknown.datatypes
	}
	if strings.HasPrefix(t.Elem.Name, "unknown") {
		return mapping{}
	}
	if t.Elem.Domain {
		if !f.cfg.Unknown {
			return mapping{}
		}
		elem := f.mapUnknown(&schema.Type{Kind: schema.KindString})
		return arrayOf(elem, false)
	}
	elem := f.mapType(t.Elem)
	if elem.convert == nil {
		return mapping{}
	}
	m := arrayOf(elem, t.Elem.Logical != schema.LogicalEnum)
	m.placeholder = f.arrayPlaceholder(t.Elem.Base)
	return m
}

func arrayOf(elem mapping, optional bool) mapping {
	s := *elem.schema
	s.Optional = optional
	convert := elem.convert
	return mapping{
		schema: &connect.Schema{Type: connect.Array, Elem: &s}, fallback: schema.Array(nil),
		convert: func(a *arena, v *schema.Value) (schema.Value, error) {
			elems := a.values(len(v.Elems))
			for i := range v.Elems {
				if v.Elems[i].Kind <= schema.KindNull {
					if !optional {
						return schema.Value{}, fmt.Errorf("element %d: %w", i+1, errNullElement)
					}
					elems[i] = schema.Null()
					continue
				}
				var err error
				if elems[i], err = convert(a, &v.Elems[i]); err != nil {
					return schema.Value{}, fmt.Errorf("element %d: %w", i+1, err)
				}
			}
			return schema.Array(elems), nil
		},
	}
}

// arrayPlaceholder is what stands for an array that the log did not carry, of the few types that Debezium has one for.
func (f *Format) arrayPlaceholder(elem string) schema.Value {
	text := []byte(f.cfg.Placeholder)
	switch elem {
	case "text", "varchar", "bpchar", "json", "jsonb":
		return schema.Array([]schema.Value{schema.Text(text)})
	case "bytea":
		if f.cfg.Binary == "bytes" {
			return schema.Array([]schema.Value{schema.Bytes(text)})
		}
	case "uuid":
		return schema.Array([]schema.Value{schema.Text(nameUUID(text))})
	case "int4", "int8", "date":
		if elem == "date" && (f.cfg.Time == "isostring" || f.cfg.Time == "connect") {
			return schema.Value{}
		}
		codes := make([]schema.Value, len(text))
		for i, c := range text {
			codes[i] = schema.Int(int64(int8(c)))
		}
		return schema.Array(codes)
	}
	return schema.Value{}
}

// nameUUID is Java's UUID.nameUUIDFromBytes: version 3 without a namespace.
func nameUUID(name []byte) []byte {
	h := md5.Sum(name) //nolint:gosec // G401: as above
	h[6], h[8] = h[6]&0x0f|0x30, h[8]&0x3f|0x80
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:])
}

// arena holds what converters make, until reset.
type arena struct {
	buf   []byte
	elems []schema.Value
}

func (a *arena) reset() { a.buf, a.elems = a.buf[:0], a.elems[:0] }

// take appends to the arena and returns what was appended. A buffer that grows leaves the old one to those who have a part of it.
func (a *arena) take(add func([]byte) []byte) []byte {
	at := len(a.buf)
	a.buf = add(a.buf)
	return a.buf[at:len(a.buf):len(a.buf)]
}

// values returns n values to be set.
func (a *arena) values(n int) []schema.Value {
	at := len(a.elems)
	for range n {
		a.elems = append(a.elems, schema.Value{})
	}
	return a.elems[at : at+n : at+n]
}

func paramInt(name string, n int) connect.Param {
	return connect.Param{Name: name, Value: strconv.Itoa(n)}
}
