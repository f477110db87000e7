package pgoutput

import "fmt"

// Delete is a row that is gone.
type Delete struct {
	RelationID uint32
	OldKind    byte // OldKey or OldFull
	Old        Tuple
}

// Decode reads a Delete message: D, Int32 relation id, K or O, the old tuple.
// Values alias src.
func (m *Delete) Decode(src []byte) error {
	r := open(src, KindDelete)
	m.RelationID = r.uint32("relation id")
	m.OldKind = r.byte("tuple kind")
	if m.OldKind != OldKey && m.OldKind != OldFull {
		r.fail(r.off-1, "tuple kind", fmt.Sprintf("is 0x%02x, not K or O", m.OldKind))
	}
	m.Old.decode(&r, "old")
	return r.end()
}
