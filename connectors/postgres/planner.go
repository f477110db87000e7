package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// lookup reads the catalogue as it is now.
type lookup interface {
	// table returns nil where the OID does not exist.
	table(ctx context.Context, oid uint32) (*catalog.Table, error)
	// types returns a resolver that holds the given types, read again where fresh is set.
	types(ctx context.Context, fresh bool, oids ...uint32) (values.Resolver, error)
}

// known is what the planner knows of a table of the stream or of the captured set.
type known struct {
	table  *schema.Table       // nil: not captured
	key    []string            // in key order
	state  *offsets.TableState // identity to compare the catalogue with; nil where there was none to read
	pinned bool                // the identity is stored, or was seen in the stream: another one is drift
	wire   *pgoutput.Relation  // last Relation message of this connection, nil before the first
	from   *pgoutput.Relation  // what the plan was made from: that, or what stands for it before the first
	plan   *relation
}

// planner turns Relation messages into plans for rows, and finds what the stream must not pass.
type planner struct {
	database string
	filter   *filter
	options  values.Options
	ops      catalog.Operations
	lookup   lookup
	log      *slog.Logger
	viaRoot  bool                          // the publication publishes partitions as their root
	stored   map[string]offsets.TableState // by qualified name
	tables   map[uint32]*known
	names    map[string]uint32 // captured tables by qualified name

	server      string       // of the stream, as messages name it
	set         tableSet     // at this place of the log
	changedAt   pgoutput.LSN // where it was changed last by what was read since the start
	setChanged  bool         // something of what tableView shows changed
	publication func(context.Context) (catalog.Publication, error)

	published map[uint32]published // as of the last look at the catalogue

	acceptLabels bool                // labels that the catalogue does not have are published
	labels       map[uint32][]string // those seen, by the enum's OID
}

func newPlanner(database string, f *filter, o values.Options, ops catalog.Operations, l lookup) *planner {
	return &planner{
		log: slog.New(slog.DiscardHandler), database: database, filter: f, options: o, ops: ops, lookup: l,
		stored: map[string]offsets.TableState{}, tables: map[uint32]*known{}, names: map[string]uint32{},
		labels: map[uint32][]string{},
	}
}

// seed plans a captured table from the catalogue, before anything of it was seen in the stream.
func (p *planner) seed(ctx context.Context, t *catalog.Table, key, published []string) (*schema.Table, error) {
	rel := &pgoutput.Relation{ID: t.OID, Namespace: t.Schema, Name: t.Name, ReplicaIdentity: t.IdentityKind}
	for _, c := range t.Columns {
		if c.Generated == 0 && len(published) == 0 || slices.Contains(published, c.Name) {
			rel.Columns = append(rel.Columns, pgoutput.RelationColumn{Name: c.Name, TypeOID: c.TypeOID, TypeModifier: c.Typmod})
		}
	}
	plan, table, err := p.build(ctx, rel, t, key, true, false)
	if err != nil {
		return nil, err
	}
	table.Version = 1
	_, pinned := p.stored[t.QualifiedName()]
	state := t.State(key)
	p.tables[t.OID] = &known{table: table, key: key, state: &state, pinned: pinned, plan: plan, from: rel}
	p.names[t.QualifiedName()], p.setChanged = t.OID, true
	return table, nil
}

// describe plans the rows that follow a Relation message. The message counts, the catalogue only
// supplements it: it is read again where the message differs from the last one.
func (p *planner) describe(ctx context.Context, rel *pgoutput.Relation) (*relation, error) {
	before := p.tables[rel.ID]
	if before != nil && before.wire != nil && sameRelation(before.wire, rel) {
		return before.plan, nil
	}
	name := qualified(rel.Namespace, rel.Name)
	captured := p.captures(rel.Namespace, rel.Name)
	if err := p.checkName(rel, before, name, captured); err != nil {
		return nil, connectors.Block(err)
	}
	now, err := p.lookup.table(ctx, rel.ID)
	if err != nil {
		return nil, fmt.Errorf("read table %s from the catalogue: %w", name, err)
	}
	key, err := p.key(rel, before, now, captured)
	if err != nil {
		return nil, connectors.Block(err)
	}
	plan, table, err := p.build(ctx, rel, now, key, captured, before != nil && before.wire != nil)
	if err != nil {
		return nil, err
	}
	next := &known{table: table, key: key, pinned: captured, plan: plan}
	if captured {
		if err := checkDrift(before, rel, table, key, p.filter.key(rel.Namespace, rel.Name) != nil); err != nil {
			return nil, connectors.Block(err)
		}
		if now != nil && before != nil && before.pinned && before.state != nil {
			if err := catalog.TableDrift(*before.state, now, now, p.currentKey(now)); err != nil {
				return nil, err
			}
		}
		next.inherit(before, now)
		p.tell(before, next)
		p.setChanged = p.setChanged || before == nil || before.table == nil
		p.names[name] = rel.ID
	}
	copied := *rel
	next.wire, next.from = &copied, &copied
	p.tables[rel.ID] = next
	return plan, nil
}

