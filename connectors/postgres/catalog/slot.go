package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// Slot is a replication slot as the server has it now.
type Slot struct {
	Exists         bool
	Name           string
	Plugin         string // empty: physical
	Database       string
	Temporary      bool
	Active         bool
	ActivePID      int32
	ConfirmedFlush pgoutput.LSN // 0: creation has not finished
	RestartLSN     pgoutput.LSN // 0: none
	WALStatus      string       // reserved, extended, unreserved or lost
	Invalidation   string       // why it can never be used again, empty: usable
	TwoPhase       bool
	Failover       bool // 17+
	Synced         bool // 17+; means nothing on a primary
}

// ReadSlot reads a slot; Exists is false where there is none.
func ReadSlot(ctx context.Context, conn *pgx.Conn, name string) (Slot, error) {
	s := Slot{Name: name}
	var confirmed, restart string
	err := conn.QueryRow(ctx, slotQuery, name).Scan(&s.Exists, &s.Plugin, &s.Database, &s.Temporary, &s.Active, &s.ActivePID,
		&confirmed, &restart, &s.WALStatus, &s.Invalidation, &s.TwoPhase, &s.Failover, &s.Synced)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return Slot{}, fmt.Errorf("read slot %s: %w", name, err)
	}
	if s.ConfirmedFlush, err = pgoutput.ParseLSN(confirmed); err != nil {
		return Slot{}, fmt.Errorf("read slot %s: %w", name, err)
	}
	if s.RestartLSN, err = pgoutput.ParseLSN(restart); err != nil {
		return Slot{}, fmt.Errorf("read slot %s: %w", name, err)
	}
	return s, nil
}

// Members that only newer versions have are read as JSON: two_phase is in 14, conflicting
// from 16, invalidation_reason, failover and synced from 17 on.
const slotQuery = `
SELECT true, coalesce(s.plugin::text, ''), coalesce(s.database::text, ''), s.temporary, s.active, coalesce(s.active_pid, 0),
       coalesce(s.confirmed_flush_lsn, '0/0')::text, coalesce(s.restart_lsn, '0/0')::text, coalesce(s.wal_status, ''),
       coalesce(j.v->>'invalidation_reason',
                CASE WHEN (j.v->>'conflicting')::bool THEN 'conflict with recovery'
                     WHEN s.wal_status = 'lost' THEN 'wal_removed' ELSE '' END),
       coalesce((j.v->>'two_phase')::bool, false), coalesce((j.v->>'failover')::bool, false), coalesce((j.v->>'synced')::bool, false)
  FROM pg_replication_slots s CROSS JOIN LATERAL (SELECT to_jsonb(s) AS v) j
 WHERE s.slot_name = $1`

// CreateSlot creates a logical pgoutput slot over the replication connection and returns its
// consistent point. While the server waits for older transactions, their processes are looked
// up over conn and reported; conn may be nil. Cancelling ctx closes repl, and the server drops
// the half-made slot.
func CreateSlot(ctx context.Context, repl *pgconn.PgConn, conn *pgx.Conn, name string, failover bool, report connectors.Reporter) (pgoutput.LSN, error) {
	made, err := createSlot(ctx, repl, conn, name, failover, false, report)
	return made.Point, err
}

// ExportedSlot is a slot that was created together with a snapshot.
type ExportedSlot struct {
	Point pgoutput.LSN // consistent point: what committed before it is in the snapshot, what committed after it in the stream
	// Snapshot is what SET TRANSACTION SNAPSHOT takes until the connection that created the slot runs its next command.
	Snapshot string
}

// CreateSlotWithSnapshot is CreateSlot with an exported snapshot of the slot's beginning. The replication connection must be
// left alone until the snapshot was imported.
func CreateSlotWithSnapshot(ctx context.Context, repl *pgconn.PgConn, conn *pgx.Conn, name string, failover bool, report connectors.Reporter) (ExportedSlot, error) {
	return createSlot(ctx, repl, conn, name, failover, true, report)
}

