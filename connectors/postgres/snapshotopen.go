package postgres

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// renewal is what snapshot.mode=when_needed does about a position that can no longer be read.
type renewal struct {
	reason string // empty: there is none
	stream bool   // the stream has offsets, which the new generation replaces
	drop   bool   // the slot is invalidated and is dropped first
}

// reconcileOrRenew reconciles, or begins anew where the log from the stored position on is gone and the mode allows that.
func (o *opening) reconcileOrRenew(ctx context.Context, slot catalog.Slot) error {
	err := o.reconcile(ctx, slot)
	if err == nil || o.set.snapshot.mode != modeWhenNeeded || !catalog.Lost(err) {
		return err
	}
	o.renewal = renewal{reason: err.Error(), stream: o.position != nil, drop: slot.Exists && slot.Invalidation != ""}
	o.opts.Log.Warn("the tables are read anew, in a new generation", "because", err.Error(), "mode", string(modeWhenNeeded))
	o.position, o.start, o.states = nil, 0, map[string]offsets.TableState{}
	if o.renewal.drop {
		slot = catalog.Slot{Name: slot.Name}
	}
	return o.reconcile(ctx, slot)
}

// forget drops what earlier generations knew of their tables, which a baseline has replaced.
func (o *opening) forget(g offsets.Generation) {
	for name, state := range o.states {
		if g.Baseline && state.Generation < g.Number {
			delete(o.states, name)
		}
	}
}

// reads reports whether this start begins with the rows that the tables have.
func (o *opening) reads() bool { return o.position == nil && o.set.snapshot.mode.reads() }

// snapshotTables are the captured tables whose rows are read.
func (o *opening) snapshotTables() (tables []*catalog.Table) {
	for _, t := range o.captured {
		if o.set.snapshot.includes(t.QualifiedName()) {
			tables = append(tables, t)
		}
	}
	return tables
}

// checkSnapshot refuses a start that begins with rows which cannot be read, before anything is changed.
func (o *opening) checkSnapshot(ctx context.Context) error {
	if problems := o.set.snapshot.unknownTables(qualifiedNames(o.captured)); len(problems) > 0 {
		return connectors.Refuse(fmt.Errorf("%s", problems[0]))
	}
	if !o.reads() {
		return nil
	}
	unreadable, err := o.unreadable(ctx)
	if err != nil {
		return err
	}
	if len(unreadable) > 0 {
		return connectors.Refuse(fmt.Errorf("%s: %w", propSnapshotMode, o.unreadableError(unreadable)))
	}
	if problems := o.overrideProblems(ctx); len(problems) > 0 {
		return connectors.Refuse(fmt.Errorf("%s", problems[0]))
	}
	return nil
}

func (o *opening) unreadableError(names []string) error {
	return fmt.Errorf("%s reads tables, and the role may not read %s; GRANT SELECT on that (and USAGE on its schema) to %q, leave it out of %s, or set the mode to no_data",
		o.set.snapshot.mode, someNames(names), o.set.conn.User, propSnapshotInclude)
}

// overrideProblems has the server parse the statements that select rows of tables.
func (o *opening) overrideProblems(ctx context.Context) (problems []connectors.Problem) {
	for _, t := range o.snapshotTables() {
		name := t.QualifiedName()
		statement := o.set.snapshot.overrides[name]
		if statement == "" {
			continue
		}
		var columns []string
		for _, c := range t.Columns {
			if c.Generated == 0 && o.set.filter.column(t.Schema, t.Name, c.Name) {
				columns = append(columns, pgx.Identifier{c.Name}.Sanitize())
			}
		}
		if problem := overrideProblem(ctx, o.sql, statement, strings.Join(columns, ", ")); problem != "" {
			problems = append(problems, connectors.Problem{Property: propSnapshotOverride + "." + name, Message: problem})
		}
	}
	return problems
}