// tell logs what changed since the version before. The catalogue's at a start may be newer than the log and is none.
func (p *planner) tell(before, now *known) {
	if before == nil || before.wire == nil || before.table == nil || before.table == now.table {
		return
	}
	changes := schema.Diff(before.table, now.table)
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	p.log.Info("a table changed in the log", "table", now.table.QualifiedName(), "version", now.table.Version, "changes", strings.Join(texts, "; "))
}

// inherit numbers the version and keeps the old one where nothing changed.
func (k *known) inherit(before *known, now *catalog.Table) {
	k.table.Version = 1
	if now != nil {
		state := now.State(k.key)
		k.state = &state
	}
	if before == nil || before.table == nil {
		return
	}
	if before.pinned && before.state != nil {
		k.state = before.state
	}
	k.table.Version = before.table.Version + 1
	if sameTable(before.table, k.table) {
		k.table = before.table
		k.plan.table = before.table
	}
}

// checkName finds a table that was renamed, moved, or dropped and created again.
func (p *planner) checkName(rel *pgoutput.Relation, before *known, name string, captured bool) error {
	if before != nil && before.table != nil && before.table.QualifiedName() != name {
		return fmt.Errorf("table %s is now called %s: a captured table must keep its name; %s",
			before.table.QualifiedName(), name, wayPast)
	}
	if !captured {
		return nil
	}
	oid, ok := p.names[name]
	if s, found := p.stored[name]; !ok && found {
		oid, ok = uint32(s.ID), true
	}
	if k := p.tables[oid]; ok && k != nil && !k.pinned {
		return nil // nothing of the other one was published
	}
	if ok && oid != rel.ID {
		return fmt.Errorf("table %s was dropped and created again (OID %d before, %d now): its old rows would stay at the consumers; reset the stream",
			name, oid, rel.ID)
	}
	return nil
}

// key finds the key columns: those configured, those in force, or those of a table that is new to the stream.
func (p *planner) key(rel *pgoutput.Relation, before *known, now *catalog.Table, captured bool) ([]string, error) {
	name := qualified(rel.Namespace, rel.Name)
	if !captured {
		return hiddenKey(rel), nil
	}
	if before != nil && before.table != nil && (before.pinned || now == nil) {
		return before.key, nil
	}
	if s, ok := p.stored[name]; ok {
		return parseNames(s.KeyColumns)
	}
	if now == nil {
		configured := p.filter.key(rel.Namespace, rel.Name)
		if configured == nil && rel.ReplicaIdentity == pgoutput.IdentityFull {
			return nil, fmt.Errorf("table %s no longer exists and the log does not tell its key: exclude it, or name its key in %s", name, propKeyColumns)
		}
		if configured != nil {
			return configured, nil
		}
		return hiddenKey(rel), nil
	}
	return catalog.KeyFor(now, p.filter.key(rel.Namespace, rel.Name), p.ops)
}

// hiddenKey is the key as the log alone tells it, so that every replay counts alike whatever the catalogue has
// become: the columns that the Relation message flags. With full identity it flags them all, and with no identity none:
// no key is known then. Of a table that is not captured it only decides how many ordinals an update takes.
func hiddenKey(rel *pgoutput.Relation) []string {
	if rel.ReplicaIdentity == pgoutput.IdentityFull {
		return nil
	}
	var key []string
	for i := range rel.Columns {
		if rel.Columns[i].Key() {
			key = append(key, rel.Columns[i].Name)
		}
	}
	return key
}

