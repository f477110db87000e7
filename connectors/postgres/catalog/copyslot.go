package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// BeginAtSlot begins a read-only transaction on the replication connection that sees the database as of the consistent
// point, which it returns, of a temporary slot: what commits from there on is not seen, what committed before is. The slot goes
// with the connection. While the server waits for older transactions, their processes are looked up over conn and reported.
func BeginAtSlot(ctx context.Context, repl *pgconn.PgConn, conn *pgx.Conn, name string, report connectors.Reporter) (pgoutput.LSN, error) {
	if _, err := repl.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").ReadAll(); err != nil {
		return 0, fmt.Errorf("begin a transaction: %w", err)
	}
	command := "CREATE_REPLICATION_SLOT " + quoteIdent(name) + " TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use')"
	if majorVersion(repl.ParameterStatus("server_version")) < 15 {
		command = "CREATE_REPLICATION_SLOT " + quoteIdent(name) + " TEMPORARY LOGICAL pgoutput USE_SNAPSHOT"
	}
	stop, done := make(chan struct{}), make(chan string)
	go func() {
		done <- watchWait(ctx, conn, repl.PID(), stop, report, func(by string) string {
			return fmt.Sprintf("creating the temporary slot %s to read a table, waiting for %s", name, by)
		})
	}()
	results, err := repl.Exec(ctx, command).ReadAll()
	close(stop)
	if told := <-done; told != "" && report != nil && err == nil {
		report(connectors.State{Name: "RUNNING"})
	}
	if err != nil {
		return 0, slotCreationError(name, err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 2 {
		return 0, fmt.Errorf("create slot %s: the server answered without a position", name)
	}
	lsn, err := pgoutput.ParseLSN(string(results[0].Rows[0][1]))
	if err != nil {
		return 0, fmt.Errorf("create slot %s: %w", name, err)
	}
	return lsn, nil
}
