package catalog

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
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
func ParsePos(pos string) (pgoutput.LSN, error) {
	text, ok := strings.CutPrefix(pos, `{"lsn":"`)
	text, closed := strings.CutSuffix(text, `"}`)
	if !ok || !closed {
		return 0, fmt.Errorf("position %q is not of the form {\"lsn\":\"3D/485795A0\"}", pos)
	}
	return pgoutput.ParseLSN(text)
}

// Members of a PostgreSQL stream's offset, beside those every engine has.
const (
	fieldSystemID   = "system_id"
	fieldTimeline   = "timeline"
	fieldBoundary   = "boundary_lsn"
	fieldAcked      = "acked_lsn"
	fieldHighestXID = "highest_xid"
)

// Object returns the position as the stream's offset: group, connector, system_id, timeline,
// pos (absent before the first transaction), boundary_lsn, acked_lsn, highest_xid.
func (p Position) Object(group, connector string) offsets.Object {
	o := make(offsets.Object, 0, 8)
	o = append(o, offsets.Field{Name: offsets.FieldGroup, Value: group}, offsets.Field{Name: offsets.FieldConnector, Value: connector},
		offsets.Field{Name: fieldSystemID, Value: p.SystemID}, offsets.Field{Name: fieldTimeline, Value: int64(p.Timeline)})
	if p.Pos != "" {
		o = append(o, offsets.Field{Name: offsets.FieldPos, Value: p.Pos})
	}
	return append(o, offsets.Field{Name: fieldBoundary, Value: p.BoundaryLSN.String()},
		offsets.Field{Name: fieldAcked, Value: p.AckedLSN.String()},
		offsets.Field{Name: fieldHighestXID, Value: int64(p.HighestXID)})
}

// ParsePosition reads what Object wrote; group and connector are the caller's to compare. Only
// boundary_lsn is required (an operator may have set the rest aside); a nil Object gives nil.
// The error is refused.
func ParsePosition(o offsets.Object) (*Position, error) {
	if o == nil {
		return nil, nil
	}
	var p Position
	var has bool
	for _, f := range o {
		var err error
		switch f.Name {
		case fieldSystemID:
			p.SystemID, err = text(f)
		case fieldTimeline:
			var n int64
			n, err = number(f)
			if err == nil && (n < 0 || n > math.MaxInt32) {
				err = fmt.Errorf("member timeline is %d, out of range", n)
			}
			p.Timeline = int32(n)
		case offsets.FieldPos:
			if p.Pos, err = text(f); err == nil && p.Pos != "" {
				p.PosLSN, err = ParsePos(p.Pos)
			}
		case fieldBoundary:
			has = true
			p.BoundaryLSN, err = lsn(f)
		case fieldAcked:
			p.AckedLSN, err = lsn(f)
		case fieldHighestXID:
			var n int64
			n, err = number(f)
			p.HighestXID = uint64(n)
		}
		if err != nil {
			return nil, connectors.Refuse(fmt.Errorf("stored offset of the stream cannot be read: %w; set it again or run connectctl offsets reset WORKER CONNECTOR", err))
		}
	}
	if !has {
		return nil, connectors.Refuse(errors.New("stored offset of the stream has no boundary_lsn; set it again or run connectctl offsets reset WORKER CONNECTOR"))
	}
	return &p, nil
}

func text(f offsets.Field) (string, error) {
	if s, ok := f.Value.(string); ok {
		return s, nil
	}
	return "", fmt.Errorf("member %s is %v, not text", f.Name, f.Value)
}

func number(f offsets.Field) (int64, error) {
	switch n := f.Value.(type) {
	case int64:
		return n, nil
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n), nil
		}
	}
	return 0, fmt.Errorf("member %s is %v, not a whole number", f.Name, f.Value)
}

func lsn(f offsets.Field) (pgoutput.LSN, error) {
	s, err := text(f)
	if err != nil {
		return 0, err
	}
	l, err := pgoutput.ParseLSN(s)
	if err != nil {
		return 0, fmt.Errorf("member %s: %w", f.Name, err)
	}
	return l, nil
}
