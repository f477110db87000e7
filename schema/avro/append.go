package avro

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/tidemark-cdc/tidemark/schema"
)

// Meta is what a value says about its change.
type Meta struct {
	Op       byte   // 'c', 'u', 'd', 'r', 't' or 'm'
	Pos      string // commit position, compact JSON
	Seq      int64
	Gen      int64
	TsMicros int64 // microseconds since the Unix epoch
	// Delete says that the row is the image before a delete, as Op 'd' does: what the log did
	// not carry is null by definition and is not listed as unavailable.
	Delete bool
}

var (
	errNotKey   = errors.New("append key: the plan was compiled for values")
	errNotValue = errors.New("append value: the plan was compiled for keys")
)

// AppendKey appends the key of row, which is indexed like the table's columns, and returns
// the extended buffer. After an error, a *ValueError, the buffer is as long as before.
func (p *Plan) AppendKey(dst []byte, row schema.Row) ([]byte, error) {
	if p.value {
		return dst, errNotKey
	}
	start := len(dst)
	dst, _, err := p.appendColumns(dst, row)
	if err != nil {
		return dst[:start], err
	}
	return dst, nil
}

// AppendValue appends the value of row in the flat format and returns the extended buffer.
// After an error, a *ValueError, the buffer is as long as before.
func (p *Plan) AppendValue(dst []byte, row schema.Row, m *Meta) ([]byte, error) {
	if !p.value {
		return dst, errNotValue
	}
	start := len(dst)
	dst, unavailable, err := p.appendColumns(dst, row)
	if err != nil {
		return dst[:start], err
	}
	dst = reserve(dst, 5*slack+len(m.Pos))
	dst = append(dst, 2, m.Op)
	dst = putLong(dst, int64(len(m.Pos)))
	dst = append(dst, m.Pos...)
	dst = putLong(dst, m.Seq)
	dst = putLong(dst, m.Gen)
	dst = putLong(dst, m.TsMicros)
	if unavailable > 0 && m.Op != 'd' && !m.Delete {
		dst = p.appendUnavailable(dst, row, unavailable)
	}
	return append(dst, 0), nil // the end of the array
}

// appendColumns appends every column of the plan and counts the unavailable ones.
func (p *Plan) appendColumns(dst []byte, row schema.Row) ([]byte, int, error) {
	if len(row) != len(p.table.Columns) {
		return dst, 0, p.failRow(row)
	}
	unavailable := 0
	for i := range p.steps {
		s := &p.steps[i]
		v := &row[s.index]
		dst = reserve(dst, slack+len(v.Bytes))
		if v.Kind != s.kind {
			if v.Kind > schema.KindNull || !s.nullable {
				return dst, 0, p.fail(s, v, faultKind)
			}
			if v.Kind == schema.KindUnavailable {
				unavailable++
			}
			dst = append(dst, 0)
			continue
		}
		if s.nullable {
			dst = append(dst, 2)
		}
		var f fault
		if dst, f = s.append(dst, v); f != faultNone {
			return dst, 0, p.fail(s, v, f)
		}
	}
	return dst, unavailable, nil
}

// append appends a value of the step's kind; dst has room for slack-1 and the value's bytes.
func (s *step) append(dst []byte, v *schema.Value) ([]byte, fault) {
	switch s.op {
	case opLong:
		if v.Num < s.lo || v.Num > s.hi {
			return dst, faultRange
		}
		return putLong(dst, v.Num), faultNone
	case opUUID:
		if len(v.Bytes) != 36 {
			return dst, faultUUID
		}
		return append(append(dst, 72), v.Bytes...), faultNone
	case opString:
		return append(putLong(dst, int64(len(v.Bytes))), v.Bytes...), faultNone
	case opDecimal:
		return s.appendDecimal(dst, v)
	case opDouble:
		return binary.LittleEndian.AppendUint64(dst, uint64(v.Num)), faultNone
	case opFloat:
		return binary.LittleEndian.AppendUint32(dst, uint32(v.Num)), faultNone
	case opBool:
		if v.Num != 0 {
			return append(dst, 1), faultNone
		}
		return append(dst, 0), faultNone
	case opArray:
		return s.appendArray(dst, v.Elems)
	case opMap:
		return s.appendMap(dst, v.Elems)
	}
	return dst, faultKind
}

