package pgoutput

import (
	"encoding/binary"
	"fmt"
)

// Options of a TRUNCATE, a bit set.
const (
	TruncateCascade         byte = 1
	TruncateRestartIdentity byte = 2
)

// Truncate says that tables were emptied by one command.
type Truncate struct {
	Options     byte     // TruncateCascade | TruncateRestartIdentity
	RelationIDs []uint32 // in the order of the message; reused by the next Decode
}

// Decode reads a Truncate message: T, Int32 number of relations, Int8 options,
// Int32 relation id each.
func (m *Truncate) Decode(src []byte) error {
	r := open(src, KindTruncate)
	m.RelationIDs = m.RelationIDs[:0]
	n := int(int32(r.uint32("number of relations")))
	m.Options = r.byte("options")
	if m.Options&^(TruncateCascade|TruncateRestartIdentity) != 0 {
		r.fail(r.off-1, "options", fmt.Sprintf("is 0x%02x, has unknown bits", m.Options))
	}
	if !r.fits(1, "number of relations", n, 4) {
		return r.err
	}
	if cap(m.RelationIDs) < n {
		m.RelationIDs = make([]uint32, 0, n)
	}
	for range n {
		m.RelationIDs = append(m.RelationIDs, binary.BigEndian.Uint32(r.src[r.off:]))
		r.off += 4
	}
	return r.end()
}