// overrideProblem says why a statement cannot stand for a table with these columns. It is prepared alone and within another one before
// that is executed: nothing but one SELECT fits both, so that what follows a parenthesis or a semicolon of it is never executed.
func overrideProblem(ctx context.Context, conn *pgx.Conn, statement, columns string) string {
	within := "SELECT " + columns + " FROM (" + statement + "\n) AS o LIMIT 0"
	for _, sql := range []string{statement, within} {
		prepared, err := conn.PgConn().Prepare(ctx, "", sql, nil)
		if err != nil {
			return overrideError(err)
		}
		if len(prepared.ParamOIDs) > 0 {
			return "the statement cannot be used: it has a parameter, such as $1, and there is no value for it"
		}
	}
	if _, err := conn.Exec(ctx, within); err != nil {
		return overrideError(err)
	}
	return ""
}

// overrideError says why a statement cannot stand for a table.
func overrideError(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Sprintf("the statement could not be checked: %s", err)
	}
	if pg.Code == "42703" {
		return fmt.Sprintf("the statement does not give every captured column by its name: %s; select it, or leave the column out with %s", pg.Message, propColumnExclude)
	}
	if strings.HasPrefix(pg.Code, "22") { // the server's words may have a value of a row
		return fmt.Sprintf("the statement fails on a row (SQLSTATE %s)", pg.Code)
	}
	more := ""
	if pg.Code == "42883" || pg.Code == "42704" || pg.Code == "42P01" {
		more = "; names need their schema, as the search path is empty"
	}
	return fmt.Sprintf("the statement cannot be used: %s%s", pg.Message, more)
}

