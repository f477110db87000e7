package pgoutput

import "fmt"

// Update is a changed row.
type Update struct {
	RelationID uint32
	OldKind    byte  // OldNone, OldKey or OldFull
	Old        Tuple // no columns with OldNone
	New        Tuple
}

// Decode reads an Update message: U, Int32 relation id, optionally K or O and
// the old tuple, N, the new tuple. Values alias src.
func (m *Update) Decode(src []byte) error {
	r := open(src, KindUpdate)
	m.RelationID = r.uint32("relation id")
	m.OldKind = OldNone
	m.Old.Columns = m.Old.Columns[:0]
	switch mark := r.byte("tuple kind"); mark {
	case 'N':
	case OldKey, OldFull:
		m.OldKind = mark
		m.Old.decode(&r, "old")
		r.newMark()
	default:
		r.fail(r.off-1, "tuple kind", fmt.Sprintf("is 0x%02x, not one of K, O, N", mark))
	}
	m.New.decode(&r, "new")
	return r.end()
}