func createSlot(ctx context.Context, repl *pgconn.PgConn, conn *pgx.Conn, name string, failover, export bool, report connectors.Reporter) (made ExportedSlot, err error) {
	major := majorVersion(repl.ParameterStatus("server_version"))
	if failover && major < 17 {
		return made, connectors.Refuse(fmt.Errorf("slot %s cannot be a failover slot: the server is version %s and those need 17 or newer; set slot.failover=false", name, repl.ParameterStatus("server_version")))
	}
	command := slotCommand(name, major, failover, export)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if conn != nil {
			watchWait(ctx, conn, repl.PID(), stop, report, func(by string) string {
				return fmt.Sprintf("creating slot %s, waiting for %s", name, by)
			})
		}
	}()
	results, err := repl.Exec(ctx, command).ReadAll()
	close(stop)
	<-done
	if err != nil {
		return made, slotCreationError(name, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 3 {
		return made, fmt.Errorf("create slot %s: the server answered without a position", name)
	}
	made.Snapshot = string(results[0].Rows[0][2])
	if made.Point, err = pgoutput.ParseLSN(string(results[0].Rows[0][1])); err != nil {
		return made, fmt.Errorf("create slot %s: %w", name, err)
	}
	return made, nil
}

func slotCommand(name string, major int, failover, export bool) string {
	command := "CREATE_REPLICATION_SLOT " + quoteIdent(name) + " LOGICAL pgoutput"
	if major < 15 {
		if export {
			return command + " EXPORT_SNAPSHOT"
		}
		return command + " NOEXPORT_SNAPSHOT"
	}
	options := "SNAPSHOT 'nothing'"
	if export {
		options = "SNAPSHOT 'export'"
	}
	if failover {
		options += ", FAILOVER true"
	}
	return command + " (" + options + ")"
}

func slotCreationError(name string, err error) error {
	switch sqlState(err) {
	case codeLimitExceeded:
		return connectors.Refuse(fmt.Errorf("slot %s cannot be created: all replication slots are in use; drop unused ones (pg_drop_replication_slot) or raise max_replication_slots", name))
	case codeNoPrivilege:
		return connectors.Refuse(fmt.Errorf("slot %s cannot be created: %w; the role needs REPLICATION", name, err))
	case "42602": // invalid name
		return connectors.Refuse(fmt.Errorf("slot.name %q is not a slot name: lower-case letters, digits and underscores, at most 63", name))
	}
	return fmt.Errorf("create slot %s: %w", name, err)
}

// DropSlot drops a slot that is not in use.
func DropSlot(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name); err != nil {
		return fmt.Errorf("drop slot %s: %w", name, err)
	}
	return nil
}

// AdvanceSlot moves an unused slot's confirmed position forward and returns where it is then.
func AdvanceSlot(ctx context.Context, conn *pgx.Conn, name string, to pgoutput.LSN) (pgoutput.LSN, error) {
	var end string
	err := conn.QueryRow(ctx, "SELECT end_lsn::text FROM pg_replication_slot_advance($1, $2::text::pg_lsn)", name, to.String()).Scan(&end)
	if err != nil {
		return 0, fmt.Errorf("advance slot %s to %s: %w", name, to, err)
	}
	lsn, err := pgoutput.ParseLSN(end)
	if err != nil {
		return 0, fmt.Errorf("advance slot %s to %s: %w", name, to, err)
	}
	return lsn, nil
}

// WaitInactive waits until nobody uses the slot and returns it; a missing slot is returned at
// once. The process that uses it is reported; when within is over the error names it (wait class).
func WaitInactive(ctx context.Context, conn *pgx.Conn, name string, within time.Duration, report connectors.Reporter) (Slot, error) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := ""
	for {
		s, err := ReadSlot(ctx, conn, name)
		if err != nil || !s.Exists || !s.Active {
			return s, err
		}
		if now := fmt.Sprintf("slot %s is in use by pid %d", name, s.ActivePID); now != last {
			last = now
			waiting(report, now)
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return s, connectors.WithClass(connectors.ClassWait, fmt.Errorf("%s; stop the other reader (pg_terminate_backend(%d)) or choose another slot.name", last, s.ActivePID))
		case <-ctx.Done():
			return s, fmt.Errorf("wait for slot %s: %w", name, ctx.Err())
		}
	}
}
