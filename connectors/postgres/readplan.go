package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/schema"
)

// planAge is how long a plan may be used without the catalogue being read again, where the table itself was not altered.
const planAge = 5 * time.Second

// tablePlan is how a table is read.
type tablePlan struct {
	table    *catalog.Table
	plan     *relation
	filter   string // of the publication, SQL
	override string // statement that selects the initial rows; empty: none
	keys     paging // the table's key; empty: none
	pages    paging // the columns last paged by

	conditions map[string]bool // those checked, and the override

	fingerprint string
	read        time.Time
}

// selected reports whether a statement of the configuration selects the rows.
func (p *tablePlan) selected(initial bool) bool { return initial && p.override != "" }

// from is what rows are selected from.
func (p *tablePlan) from(initial bool) string {
	if p.selected(initial) {
		return "(" + p.override + "\n) AS o"
	}
	if p.table.Kind == 'p' {
		return p.table.Quoted() // the rows are in the partitions
	}
	return "ONLY " + p.table.Quoted()
}

// planTable plans a captured table by the catalogue as conn's transaction sees it. now is the version that the stream has.
func (r *reader) planTable(ctx context.Context, now *schema.Table) (*tablePlan, error) {
	name := now.QualifiedName()
	print, err := catalog.Fingerprint(ctx, r.conn, uint32(now.ID))
	if err != nil {
		return nil, err
	}
	if p := r.tables[name]; p != nil && p.fingerprint == print && p.table.OID == uint32(now.ID) && time.Since(p.read) < planAge &&
		slices.Equal(p.plan.table.KeyColumns(), now.KeyColumns()) {
		p.plan.table = r.stream.captured.adopt(p.plan.table)
		return p, nil
	}
	t, err := catalog.ReadTableIn(ctx, r.conn, uint32(now.ID))
	if err != nil {
		return nil, err
	}
	pub, err := catalog.ReadPublicationOf(ctx, r.conn, r.set.publication.Name, uint32(now.ID))
	if err != nil {
		return nil, err
	}
	p, err := r.plan(ctx, now, t, pub)
	if err != nil {
		return nil, err
	}
	p.fingerprint, p.read = print, time.Now()
	r.tables[name] = p
	return p, nil
}

