package catalog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// blocker is what another process waits for.
type blocker struct {
	PID   int32  // 0: a prepared transaction
	Since string // begin of its transaction; empty where we may not see it
	State string
}

// String names the process as a state's reason does: pid 4711 (open since …).
func (b blocker) String() string {
	if b.PID == 0 {
		return "a prepared transaction (see pg_prepared_xacts)"
	}
	if b.Since == "" {
		return fmt.Sprintf("pid %d", b.PID)
	}
	return fmt.Sprintf("pid %d (open since %s, %s)", b.PID, b.Since, b.State)
}

// blockersOf returns what the process waits for, nothing where it does not wait for a lock.
func blockersOf(ctx context.Context, conn *pgx.Conn, pid uint32) ([]blocker, error) {
	rows, err := conn.Query(ctx, `
SELECT b.pid, coalesce(to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ''), coalesce(a.state, '')
  FROM (SELECT DISTINCT unnest(pg_blocking_pids($1))) b(pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid
 ORDER BY a.xact_start NULLS LAST, b.pid`, int32(pid))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[blocker])
}

func joinBlockers(blockers []blocker) string {
	names := make([]string, len(blockers))
	for i, b := range blockers {
		names[i] = b.String()
	}
	return strings.Join(names, ", ")
}

// pollInterval is how often a wait is looked at.
const pollInterval = 200 * time.Millisecond

// watchWait looks every pollInterval at what process pid waits for, until stop is closed, and
// reports each change as a WAITING state made by sentence. It returns the last sentence. It
// never fails: a wait that cannot be looked at goes on unexplained.
func watchWait(ctx context.Context, conn *pgx.Conn, pid uint32, stop <-chan struct{}, report connectors.Reporter, sentence func(string) string) string {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := ""
	for {
		select {
		case <-stop:
			return last
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
		found, err := blockersOf(ctx, conn, pid)
		if err != nil {
			return last
		}
		if len(found) == 0 {
			continue
		}
		if now := sentence(joinBlockers(found)); now != last {
			last = now
			waiting(report, now)
		}
	}
}

func waiting(report connectors.Reporter, reason string) {
	if report != nil {
		report(connectors.State{Name: "WAITING", Reason: reason})
	}
}
