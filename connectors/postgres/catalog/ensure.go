package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// EnsurePublication creates or extends the publication as its mode allows and returns it as it
// is then. Waiting for a lock is bounded and reported with the process that holds it (seen from
// a second connection, opened only while waiting); when the time is over the error names it and
// is of the wait class. A missing publication, missing rights, and a table whose updates would
// fail once published are refused. conn must not be in a transaction.
func EnsurePublication(ctx context.Context, conn *pgx.Conn, cfg PublicationConfig, report connectors.Reporter) (Publication, error) {
	pub, err := ReadPublication(ctx, conn, cfg.Name)
	if err != nil {
		return Publication{}, err
	}
	statement, added, err := cfg.plan(pub)
	if err != nil || statement == "" {
		return pub, err
	}
	if cfg.Mode == AllTables {
		// FOR ALL TABLES reaches tables that are not captured; their updates count as well.
		if added, err = ListTables(ctx, conn, false); err != nil {
			return Publication{}, err
		}
	}
	if err := identitiesAllow(ctx, conn, added); err != nil {
		return Publication{}, err
	}
	created := !pub.Exists
	if err := runLocked(ctx, conn, cfg, statement, report); err != nil {
		created = false
		if state := sqlState(err); state != codeDuplicate && state != codeUniqueViolation {
			return Publication{}, err
		}
		// Somebody else created or extended it meanwhile: take it as it is now.
	}
	pub, err = ReadPublication(ctx, conn, cfg.Name)
	if err != nil {
		return Publication{}, err
	}
	pub.Created = created
	if gone := pub.missing(cfg.Tables); cfg.Mode != NoTables && len(gone) > 0 {
		return pub, fmt.Errorf("publication %s does not publish %s yet; it was changed by somebody else at the same time", cfg.Name, refNames(gone))
	}
	return pub, nil
}

// plan returns the statement to run, empty where there is nothing to do, and the tables it adds.
func (cfg PublicationConfig) plan(pub Publication) (string, []TableRef, error) {
	missing := pub.missing(cfg.Tables)
	if !pub.Exists {
		with := " WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = false)"
		if cfg.ViaPartitionRoot {
			with = " WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)"
		}
		create := "CREATE PUBLICATION " + quoteIdent(cfg.Name)
		switch cfg.Mode {
		case AllTables:
			return create + " FOR ALL TABLES" + with, nil, nil
		case NoTables:
			return create + with, nil, nil
		case Filtered:
			if len(missing) == 0 {
				return "", nil, connectors.Refuse(fmt.Errorf("publication %s does not exist and there is no captured table to create it for; check table.include.list", cfg.Name))
			}
			return create + " FOR TABLE " + tableList(missing) + with, missing, nil
		}
		return "", nil, connectors.Refuse(fmt.Errorf("publication %s does not exist and publication.autocreate.mode=%s does not create it; run CREATE PUBLICATION %s FOR TABLE …, or choose filtered", cfg.Name, cfg.Mode, quoteIdent(cfg.Name)))
	}
	if cfg.Mode == Filtered || cfg.Mode == AllTables {
		if pub.ViaRoot != cfg.ViaPartitionRoot {
			return "", nil, connectors.Refuse(fmt.Errorf("publication %s has publish_via_partition_root = %t but publish.via.partition.root is %t; make them alike (ALTER PUBLICATION %s SET (publish_via_partition_root = %t))", cfg.Name, pub.ViaRoot, cfg.ViaPartitionRoot, quoteIdent(cfg.Name), cfg.ViaPartitionRoot))
		}
	}
	if cfg.Mode != Filtered || pub.AllTables || len(missing) == 0 {
		return "", nil, nil
	}
	return "ALTER PUBLICATION " + quoteIdent(cfg.Name) + " ADD TABLE " + tableList(missing), missing, nil
}

// tableList names tables without their inheritance children, which may not be captured.
func tableList(tables []TableRef) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = "ONLY " + pgx.Identifier{t.Schema, t.Name}.Sanitize()
	}
	return strings.Join(names, ", ")
}

func refNames(tables []TableRef) string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.QualifiedName()
	}
	return strings.Join(names, ", ")
}

// identitiesAllow refuses to publish tables whose updates and deletes would then fail.
func identitiesAllow(ctx context.Context, conn *pgx.Conn, refs []TableRef) error {
	oids := make([]uint32, len(refs))
	for i, r := range refs {
		oids[i] = r.OID
	}
	tables, err := ReadTables(ctx, conn, oids...)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := identityError(t, AllOperations); err != nil {
			return err
		}
	}
	return nil
}

