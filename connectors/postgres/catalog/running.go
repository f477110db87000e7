package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Running is a transaction of this database that has an id and is not visible yet.
type Running struct {
	XID     uint32
	NextXID uint64 // a 64-bit id near to it
	GID     string // of a prepared transaction
	by      blocker
}

// String names it as a state's reason does.
func (r Running) String() string {
	if r.GID != "" {
		return fmt.Sprintf("the prepared transaction %q (COMMIT or ROLLBACK PREPARED it)", r.GID)
	}
	return r.by.String()
}

// ReadRunning reads the transactions of this database that have an id. One that is not among them, with an id given
// out before the call, is over: a later snapshot sees it if it has committed. A transaction holds the lock on its
// id until after it became visible, everybody may see the locks, and they tell of prepared transactions too.
func ReadRunning(ctx context.Context, conn *pgx.Conn) ([]Running, error) {
	rows, err := conn.Query(ctx, `
SELECT l.transactionid::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint, coalesce(p.gid, ''), coalesce(l.pid, 0),
       coalesce(to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ''), coalesce(a.state, '')
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN pg_prepared_xacts p ON p.transaction = l.transactionid
 WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
   AND coalesce(a.datname, p.database, current_database()) = current_database()
 ORDER BY a.xact_start NULLS LAST, l.pid`)
	if err != nil {
		return nil, fmt.Errorf("read the running transactions: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Running, err error) {
		var xid, next int64
		err = row.Scan(&xid, &next, &r.GID, &r.by.PID, &r.by.Since, &r.by.State)
		r.XID, r.NextXID = uint32(xid), uint64(next)
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the running transactions: %w", err)
	}
	return out, nil
}
