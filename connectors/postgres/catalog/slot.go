package catalog

import (
	"context"
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
	return Slot{}, errSoon
}

// CreateSlot creates a logical pgoutput slot over the replication connection and returns its
// consistent point. While the server waits for older transactions, their processes are looked
// up over conn and reported; conn may be nil. Cancelling ctx closes repl, and the server drops
// the half-made slot.
func CreateSlot(ctx context.Context, repl *pgconn.PgConn, conn *pgx.Conn, name string, failover bool, report connectors.Reporter) (pgoutput.LSN, error) {
	return 0, errSoon
}

// DropSlot drops a slot that is not in use.
func DropSlot(ctx context.Context, conn *pgx.Conn, name string) error { return errSoon }

// AdvanceSlot moves an unused slot's confirmed position forward and returns where it is then.
func AdvanceSlot(ctx context.Context, conn *pgx.Conn, name string, to pgoutput.LSN) (pgoutput.LSN, error) {
	return 0, errSoon
}

// WaitInactive waits until nobody uses the slot and returns it; a missing slot is returned at
// once. The process that uses it is reported; when within is over the error names it (wait class).
func WaitInactive(ctx context.Context, conn *pgx.Conn, name string, within time.Duration, report connectors.Reporter) (Slot, error) {
	return Slot{}, errSoon
}
