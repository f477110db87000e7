package catalog

import "github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"

// Inputs is everything start-up reconciliation looks at.
type Inputs struct {
	Server          Server
	History         TimelineHistory // of Server.Timeline; needed only where it is newer than Stored.Timeline
	SlotName        string
	Slot            Slot
	Stored          *Position    // nil: the stream has no offsets
	GenerationStart pgoutput.LSN // where the stored generation begins; 0: not known
}

// Decision is what to do before streaming, in the order of its members.
type Decision struct {
	CreateSlot bool // no slot and no offsets: create it, then reconcile again
	// SetBack: boundaries beyond the point where the server's timeline branched off were moved
	// there; Position must be stored before anything is acknowledged.
	SetBack       bool
	AdvanceSlotTo pgoutput.LSN // 0: leave it; else the slot is behind the recorded acknowledgement
	Adopted       bool         // the slot is ahead of the recorded acknowledgement, within what was processed
	StartLSN      pgoutput.LSN // where to start the stream
	Position      Position     // as reconciled; store it where it differs from the stored one
}

// Reconcile compares server, slot and stored position as section 5 of the contract says. It is
// a pure function; its errors are refused, and name both positions and the way out.
func Reconcile(in Inputs) (Decision, error) { return Decision{}, errSoon }
