package debezium

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

var (
	errHstore = errors.New("is not an hstore")
	errPoint  = errors.New("is not a point")
	errVector = errors.New("is not a vector")
)

// mapHstore maps to a JSON object of texts and nulls, or to a map.
func (f *Format) mapHstore() mapping {
	mark := f.placeholder()
	if f.cfg.Hstore == "map" {
		return mapping{
			schema: &connect.Schema{Type: connect.Map, Elem: connect.Of(connect.String).Opt()}, fallback: schema.Map(nil),
			placeholder: schema.Map([]schema.Value{mark, mark}),
			convert: func(a *arena, v *schema.Value) (schema.Value, error) {
				var pairs []schema.Value
				err := eachPair(a, v.Bytes, func(key []byte, value *[]byte) {
					pairs = append(pairs, schema.Text(key), schema.Null())
					if value != nil {
						pairs[len(pairs)-1] = schema.Text(*value)
					}
				})
				return schema.Map(pairs), err
			},
		}
	}
	quoted, _ := json.Marshal(f.cfg.Placeholder)
	object := append(append(append(append([]byte{'{'}, quoted...), ':'), quoted...), '}')
	return mapping{
		schema: connect.Named(connect.String, "io.debezium.data.Json"), fallback: schema.Text([]byte("{}")), placeholder: schema.Text(object),
		convert: func(a *arena, v *schema.Value) (schema.Value, error) {
			out := []byte{'{'}
			err := eachPair(a, v.Bytes, func(key []byte, value *[]byte) {
				if len(out) > 1 {
					out = append(out, ',')
				}
				out = append(appendJSONString(out, key), ':')
				if value == nil {
					out = append(out, "null"...)
				} else {
					out = appendJSONString(out, *value)
				}
			})
			return schema.Text(append(out, '}')), err
		},
	}
}

func appendJSONString(dst, s []byte) []byte {
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(string(s)) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// eachPair reads "key"=>"value", "other"=>NULL (contrib/hstore/hstore_io.c, hstore_out).
func eachPair(a *arena, b []byte, pair func(key []byte, value *[]byte)) error {
	text := func() ([]byte, bool) {
		if len(b) == 0 || b[0] != '"' {
			return nil, false
		}
		closed := false
		b = b[1:]
		out := a.take(func(dst []byte) []byte {
			for len(b) > 0 {
				c := b[0]
				b = b[1:]
				if c == '"' {
					closed = true
					break
				}
				if c == '\\' && len(b) > 0 {
					c = b[0]
					b = b[1:]
				}
				dst = append(dst, c)
			}
			return dst
		})
		return out, closed
	}
	for len(b) > 0 {
		key, ok := text()
		if !ok || !bytes.HasPrefix(b, []byte("=>")) {
			return errHstore
		}
		b = b[2:]
		if bytes.HasPrefix(b, []byte("NULL")) {
			b = b[4:]
			pair(key, nil)
		} else {
			value, ok := text()
			if !ok {
				return errHstore
			}
			pair(key, &value)
		}
		b = bytes.TrimPrefix(b, []byte(", "))
	}
	return nil
}

// mapPoint maps (x,y) to coordinates and well-known binary.
func mapPoint() mapping {
	double := connect.Of(connect.Float64)
	s := connect.Named(connect.Struct, "io.debezium.data.geometry.Point")
	s.Doc = "Geometry (POINT)"
	s.Fields = []connect.Field{{Name: "x", Schema: double}, {Name: "y", Schema: double}, {Name: "wkb", Schema: connect.Of(connect.Bytes).Opt()}, {Name: "srid", Schema: connect.Of(connect.Int32).Opt()}}
	fallback, _ := point(&arena{}, 0, 0)
	return mapping{schema: s, fallback: fallback, convert: func(a *arena, v *schema.Value) (schema.Value, error) {
		b := bytes.TrimSuffix(bytes.TrimPrefix(v.Bytes, []byte{'('}), []byte{')'})
		left, right, ok := bytes.Cut(b, []byte{','})
		x, err1 := strconv.ParseFloat(string(left), 64)
		y, err2 := strconv.ParseFloat(string(right), 64)
		if !ok || err1 != nil || err2 != nil {
			return schema.Value{}, errPoint
		}
		return point(a, x, y)
	}}
}

func point(a *arena, x, y float64) (schema.Value, error) {
	out := a.values(4)
	wkb := a.take(func(b []byte) []byte {
		b = append(b, 1, 1, 0, 0, 0) // little endian, a point
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(y))
	})
	out[0], out[1], out[2], out[3] = schema.Float64(x), schema.Float64(y), schema.Bytes(wkb), schema.Null()
	return schema.Array(out), nil
}

// mapVector maps pgvector's [1,2.5].
func mapVector(base string) mapping {
	name, bits, t := "io.debezium.data.DoubleVector", 64, connect.Float64
	if base == "halfvec" {
		name, bits, t = "io.debezium.data.FloatVector", 32, connect.Float32
	}
	s := connect.Named(connect.Array, name)
	s.Elem = connect.Of(t)
	return mapping{schema: s, fallback: schema.Array(nil), convert: func(a *arena, v *schema.Value) (schema.Value, error) {
		elems := v.Elems
		if v.Kind == schema.KindString {
			parts := bytes.Split(bytes.Trim(v.Bytes, "[]"), []byte{','})
			elems = a.values(len(parts))
			for i, p := range parts {
				f, err := strconv.ParseFloat(string(p), bits)
				if err != nil {
					return schema.Value{}, errVector
				}
				if elems[i] = schema.Float64(f); bits == 32 {
					elems[i] = schema.Float32(float32(f))
				}
			}
		}
		return schema.Array(elems), nil
	}}
}
