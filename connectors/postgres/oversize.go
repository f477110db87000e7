package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// oversizeHead is what must be read of a message to tell whose it is: the header of the protocol's message and of
// XLogData, the kind of pgoutput's, the relation's OID, and what an update begins with.
const oversizeHead = 5 + xlogHeader + 1 + 4 + 1

// oversizeError is a message larger than the connector takes into memory.
type oversizeError struct {
	size int    // with the header
	head []byte // its first oversizeHead bytes
}

func (e *oversizeError) Error() string {
	return fmt.Sprintf("a message of the log has %d bytes", e.size)
}

// oversized reports whether the stream goes on behind a message that is too large: nothing of it is wanted, and how
// many ordinals it takes shows at its beginning. Else the error names the table.
func (s *stream) oversized(err error) (goesOn bool, _ error) {
	var large *oversizeError
	if !errors.As(err, &large) {
		return false, connectors.Block(err)
	}
	a := s.asm
	kind, what := pgoutput.Kind(large.head[5+xlogHeader]), "a message of the log"
	if large.head[0] != 'd' || large.head[5] != 'w' {
		kind = 0
	}
	switch kind {
	case pgoutput.KindInsert, pgoutput.KindUpdate, pgoutput.KindDelete:
		rel := a.relations[binary.BigEndian.Uint32(large.head[oversizeHead-5:])]
		// The old key of an update would have to be compared.
		if a.inTx && (a.skip || (rel != nil && rel.table == nil && (kind != pgoutput.KindUpdate || large.head[oversizeHead-1] != pgoutput.OldKey))) {
			if !a.skip {
				a.next()
			}
			s.wire.discard = large.size
			return true, nil
		}
		if rel != nil {
			what = fmt.Sprintf("table %s: a change (%s)", rel.name, kind)
		}
	case pgoutput.KindMessage:
		if a.inTx && a.skip {
			s.wire.discard = large.size
			return true, nil
		}
		return false, a.block(fmt.Errorf("a logical message has %d bytes in the log, and %s is %d: raise that and start again, as much memory is needed while it is read",
			large.size, propMaxMessage, s.wire.limit))
	}
	return false, a.block(fmt.Errorf("%s has %d bytes in the log, with the old row where the log carries it, and %s is %d: raise that and start again, as much memory is needed while it is read; or exclude the table (table.exclude.list)",
		what, large.size, propMaxMessage, s.wire.limit))
}