// runLocked runs a statement that takes table locks, in attempts of cfg.LockTimeout.
func runLocked(ctx context.Context, conn *pgx.Conn, cfg PublicationConfig, statement string, report connectors.Reporter) error {
	attempt, total := cfg.LockTimeout, cfg.Wait
	if attempt <= 0 {
		attempt = 2 * time.Second
	}
	if total <= 0 {
		total = time.Minute
	}
	deadline, holder := time.Now().Add(total), ""
	for {
		seen, err := attemptLocked(ctx, conn, attempt, statement, report)
		if err == nil {
			return nil
		}
		if seen != "" {
			holder = seen
		}
		switch sqlState(err) {
		case codeNoPrivilege:
			return connectors.Refuse(fmt.Errorf("publication %s cannot be created or changed: %w; grant it (CREATE on the database and ownership of the tables; FOR ALL TABLES needs a superuser), or have it made by hand and set publication.autocreate.mode=disabled", cfg.Name, err))
		case codeLockTimeout:
		default:
			return fmt.Errorf("create or change publication %s: %w", cfg.Name, err)
		}
		if holder == "" {
			holder = "publication " + cfg.Name + " is waiting for a lock on the captured tables"
			waiting(report, holder)
		}
		if time.Now().After(deadline) {
			return connectors.WithClass(connectors.ClassWait, fmt.Errorf("%s; gave up after %s, nothing was changed; end that transaction or start again later", holder, total))
		}
	}
}

// attemptLocked runs the statement once and tells what it was seen waiting for.
func attemptLocked(ctx context.Context, conn *pgx.Conn, lockTimeout time.Duration, statement string, report connectors.Reporter) (string, error) {
	stop, done := make(chan struct{}), make(chan string, 1)
	go func() { done <- watchFromSecond(ctx, conn.Config(), conn.PgConn().PID(), stop, report) }()
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", max(lockTimeout.Milliseconds(), 1))); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, statement)
		return err
	})
	close(stop)
	return <-done, err
}

// watchFromSecond opens a connection once the wait is longer than pollInterval.
func watchFromSecond(ctx context.Context, config *pgx.ConnConfig, pid uint32, stop <-chan struct{}, report connectors.Reporter) string {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	select {
	case <-stop:
		return ""
	case <-timer.C:
	}
	second, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "" // the wait goes on unexplained
	}
	defer func() { _ = second.Close(context.WithoutCancel(ctx)) }()
	return watchWait(ctx, second, pid, stop, report, func(by string) string { return "waiting for a lock held by " + by })
}

// Coverage returns what the publication lacks for the captured tables: tables, operations
// (update and delete only where a table has a key or full identity), key columns outside a
// column list or generated and not published. keys holds each table's key by its OID.
func (p Publication) Coverage(tables []*Table, keys map[uint32][]string) []connectors.Problem {
	if !p.Exists {
		return []connectors.Problem{{Property: "publication.name", Message: fmt.Sprintf("publication %s does not exist", p.Name)}}
	}
	var problems []connectors.Problem
	add := func(format string, args ...any) {
		problems = append(problems, connectors.Problem{Property: "publication.name", Message: fmt.Sprintf("publication %s "+format, append([]any{p.Name}, args...)...)})
	}
	published := make(map[uint32]PublishedTable, len(p.Tables))
	for _, t := range p.Tables {
		published[t.OID] = t
	}
	changed := false // some table's updates and deletes are meant to be seen
	for _, t := range tables {
		changed = changed || len(keys[t.OID]) > 0 || t.IdentityKind == 'f'
		pt, ok := published[t.OID]
		if !ok {
			add("does not publish table %s; run ALTER PUBLICATION %s ADD TABLE %s, or leave it out of table.include.list", t.QualifiedName(), quoteIdent(p.Name), t.Quoted())
			continue
		}
		for _, name := range keys[t.OID] {
			if !slices.Contains(pt.Columns, name) {
				add("does not publish key column %q of table %s (its column list, or a generated column); publish it or choose other columns in message.key.columns", name, t.QualifiedName())
			}
		}
	}
	if ops := p.lacking(changed); len(tables) > 0 && len(ops) > 0 {
		add("does not publish %s of captured tables; run ALTER PUBLICATION %s SET (publish = 'insert, update, delete, truncate')", strings.Join(ops, ", "), quoteIdent(p.Name))
	}
	return problems
}

// lacking names the needed operations the publication does not publish.
func (p Publication) lacking(changed bool) []string {
	var ops []string
	for _, op := range []struct {
		name           string
		needed, publed bool
	}{{"insert", true, p.Ops.Insert}, {"update", changed, p.Ops.Update}, {"delete", changed, p.Ops.Delete}, {"truncate", true, p.Ops.Truncate}} {
		if op.needed && !op.publed {
			ops = append(ops, op.name)
		}
	}
	return ops
}