// unreadable names the columns of tables to be read that the role may not read.
func (o *opening) unreadable(ctx context.Context) (names []string, err error) {
	tables := map[uint32]*catalog.Table{}
	var oids []uint32
	for _, t := range o.snapshotTables() {
		if o.set.snapshot.overrides[t.QualifiedName()] == "" {
			tables[t.OID], oids = t, append(oids, t.OID)
		}
	}
	rows, err := o.sql.Query(ctx, `
SELECT a.attrelid, a.attname::text
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE a.attrelid = ANY($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
   AND NOT (has_schema_privilege(c.relnamespace, 'USAGE') AND has_column_privilege(c.oid, a.attnum, 'SELECT'))
 ORDER BY a.attrelid, a.attnum`, oids)
	if err != nil {
		return nil, fmt.Errorf("read the role's rights: %w", err)
	}
	missing := map[uint32][]string{}
	var oid uint32
	var column string
	if _, err = pgx.ForEachRow(rows, []any{&oid, &column}, func() error {
		if t := tables[oid]; o.set.filter.column(t.Schema, t.Name, column) {
			missing[oid] = append(missing[oid], column)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the role's rights: %w", err)
	}
	for _, id := range oids {
		switch t := tables[id]; {
		case len(missing[id]) == 0:
		case len(missing[id]) == len(t.Columns):
			names = append(names, "table "+t.QualifiedName())
		default:
			names = append(names, fmt.Sprintf("column %s of table %s", strings.Join(missing[id], ", "), t.QualifiedName()))
		}
	}
	return names, nil
}

// snapshotTooLarge is the state of "initial slot snapshot too large": since the slot's creation began, more transaction ids did not
// commit (rolled back subtransactions above all) than a snapshot has room for. It would most likely be so again.
const snapshotTooLarge = "40001"

// createSlot creates the slot, with an exported snapshot where this start begins with the tables' rows.
func (o *opening) createSlot(ctx context.Context) error {
	if o.renewal.drop {
		if err := catalog.DropSlot(ctx, o.sql, o.set.slot); err != nil {
			return err
		}
	}
	if !o.reads() {
		_, err := catalog.CreateSlot(ctx, o.repl, o.sql, o.set.slot, o.set.failover, o.opts.Report)
		return err
	}
	repl, err := catalog.ConnectReplication(ctx, o.set.conn) // of its own: the snapshot lasts until its next command
	if err != nil {
		return err
	}
	defer func() { _ = repl.Close(context.WithoutCancel(ctx)) }()
	made, err := catalog.CreateSlotWithSnapshot(ctx, repl, o.sql, o.set.slot, o.set.failover, o.opts.Report)
	if sqlState(err) == snapshotTooLarge {
		o.opts.Log.Warn("the server cannot export a snapshot with the slot while so many transactions are rolled back: the tables are read beside the stream, by chunks", "reason", err)
		_, err := catalog.CreateSlot(ctx, o.repl, o.sql, o.set.slot, o.set.failover, o.opts.Report)
		return err
	}
	if err != nil {
		return err
	}
	o.opts.Report(connectors.State{Name: "STARTING", Reason: fmt.Sprintf("taking hold of the snapshot of slot %s", o.set.slot)})
	if o.export, err = o.pin(ctx, made); err == nil {
		err = o.unaltered(ctx)
	}
	if err != nil { // without offsets the slot is of no use; with the next one goes a snapshot
		if dropped := catalog.DropSlot(ctx, o.sql, o.set.slot); dropped != nil {
			o.opts.Log.Warn("drop the slot again", "reason", dropped)
		}
	}
	return err
}

// unaltered is an error where the tables were altered, or others came, since they were looked up: the slot waited for such a transaction,
// and the snapshot has rows that what was looked up does not describe.
func (o *opening) unaltered(ctx context.Context) error {
	tables, published := o.captured, o.pub.Tables
	if err := o.readTables(ctx); err != nil {
		return err
	}
	if reflect.DeepEqual(tables, o.captured) && reflect.DeepEqual(published, o.pub.Tables) {
		return nil
	}
	return connectors.WithClass(connectors.ClassWait, fmt.Errorf("tables or publication %s were altered while slot %s was created: it is created again, with a snapshot of them as they are", o.pub.Name, o.set.slot))
}

// pin opens the connections that hold the snapshot. With one of them it can be read.
func (o *opening) pin(ctx context.Context, made catalog.ExportedSlot) (*export, error) {
	var workers []*exportWorker
	var failed error
	for range o.set.snapshot.threads {
		w, err := pinWorker(ctx, o.set.conn, made.Snapshot)
		if err != nil {
			failed = err
			break
		}
		workers = append(workers, w)
	}
	if len(workers) == 0 {
		return nil, failed
	}
	if failed != nil {
		o.opts.Log.Warn(fmt.Sprintf("the snapshot is read over %d connections, not %d", len(workers), o.set.snapshot.threads), "reason", failed)
	}
	var now time.Time
	if err := workers[0].conn.QueryRow(ctx, "SELECT clock_timestamp()", pgx.QueryExecModeSimpleProtocol).Scan(&now); err != nil {
		for _, w := range workers {
			w.close()
		}
		return nil, fmt.Errorf("read the server's clock: %w", err)
	}
	return newExport(made.Point, workers, now.UnixMicro()), nil
}

// planExport tells the export what to read, now that the tables are planned.
func (o *opening) planExport(ctx context.Context, plans *planner) error {
	published := make(map[uint32]catalog.PublishedTable, len(o.pub.Tables))
	for _, t := range o.pub.Tables {
		published[t.OID] = t
	}
	var roots, plain []uint32
	byOID := map[uint32]*exportTable{}
	for _, t := range o.snapshotTables() {
		k := plans.tables[t.OID]
		x := &exportTable{table: k.table, plan: k.plan, columns: newCopyRows(k.plan, nil).list(), where: published[t.OID].RowFilter, override: o.set.snapshot.overrides[t.QualifiedName()]}
		byOID[t.OID] = x
		o.export.tables = append(o.export.tables, x)
		if t.Kind == 'p' && x.override == "" {
			roots = append(roots, t.OID)
		} else {
			plain = append(plain, t.OID)
		}
	}
	parts, err := catalog.ReadFiles(ctx, o.export.workers[0].conn, plain, roots)
	if err != nil {
		return err
	}
	for _, p := range parts {
		x := byOID[p.Root]
		x.rows = addEstimates(x.rows, p.Rows, len(x.parts))
		x.parts = append(x.parts, &exportPart{t: x, oid: p.OID, name: p.Quoted(), file: p.File, step: o.set.snapshot.pages})
	}
	slices.SortStableFunc(o.export.tables, func(a, b *exportTable) int { return int(min(b.rows, 1<<40) - min(a.rows, 1<<40)) }) // large ones first
	return nil
}

// addEstimates adds an estimate to that of the parts before; -1 is unknown.
func addEstimates(sum, more int64, parts int) int64 {
	switch {
	case parts > 0 && sum < 0, more < 0:
		return -1
	}
	return sum + more
}