// plan compares the catalogue with the stream's version, and plans.
func (r *reader) plan(ctx context.Context, now *schema.Table, t *catalog.Table, pub catalog.Publication) (*tablePlan, error) {
	name := now.QualifiedName()
	refuse := func(format string, args ...any) (*tablePlan, error) {
		return nil, connectors.Refuse(fmt.Errorf("read table %s: "+format, append([]any{name}, args...)...))
	}
	switch {
	case t == nil:
		return refuse("it was dropped")
	case t.QualifiedName() != name:
		return refuse("it is now called %s", t.QualifiedName())
	}
	at := slices.IndexFunc(pub.Tables, func(p catalog.PublishedTable) bool { return p.OID == t.OID })
	if at < 0 {
		return refuse("publication %s does not have it", r.set.publication.Name)
	}
	ops := pub.Ops
	key, err := catalog.KeyFor(t, r.set.filter.key(t.Schema, t.Name), ops)
	if err != nil {
		return nil, connectors.Refuse(err)
	}
	if was := now.KeyColumns(); !slices.Equal(was, key) {
		return refuse("its key is (%s), but the stream has the key (%s)", strings.Join(key, ", "), strings.Join(was, ", "))
	}
	look := &live{set: r.types, run: func(ctx context.Context, f func(context.Context, *pgx.Conn) error) error { return f(ctx, r.conn) }}
	plans := newPlanner(r.set.conn.Database, r.set.filter, r.set.values, ops, look)
	if err := r.types.LoadTables(ctx, r.conn, t); err != nil {
		return nil, err
	}
	table, err := plans.seed(ctx, t, key, pub.Tables[at].Columns)
	if err != nil {
		return nil, connectors.Refuse(err)
	}
	for _, k := range key {
		if was, is := columnOf(now, k), columnOf(table, k); was.Type.Name != is.Type.Name && !sameDeclared(was, is) {
			return refuse("the type of key column %q is %s, but the stream has %s", k, is.Type.Name, was.Type.Name)
		}
	}
	p := &tablePlan{table: t, plan: plans.tables[t.OID].plan, filter: pub.Tables[at].RowFilter, override: r.set.snapshot.overrides[name], conditions: map[string]bool{}}
	p.plan.table = r.stream.captured.adopt(table)
	if len(key) > 0 {
		if p.keys, err = catalog.PageColumns(ctx, r.conn, t.OID, key); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// pageBy finds the columns to page by: the key, or a surrogate for it, which must tell rows apart.
func (r *reader) pageBy(ctx context.Context, p *tablePlan, surrogate []string) (paging, error) {
	name := p.table.QualifiedName()
	refuse := func(format string, args ...any) (paging, error) {
		return nil, connectors.Refuse(fmt.Errorf("read chunk of %s: "+format, append([]any{name}, args...)...))
	}
	if len(surrogate) == 0 {
		if len(p.keys) == 0 {
			return refuse("it has no key to read it in the order of; name a surrogate key")
		}
		return p.keys, nil
	}
	if slices.Equal(p.pages.names(), surrogate) {
		return p.pages, nil
	}
	pages, err := catalog.PageColumns(ctx, r.conn, p.table.OID, surrogate)
	if err != nil {
		return nil, err
	}
	for _, s := range surrogate {
		i := slices.IndexFunc(pages, func(c catalog.PageColumn) bool { return c.Name == s })
		switch {
		case i < 0:
			return refuse("it has no column %q to serve as surrogate key", s)
		case !pages[i].NotNull:
			return refuse("column %q cannot serve as surrogate key: it may be NULL, and rows with NULL would be left out", s)
		}
	}
	unique, err := catalog.Unique(ctx, r.conn, p.table.OID, surrogate)
	if err != nil {
		return nil, err
	}
	if !unique {
		return refuse("(%s) cannot serve as surrogate key: no unique index keeps rows from sharing its values", strings.Join(surrogate, ", "))
	}
	p.pages = pages
	return pages, nil
}

// checkCondition refuses a condition that is no expression of its own, or that the server does not take. It is checked
// in two places of a statement, of which nothing but an expression fits both.
func (r *reader) checkCondition(ctx context.Context, p *tablePlan, where string) error {
	if where == "" || p.conditions[where] {
		return nil
	}
	for _, sql := range []string{
		"SELECT FROM " + p.from(false) + " WHERE (" + where + "\n)",
		"SELECT CASE WHEN " + where + "\n THEN 1 END FROM " + p.from(false),
	} {
		statement, err := r.conn.PgConn().Prepare(ctx, "", sql, nil)
		if err != nil {
			return r.conditionError(p.table.QualifiedName(), where, err)
		}
		if len(statement.ParamOIDs) > 0 {
			return connectors.Refuse(fmt.Errorf("read table %s: the condition %q cannot be used: it has a parameter, such as $1, and there is no value for it", p.table.QualifiedName(), where))
		}
	}
	p.conditions[where] = true
	return nil
}

// checkOverride refuses a statement that cannot stand for the table.
func (r *reader) checkOverride(ctx context.Context, p *tablePlan, initial bool) error {
	if !p.selected(initial) || p.conditions[p.override] {
		return nil
	}
	problem := overrideProblem(ctx, r.conn, p.override, newRowDecoder(p.plan, nil).list())
	switch {
	case problem == "":
		p.conditions[p.override] = true
		return nil
	case r.conn.IsClosed():
		return connectors.WithClass(connectors.ClassWait, fmt.Errorf("read table %s: %s", p.table.QualifiedName(), problem))
	}
	return connectors.Refuse(fmt.Errorf("%s.%s: %s", propSnapshotOverride, p.table.QualifiedName(), problem))
}

// condition writes what rows must fulfil, besides where they are. A statement that selects them stands for the row filter too.
func (p *tablePlan) condition(initial bool, more ...string) string {
	if !p.selected(initial) {
		more = append([]string{p.filter}, more...)
	}
	var parts []string
	for _, c := range more {
		if c != "" {
			parts = append(parts, "("+c+"\n)")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(parts, " AND ")
}
