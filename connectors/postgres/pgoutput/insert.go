package pgoutput

import "fmt"

// Insert is a new row.
type Insert struct {
	RelationID uint32
	New        Tuple
}

// Decode reads an Insert message: I, Int32 relation id, N, tuple. Values alias
// src.
func (m *Insert) Decode(src []byte) error {
	r := open(src, KindInsert)
	m.RelationID = r.uint32("relation id")
	r.newMark()
	m.New.decode(&r, "new")
	return r.end()
}

// newMark reads the N that announces a new tuple.
func (r *reader) newMark() {
	if mark := r.byte("tuple kind"); mark != 'N' {
		r.fail(r.off-1, "tuple kind", fmt.Sprintf("is 0x%02x, not N", mark))
	}
}