func (s *step) appendDecimal(dst []byte, v *schema.Value) ([]byte, fault) {
	if v.Bytes == nil {
		if v.Num < s.lo || v.Num > s.hi {
			return dst, faultPrecision
		}
		return appendDecimal(dst, v.Num), faultNone
	}
	if len(v.Bytes) == 0 {
		return dst, faultDecimal
	}
	b := minimal(v.Bytes)
	if !s.limit.holds(b) {
		return dst, faultPrecision
	}
	return append(putLong(dst, int64(len(b))), b...), faultNone
}

// appendArray appends the elements as one block. Elements are unions of null and the type.
func (s *step) appendArray(dst []byte, elems []schema.Value) ([]byte, fault) {
	if len(elems) == 0 {
		return append(dst, 0), faultNone
	}
	dst = putLong(dst, int64(len(elems)))
	for i := range elems {
		var f fault
		if dst, f = s.appendElem(dst, &elems[i]); f != faultNone {
			return dst, f
		}
	}
	return append(reserve(dst, slack), 0), faultNone
}

// appendElem appends an item of an array or map.
func (s *step) appendElem(dst []byte, v *schema.Value) ([]byte, fault) {
	dst = reserve(dst, slack+len(v.Bytes))
	switch v.Kind {
	case s.elem.kind:
		return s.elem.append(append(dst, 2), v)
	case schema.KindNull:
		return append(dst, 0), faultNone
	}
	return dst, faultElem
}

// appendMap appends the pairs as one block, in their order.
func (s *step) appendMap(dst []byte, pairs []schema.Value) ([]byte, fault) {
	if len(pairs)%2 != 0 {
		return dst, faultMap
	}
	if len(pairs) == 0 {
		return append(dst, 0), faultNone
	}
	dst = putLong(dst, int64(len(pairs)/2))
	for i := 0; i < len(pairs); i += 2 {
		key := &pairs[i]
		if key.Kind != schema.KindString {
			return dst, faultMap
		}
		dst = reserve(dst, slack+len(key.Bytes))
		dst = append(putLong(dst, int64(len(key.Bytes))), key.Bytes...)
		var f fault
		if dst, f = s.appendElem(dst, &pairs[i+1]); f != faultNone {
			return dst, f
		}
	}
	return append(reserve(dst, slack), 0), faultNone
}

// appendUnavailable appends the block of the unavailable columns' names, without the array's end.
func (p *Plan) appendUnavailable(dst []byte, row schema.Row, count int) []byte {
	dst = appendLong(dst, int64(count))
	for i := range p.steps {
		if row[p.steps[i].index].Kind == schema.KindUnavailable {
			dst = append(dst, p.names[i]...)
		}
	}
	return dst
}

// slack is room for any value besides its bytes: a union's branch, the longest varint, and
// the end of an array.
const slack = 16

func reserve(dst []byte, n int) []byte {
	if cap(dst)-len(dst) < n {
		return slices.Grow(dst, n)
	}
	return dst
}

// appendLong appends an Avro int or long: zigzag, then a varint.
func appendLong(dst []byte, n int64) []byte {
	return putLong(reserve(dst, slack), n)
}

// putLong is appendLong where dst has room for 10 bytes.
func putLong(dst []byte, n int64) []byte {
	u := uint64(n)<<1 ^ uint64(n>>63)
	if u < 0x80 {
		return append(dst, byte(u))
	}
	return putUvarint(dst, u)
}

// putUvarint spreads up to 56 bits over the bytes of one word instead of looping, since most
// records hold at least two timestamps of 8 bytes.
func putUvarint(dst []byte, u uint64) []byte {
	if u >= 1<<56 {
		return binary.AppendUvarint(dst, u)
	}
	size := (bits.Len64(u) + 6) / 7
	x := u&0x0fffffff | u&0x00fffffff0000000<<4
	x = x&0x00003fff00003fff | x&0x0fffc0000fffc000<<2
	x = x&0x007f007f007f007f | x&0x3f803f803f803f80<<1
	x |= 0x8080808080808080 & (1<<(8*(size-1)) - 1)
	at := len(dst)
	dst = dst[:at+8]
	binary.LittleEndian.PutUint64(dst[at:], x)
	return dst[:at+size]
}
