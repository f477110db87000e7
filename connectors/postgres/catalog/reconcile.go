package catalog

import (
	"errors"
	"fmt"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

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

// wayOut ends a refusal: what an operator can do that always works.
const wayOut = "connectctl offsets reset WORKER CONNECTOR starts a new generation"

// Reconcile compares server, slot and stored position as section 5 of the contract says. It is
// a pure function; its errors name both positions and the way out. They are refused, except
// for a standby and a slot whose creation has not finished, which are waited for.
func Reconcile(in Inputs) (Decision, error) {
	if err := in.Server.Err(); err != nil {
		return Decision{}, err
	}
	if in.Stored == nil {
		return in.first()
	}
	d := Decision{Position: *in.Stored}
	if err := in.checkServer(&d); err != nil {
		return Decision{}, err
	}
	if err := in.checkOrder(d.Position); err != nil {
		return Decision{}, err
	}
	if !in.Slot.Exists {
		return Decision{}, lost("slot %s does not exist, but the stream has offsets (processed up to %s): what was written since is not kept for it; %s", in.SlotName, d.Position.BoundaryLSN, wayOut)
	}
	if err := in.checkSlot(); err != nil {
		return Decision{}, err
	}
	if err := in.compareSlot(&d); err != nil {
		return Decision{}, err
	}
	d.StartLSN = d.Position.BoundaryLSN
	return d, nil
}

// first is the start of a stream without offsets.
func (in Inputs) first() (Decision, error) {
	p := Position{SystemID: in.Server.SystemID, Timeline: in.Server.Timeline}
	if !in.Slot.Exists {
		return Decision{CreateSlot: true, Position: p}, nil
	}
	if err := in.checkSlot(); err != nil {
		return Decision{}, err
	}
	if in.Slot.ConfirmedFlush > in.Server.WALFlush {
		return Decision{}, in.ahead("confirmed position of slot "+in.SlotName, in.Slot.ConfirmedFlush)
	}
	p.BoundaryLSN, p.AckedLSN = in.Slot.ConfirmedFlush, in.Slot.ConfirmedFlush
	return Decision{StartLSN: in.Slot.ConfirmedFlush, Position: p}, nil
}

// checkServer compares identity, timeline and WAL end, and sets boundaries back to the point
// where a newer timeline branched off.
func (in Inputs) checkServer(d *Decision) error {
	p := &d.Position
	if p.SystemID == "" { // set by hand
		p.SystemID = in.Server.SystemID
	}
	if p.SystemID != in.Server.SystemID {
		return refuse("the server has system identifier %s, but the stream's offsets (processed up to %s) are of %s: another server, or one that pg_upgrade made (its WAL ends at %s); point the connector at the old one, or %s",
			in.Server.SystemID, p.BoundaryLSN, p.SystemID, in.Server.WALFlush, wayOut)
	}
	if p.Timeline == 0 {
		p.Timeline = in.Server.Timeline
	}
	switch {
	case in.Server.Timeline < p.Timeline:
		return refuse("the server is on timeline %d (WAL end %s), but the stream was on timeline %d (processed up to %s): an old primary, or a backup from before a failover; point the connector at the current primary, or %s",
			in.Server.Timeline, in.Server.WALFlush, p.Timeline, p.BoundaryLSN, wayOut)
	case in.Server.Timeline > p.Timeline:
		if err := in.follow(d); err != nil {
			return err
		}
	}
	if p.BoundaryLSN > in.Server.WALFlush {
		return in.ahead("resume position", p.BoundaryLSN)
	}
	return nil
}

// follow moves the position to the server's newer timeline.
func (in Inputs) follow(d *Decision) error {
	p := &d.Position
	branch, ok := in.History.EndOf(p.Timeline)
	if !ok {
		return refuse("the server's timeline %d (WAL end %s) does not descend from timeline %d, on which the stream processed up to %s; %s",
			in.Server.Timeline, in.Server.WALFlush, p.Timeline, p.BoundaryLSN, wayOut)
	}
	if p.Pos != "" && branch <= p.PosLSN {
		return refuse("the server's timeline %d branched off timeline %d at %s, before the last published transaction at %s: transactions already published do not exist on this server; %s",
			in.Server.Timeline, p.Timeline, branch, p.PosLSN, wayOut)
	}
	p.Timeline = in.Server.Timeline
	if p.BoundaryLSN > branch {
		p.BoundaryLSN, d.SetBack = branch, true
	}
	if p.AckedLSN > branch {
		p.AckedLSN, d.SetBack = branch, true
	}
	return nil
}

func (in Inputs) ahead(what string, at pgoutput.LSN) error {
	return refuse("%s %s is ahead of the server, whose WAL ends at %s (system identifier %s, timeline %d): a backup was restored, or another server answers; %s",
		what, at, in.Server.WALFlush, in.Server.SystemID, in.Server.Timeline, wayOut)
}

// checkOrder holds generation start <= acknowledged <= processed, as far as each is known.
func (in Inputs) checkOrder(p Position) error {
	switch {
	case p.AckedLSN > p.BoundaryLSN:
		return refuse("stored offset is not in order: acknowledged up to %s, but processed only up to %s; set it again with connectctl offsets set WORKER CONNECTOR, or %s", p.AckedLSN, p.BoundaryLSN, wayOut)
	case p.Pos != "" && p.PosLSN >= p.BoundaryLSN: // the boundary is the end of the commit record at PosLSN
		return refuse("stored offset is not in order: last transaction at %s, but processed only up to %s; set it again with connectctl offsets set WORKER CONNECTOR, or %s", p.PosLSN, p.BoundaryLSN, wayOut)
	case p.BoundaryLSN < in.GenerationStart:
		return refuse("stored offset is not in order: processed up to %s, before the start of its generation at %s; %s", p.BoundaryLSN, in.GenerationStart, wayOut)
	}
	return nil
}

// checkSlot refuses a slot that could never carry this stream.
func (in Inputs) checkSlot() error {
	s := in.Slot
	at := fmt.Sprintf("slot %s (confirmed up to %s)", in.SlotName, s.ConfirmedFlush)
	switch {
	case s.Plugin == "":
		return refuse("slot %s is a physical slot; choose another slot.name", in.SlotName)
	case s.Plugin != "pgoutput":
		return refuse("slot %s is of plugin %s, pgoutput is needed; choose another slot.name", in.SlotName, s.Plugin)
	case s.Database != in.Server.Database:
		return refuse("slot %s is of database %q, the connector reads %q; choose another slot.name", in.SlotName, s.Database, in.Server.Database)
	case s.Temporary:
		return refuse("slot %s is temporary and would vanish with its connection; choose another slot.name", in.SlotName)
	case s.Invalidation != "":
		processed := ""
		if in.Stored != nil {
			processed = fmt.Sprintf("; the stream processed up to %s", in.Stored.BoundaryLSN)
		}
		return lost("%s was invalidated by the server (%s): the WAL after it is gone%s; drop the slot, then %s", at, s.Invalidation, processed, wayOut)
	case s.TwoPhase:
		return refuse("%s was created for two-phase commit, which this stream does not use; choose another slot.name, or drop it and let it be created", at)
	case s.ConfirmedFlush == 0:
		return connectors.WithClass(connectors.ClassWait, fmt.Errorf("slot %s is still being created by pid %d", in.SlotName, s.ActivePID))
	}
	return nil
}

// compareSlot puts the slot's confirmed position in relation to what was stored.
func (in Inputs) compareSlot(d *Decision) error {
	slot, p := in.Slot.ConfirmedFlush, &d.Position
	switch {
	case slot < in.GenerationStart && p.AckedLSN < in.GenerationStart: // else it lost its place in a crash of the server, or an offset was set beyond it
		return refuse("slot %s is at %s, before %s where the stream's generation begins (processed up to %s): it is not the slot this generation used; %s", in.SlotName, slot, in.GenerationStart, p.BoundaryLSN, wayOut)
	case slot > p.BoundaryLSN:
		return lost("slot %s is at %s, after %s up to which the stream was processed: %d bytes of WAL between them are lost to it (the slot was created again, or moved by somebody else); %s", in.SlotName, slot, p.BoundaryLSN, uint64(slot-p.BoundaryLSN), wayOut)
	case slot < p.AckedLSN:
		d.AdvanceSlotTo = p.AckedLSN
	case slot > p.AckedLSN:
		p.AckedLSN, d.Adopted = slot, true
	}
	return nil
}

// errLost marks refusals of a position that the slot can no longer be read from.
var errLost = errors.New("")

// Lost reports whether an error of Reconcile says that the log from the stored position on is gone, with the slot or out of it: what a
// standing authorisation for a reset (snapshot.mode=when_needed) is for. Another server is none.
func Lost(err error) bool { return errors.Is(err, errLost) }

func lost(format string, args ...any) error {
	return refuse(format+"%w", append(args, errLost)...)
}

func refuse(format string, args ...any) error {
	return connectors.Refuse(fmt.Errorf(format, args...))
}
