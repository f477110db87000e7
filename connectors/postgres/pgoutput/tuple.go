package pgoutput

import (
	"encoding/binary"
	"fmt"
)

// How a column's value is sent.
const (
	ColumnNull      byte = 'n'
	ColumnUnchanged byte = 'u' // a TOASTed value the update left alone; not sent
	ColumnText      byte = 't'
	ColumnBinary    byte = 'b' // only if replication was started with binary 'true'
)

// ColumnValue is one column's value in a row.
type ColumnValue struct {
	Kind byte // ColumnNull, ColumnUnchanged, ColumnText or ColumnBinary
	// Data is the value's text or binary form. It aliases the input, with its
	// capacity cut to its length. Nil if null or unchanged; an empty value is
	// not nil.
	Data []byte
}

// Tuple is a row, with a value for each column of its [Relation], in the same
// order. Columns is reused by the next decode into the same Tuple.
type Tuple struct {
	Columns []ColumnValue
}

// decode reads a tuple; name is the word for it in errors. The loop works on
// locals instead of the reader's methods: most of a stream is decoded here.
func (t *Tuple) decode(r *reader, name string) {
	cols := t.Columns[:0]
	t.Columns = cols
	n := r.count16("number of columns", 1)
	if r.err != nil {
		return
	}
	if cap(cols) < n {
		cols = make([]ColumnValue, n)
	}
	cols = cols[:n]
	src, off := r.src, r.off
	for i := range cols {
		c := &cols[i]
		if off >= len(src) {
			r.failColumn(off, name, i, "kind", "needs 1 byte, 0 left")
			return
		}
		kind := src[off]
		off++
		switch kind {
		case ColumnText, ColumnBinary:
			if len(src)-off < 4 {
				r.failColumn(off, name, i, "length", fmt.Sprintf("needs 4 bytes, %d left", len(src)-off))
				return
			}
			size := int(int32(binary.BigEndian.Uint32(src[off:])))
			off += 4
			if size < 0 {
				r.failColumn(off-4, name, i, "length", fmt.Sprintf("is negative: %d", size))
				return
			}
			if size > len(src)-off {
				r.failColumn(off, name, i, "value", fmt.Sprintf("needs %d bytes, %d left", size, len(src)-off))
				return
			}
			end := off + size
			c.Kind, c.Data = kind, src[off:end:end]
			off = end
		case ColumnNull, ColumnUnchanged:
			c.Kind, c.Data = kind, nil
		default:
			r.failColumn(off-1, name, i, "kind", fmt.Sprintf("is 0x%02x, not one of n, u, t, b", kind))
			return
		}
	}
	r.off = off
	t.Columns = cols
}

func (r *reader) failColumn(at int, tuple string, column int, part, reason string) {
	r.fail(at, fmt.Sprintf("%s of column %d of the %s tuple", part, column, tuple), reason)
}

// The kinds of an old tuple in Update and Delete.
const (
	OldNone byte = 0   // no old tuple: an update that left the key alone
	OldKey  byte = 'K' // the replica identity's columns; all others are null
	OldFull byte = 'O' // the whole row: REPLICA IDENTITY FULL
)
