package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// FindTables finds tables that a publication can carry, by qualified name. The error says why one cannot.
func FindTables(ctx context.Context, conn *pgx.Conn, viaRoot bool, names []string) ([]TableRef, error) {
	refs, err := ListTables(ctx, conn, viaRoot)
	if err != nil {
		return nil, err
	}
	out := make([]TableRef, 0, len(names))
	for _, name := range names {
		i := slices.IndexFunc(refs, func(r TableRef) bool { return r.QualifiedName() == name })
		if i < 0 {
			return nil, whyNot(ctx, conn, name, refs)
		}
		out = append(out, refs[i])
	}
	return out, nil
}

// whyNot says why a name is not one of refs.
func whyNot(ctx context.Context, conn *pgx.Conn, name string, refs []TableRef) error {
	var kind, persistence string
	var partition bool
	err := conn.QueryRow(ctx, `SELECT c.relkind::text, c.relpersistence::text, c.relispartition FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname || '.' || c.relname = $1 ORDER BY c.relkind LIMIT 1`, name).Scan(&kind, &persistence, &partition)
	if errors.Is(err, pgx.ErrNoRows) {
		if near := nearest(name, refs); len(near) > 0 {
			return refuse("there is no table %s in database %s; similar ones are %s", name, conn.Config().Database, strings.Join(near, ", "))
		}
		return refuse("there is no table %s in database %s; it is written schema.table, as the catalogue has it", name, conn.Config().Database)
	}
	if err != nil {
		return fmt.Errorf("read table %s from the catalogue: %w", name, err)
	}
	what := map[string]string{"v": "a view", "m": "a materialized view", "f": "a foreign table", "i": "an index", "S": "a sequence", "c": "a composite type"}[kind]
	switch {
	case what != "":
		return refuse("%s is %s, whose changes are not in the log; name a table", name, what)
	case persistence == "t":
		return refuse("table %s is temporary: its changes are not in the log", name)
	case persistence == "u":
		return refuse("table %s is unlogged: its changes are not in the log; run ALTER TABLE %s SET LOGGED first", name, name)
	case kind == "p":
		return refuse("table %s is partitioned and the publication publishes its partitions under their own names; name those, or set publish_via_partition_root", name)
	case partition:
		return refuse("table %s is a partition and the publication publishes it as its root (publish_via_partition_root); name the root", name)
	}
	return refuse("table %s is one of the system's, which are not published", name)
}

// openQuery finds the transactions of this database that may have written: each holds a lock on its own id. Everybody may see
// that, whoever they belong to.
const openQuery = `
SELECT l.transactionid::text, coalesce(l.pid, 0), coalesce(to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), ''), coalesce(a.state, '')
  FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN pg_prepared_xacts x ON x.transaction = l.transactionid
 WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
   AND coalesce(a.datname, x.database, current_database()) = current_database()
 ORDER BY a.xact_start NULLS LAST, l.pid`

// openTransactions returns those by id.
func openTransactions(ctx context.Context, conn *pgx.Conn) (ids []string, by []blocker, err error) {
	rows, err := conn.Query(ctx, openQuery)
	if err != nil {
		return nil, nil, fmt.Errorf("find open transactions: %w", err)
	}
	var id string
	var b blocker
	_, err = pgx.ForEachRow(rows, []any{&id, &b.PID, &b.Since, &b.State}, func() error {
		ids, by = append(ids, id), append(by, b)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("find open transactions: %w", err)
	}
	return ids, by, nil
}

// WaitTransactions waits until every transaction of this database that is open now and may have written has ended, and reports
// for whom it waits: what they change in tables that were published a moment ago may not be in the log.
func WaitTransactions(ctx context.Context, conn *pgx.Conn, report connectors.Reporter, tables ...string) error {
	waitFor, _, err := openTransactions(ctx, conn)
	if err != nil {
		return err
	}
	said := ""
	for {
		now, by, err := openTransactions(ctx, conn)
		if err != nil {
			return err
		}
		var still []blocker
		for i, id := range now {
			if slices.Contains(waitFor, id) && !slices.Contains(still, by[i]) { // a subtransaction's id is another
				still = append(still, by[i])
			}
		}
		if len(still) == 0 {
			return nil
		}
		sentence := fmt.Sprintf("adding %s: waiting for transactions that were open before the publication had it to end: %s", strings.Join(tables, ", "), joinBlockers(still))
		if sentence != said {
			said = sentence
			waiting(report, sentence)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up %s: %w", sentence, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// ShrinkPublication takes tables out of a publication, by OID, in one short attempt. It returns why they stay where that is for
// good: whoever else reads with this publication would lose changes, or it is not ours to change.
func ShrinkPublication(ctx context.Context, conn *pgx.Conn, cfg PublicationConfig, slot string, oids []uint32) (stay string, err error) {
	pub, err := ReadPublication(ctx, conn, cfg.Name)
	if err != nil {
		return "", err
	}
	if pub.AllTables {
		return "the publication has all tables", nil
	}
	var out []TableRef
	for _, t := range pub.Tables {
		if slices.Contains(oids, t.OID) && t.Member != 0 {
			out = append(out, t.TableRef)
		}
	}
	if len(out) == 0 {
		return "", nil
	}
	statement := "ALTER PUBLICATION " + quoteIdent(cfg.Name) + " DROP TABLE " + tableList(out)
	var others []string
	err = conn.QueryRow(ctx, `SELECT coalesce(array_agg(slot_name::text ORDER BY slot_name), '{}') FROM pg_replication_slots
 WHERE database = current_database() AND plugin = 'pgoutput' AND NOT temporary AND slot_name <> $1`, slot).Scan(&others)
	if err != nil {
		return "", fmt.Errorf("read the slots of the database: %w", err)
	}
	if len(others) > 0 {
		return fmt.Sprintf("slot %s may read with the same publication; where none does run %s", strings.Join(others, ", "), statement), nil
	}
	attempt := cfg.LockTimeout
	if attempt <= 0 {
		attempt = 2 * time.Second
	}
	holder, err := attemptLocked(ctx, conn, attempt, statement, nil)
	switch state := sqlState(err); {
	case err == nil:
		return "", nil
	case state == codeNoPrivilege:
		return fmt.Sprintf("%v; run %s", err, statement), nil
	case state == codeLockTimeout && holder != "":
		return "", fmt.Errorf("%s: %s", statement, holder)
	}
	return "", fmt.Errorf("%s: %w", statement, err)
}
