package catalog

import (
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// Position is what a stream stores about the database, and its boundary.
type Position struct {
	SystemID    string
	Timeline    int32
	Pos         string       // __pos of the last complete source transaction; empty before the first
	PosLSN      pgoutput.LSN // the same as a number; 0 where Pos is empty
	BoundaryLSN pgoutput.LSN // processed boundary: resume and acknowledge here
	AckedLSN    pgoutput.LSN // last recorded acknowledgement; 0: none recorded
	HighestXID  uint64       // highest transaction id decoded, 64-bit
}

// FormatPos writes a __pos: {"lsn":"3D/485795A0"}.
func FormatPos(lsn pgoutput.LSN) string { return `{"lsn":"` + lsn.String() + `"}` }

// ParsePos reads a __pos.
func ParsePos(pos string) (pgoutput.LSN, error) { return 0, errSoon }

// Object returns the position as the stream's offset: group, connector, system_id, timeline,
// pos (absent before the first transaction), boundary_lsn, acked_lsn, highest_xid.
func (p Position) Object(group, connector string) offsets.Object { return nil }

// ParsePosition reads what Object wrote; group and connector are the caller's to compare. Only
// boundary_lsn is required (an operator may have set it by hand); nil stays nil.
func ParsePosition(o offsets.Object) (*Position, error) { return nil, errSoon }
