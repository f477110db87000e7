package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// describeTimeout bounds what Describe asks of the server.
const describeTimeout = 15 * time.Second

// Describe tells what the server has for this connector now: server, slot, and how far the slot is
// from the WAL's end. It changes nothing.
func Describe(ctx context.Context, cfg connectors.Config) ([]connectors.Fact, error) {
	set, err := newSettings(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	conn, err := catalog.Connect(ctx, set.conn)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	server, err := catalog.ReadServer(ctx, conn, nil)
	if err != nil {
		return nil, err
	}
	slot, err := catalog.ReadSlot(ctx, conn, set.slot)
	if err != nil {
		return nil, err
	}
	facts := []connectors.Fact{
		{Name: "server", Value: fmt.Sprintf("PostgreSQL %s, database %s, system id %s", server.VersionText, server.Database, server.SystemID)},
		{Name: "server WAL", Value: server.WALFlush.String()},
	}
	if set.reselect {
		facts = append(facts, connectors.Fact{Name: "unavailable values", Value: "read from the table when the change is read (" + propUnavailable + "=reselect): not commit-consistent, a value may be newer than its change"})
	}
	if server.InRecovery {
		facts = append(facts, connectors.Fact{Name: "server state", Value: "standby in recovery"})
	}
	return append(facts, slotFacts(slot, server)...), nil
}

func slotFacts(slot catalog.Slot, server catalog.Server) []connectors.Fact {
	if !slot.Exists {
		return []connectors.Fact{{Name: "slot", Value: slot.Name + ": does not exist"}}
	}
	state := "idle"
	if slot.Active {
		state = fmt.Sprintf("in use by pid %d", slot.ActivePID)
	}
	facts := []connectors.Fact{
		{Name: "slot", Value: slot.Name + ": " + state},
		{Name: "slot confirmed", Value: fmt.Sprintf("%s (%d bytes behind the server's WAL)", slot.ConfirmedFlush, behind(server.WALFlush, slot.ConfirmedFlush))},
		{Name: "slot restart", Value: fmt.Sprintf("%s (%d bytes of WAL kept for it)", slot.RestartLSN, behind(server.WALFlush, slot.RestartLSN))},
		{Name: "slot WAL status", Value: slot.WALStatus},
	}
	if slot.Invalidation != "" {
		facts = append(facts, connectors.Fact{Name: "slot invalidated", Value: slot.Invalidation})
	}
	return facts
}

func behind(end, at pgoutput.LSN) uint64 {
	if at > end {
		return 0
	}
	return uint64(end - at)
}

// ActivePID returns the process that uses the connector's slot, 0 if none does.
func ActivePID(ctx context.Context, cfg connectors.Config) (int32, error) {
	set, err := newSettings(cfg)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	conn, err := catalog.Connect(ctx, set.conn)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	slot, err := catalog.ReadSlot(ctx, conn, set.slot)
	return slot.ActivePID, err
}

// CheckReach refuses an offset that the slot can no longer give: what is before its confirmed position is gone. A slot that does
// not exist refuses nothing here; a start tells.
func CheckReach(ctx context.Context, cfg connectors.Config, o offsets.Object) error {
	p, err := catalog.ParsePosition(o)
	if err != nil || p == nil {
		return err
	}
	set, err := newSettings(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	conn, err := catalog.Connect(ctx, set.conn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	slot, err := catalog.ReadSlot(ctx, conn, set.slot)
	if err != nil {
		return err
	}
	if slot.Exists && p.BoundaryLSN < slot.ConfirmedFlush {
		return fmt.Errorf("slot %s is confirmed up to %s, what is before it is gone: set boundary_lsn to %s or later", set.slot, slot.ConfirmedFlush, slot.ConfirmedFlush)
	}
	return nil
}

// CheckOffset checks a stream offset an operator wants to set and returns the position it starts at, as
// compact JSON, and the offset in its canonical form. Only boundary_lsn is required.
func CheckOffset(o offsets.Object, group, connector string) (start string, canonical offsets.Object, err error) {
	known := map[string]bool{"group": true, "connector": true}
	for _, f := range (catalog.Position{Pos: "x"}).Object("", "") {
		known[f.Name] = true
	}
	for _, f := range o {
		if !known[f.Name] {
			return "", nil, fmt.Errorf("member %s is not part of a PostgreSQL offset; it takes boundary_lsn and, optional, system_id, timeline, pos, acked_lsn, highest_xid", strconv.Quote(f.Name))
		}
	}
	p, err := catalog.ParsePosition(o)
	if err != nil {
		return "", nil, err
	}
	if p.AckedLSN == 0 {
		p.AckedLSN = p.BoundaryLSN // a slot that is behind is moved there by the next start
	}
	return catalog.FormatPos(p.BoundaryLSN), p.Object(group, connector), nil
}