// build makes the plan and, for a captured table, the table version of a Relation message.
func (p *planner) build(ctx context.Context, rel *pgoutput.Relation, now *catalog.Table, key []string, captured, fresh bool) (*relation, *schema.Table, error) {
	name := qualified(rel.Namespace, rel.Name)
	plan := &relation{name: name, columns: make([]column, len(rel.Columns)), carried: make([]bool, len(rel.Columns))}
	flagged := false
	for i := range rel.Columns {
		plan.columns[i] = column{name: rel.Columns[i].Name, at: -1}
		plan.carried[i] = rel.Columns[i].Key()
		flagged = flagged || plan.carried[i]
	}
	for _, k := range key {
		i := slices.IndexFunc(rel.Columns, func(c pgoutput.RelationColumn) bool { return c.Name == k })
		if i < 0 {
			if !captured {
				plan.key = nil
				return plan, nil, nil
			}
			return nil, nil, connectors.Block(fmt.Errorf("table %s: key column %q is not in the log: it was dropped or renamed, or the publication's column list leaves it out", name, k))
		}
		plan.key = append(plan.key, i)
		if !flagged { // some servers send no key flags
			plan.carried[i] = true
		}
	}
	if !captured {
		return plan, nil, nil
	}
	table := &schema.Table{ID: uint64(rel.ID), Database: p.database, Namespace: rel.Namespace, Name: rel.Name, Identity: identityOf(rel, now)}
	plan.table = table
	if err := p.columns(ctx, rel, now, plan, fresh); err != nil {
		return nil, nil, err
	}
	for _, k := range key {
		i := table.ColumnIndex(k)
		if i < 0 {
			return nil, nil, connectors.Refuse(fmt.Errorf("table %s: key column %q is left out by %s or %s; a key must be published whole", name, k, propColumnInclude, propColumnExclude))
		}
		table.Key = append(table.Key, i)
		table.Columns[i].NotNull = true
	}
	return plan, table, nil
}

// columns fills in the captured columns, their types and decoders.
func (p *planner) columns(ctx context.Context, rel *pgoutput.Relation, now *catalog.Table, plan *relation, fresh bool) error {
	oids := make([]uint32, len(rel.Columns))
	for i := range rel.Columns {
		oids[i] = rel.Columns[i].TypeOID
	}
	resolve, err := p.lookup.types(ctx, fresh, oids...)
	if err != nil {
		return fmt.Errorf("read the types of table %s from the catalogue: %w", plan.name, err)
	}
	resolve = p.withLabels(resolve)
	for i := range rel.Columns {
		c := &rel.Columns[i]
		if !p.filter.column(rel.Namespace, rel.Name, c.Name) {
			continue
		}
		opts := p.options
		opts.Bounds = slices.Contains(plan.key, i)
		t, decode, err := values.Map(resolve, c.TypeOID, c.TypeModifier, opts)
		if err != nil {
			return connectors.Block(fmt.Errorf("table %s, column %q: %w", plan.name, c.Name, err))
		}
		col := schema.Column{Name: c.Name, Type: t}
		if now != nil {
			if cat := now.Column(c.Name); cat != nil && cat.TypeOID == c.TypeOID && cat.Typmod == c.TypeModifier {
				col.Type.Name, col.NotNull, col.Default = cat.TypeName, cat.NotNull, cat.Default
				col.External = cat.Storage == 'e' || cat.Storage == 'x'
			}
		}
		plan.columns[i].at, plan.columns[i].decode = len(plan.table.Columns), decode
		plan.table.Columns = append(plan.table.Columns, col)
	}
	return nil
}

func qualified(schema, name string) string { return schema + "." + name }

// identityOf names the replica identity in force at a Relation message.
func identityOf(rel *pgoutput.Relation, now *catalog.Table) string {
	if now != nil && now.IdentityKind == rel.ReplicaIdentity {
		return now.Identity()
	}
	return identityName(rel.ReplicaIdentity)
}

func identityName(kind byte) string {
	switch kind {
	case pgoutput.IdentityFull:
		return "full"
	case pgoutput.IdentityNothing:
		return "nothing"
	case pgoutput.IdentityIndex:
		return "index"
	}
	return "default"
}
