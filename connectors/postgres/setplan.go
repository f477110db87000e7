package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// setResult is what a change of the set means from its place on.
type setResult struct {
	entry        offsets.Entry
	joined, left []*schema.Table
	plans        map[uint32]*relation // of tables described before; nil: to be described anew
}

// take adds what a later change in the same transaction means.
func (r *setResult) take(later *setResult) {
	r.entry = later.entry
	for _, t := range later.joined {
		r.left = slices.DeleteFunc(r.left, func(l *schema.Table) bool { return l.QualifiedName() == t.QualifiedName() })
	}
	for _, t := range later.left {
		r.joined = slices.DeleteFunc(r.joined, func(j *schema.Table) bool { return j.QualifiedName() == t.QualifiedName() })
	}
	r.joined, r.left = append(r.joined, later.joined...), append(r.left, later.left...)
}

// captures reports whether a table is captured at this place of the log.
func (p *planner) captures(schema, name string) bool { return p.set.captures(p.filter, schema, name) }

// changeSet makes the next version of the set at the transaction whose commit record is at place. It returns nil for a change that
// the stored set has already, which a stream meets that was set back. Two that were written at the same time carry the same
// version; the later one counts all the same, as the next.
func (p *planner) changeSet(ctx context.Context, c *setChange, place pgoutput.LSN) (*setResult, error) {
	switch {
	case place < p.set.place, place == p.set.place && p.changedAt != place:
		return nil, nil
	case c.Version > p.set.version+1:
		return nil, connectors.Block(fmt.Errorf("the log changes the table set to version %d here, and the stored offsets know version %d: what was changed between was lost with them; put the stored entry {\"server\":%q,\"kind\":\"tables\"} back, or go on after this place with connectctl offsets set WORKER CONNECTOR and change the set again with connectctl tables",
			c.Version, p.set.version, p.server))
	}
	r := &setResult{plans: map[uint32]*relation{}}
	var add []addTable
	for _, t := range c.Add {
		if _, ok := p.names[t.Name]; !ok || slices.Contains(c.Remove, t.Name) {
			add = append(add, t)
		}
	}
	p.set, p.changedAt, p.setChanged = p.set.with(c, place), place, true
	for _, name := range c.Remove {
		if err := p.leave(ctx, name, r); err != nil {
			return nil, err
		}
	}
	for _, t := range add {
		if err := p.join(ctx, t, r); err != nil {
			return nil, err
		}
	}
	r.entry = p.set.entry(p.server)
	p.log.Info("the table set changed", "version", p.set.version, "added", c.Add, "removed", c.Remove)
	return r, nil
}

// leave ends the capture of a table. What is known of it is kept, for the case that it comes back.
func (p *planner) leave(ctx context.Context, name string, r *setResult) error {
	oid, ok := p.names[name]
	if !ok {
		return nil
	}
	k := p.tables[oid]
	delete(p.names, name)
	delete(p.tables, oid)
	delete(p.published, oid)
	if k == nil {
		return nil
	}
	if k.pinned && k.state != nil {
		p.stored[name] = *k.state
	}
	if k.table != nil {
		r.left = append(r.left, k.table)
	}
	return p.again(ctx, oid, k.wire, r)
}

// again plans a table that the stream has described as the set has it now.
func (p *planner) again(ctx context.Context, oid uint32, wire *pgoutput.Relation, r *setResult) error {
	r.plans[oid] = nil
	if wire == nil {
		return nil
	}
	plan, err := p.describe(ctx, wire)
	r.plans[oid] = plan
	return err
}

// join begins the capture of a table. One that the log described before, though it was not captured, is planned by that; else the
// catalogue tells until the log does. One that is gone from the catalogue joins when the log describes it.
func (p *planner) join(ctx context.Context, t addTable, r *setResult) error {
	now, err := p.lookup.table(ctx, t.ID)
	if err != nil {
		return fmt.Errorf("read table %s from the catalogue: %w", t.Name, err)
	}
	if now != nil {
		if err := p.joins(t, now); err != nil {
			return err
		}
	}
	before := p.tables[t.ID]
	switch {
	case before != nil && before.wire != nil:
		delete(p.tables, t.ID)
		if err := p.again(ctx, t.ID, before.wire, r); err != nil {
			return err
		}
	case now != nil:
		columns, err := p.columnsOf(ctx, t.ID)
		if err != nil {
			return err
		}
		key, err := p.keyOf(now)
		if err != nil {
			return err
		}
		if _, err := p.seed(ctx, now, key, columns); err != nil {
			return err
		}
	default:
		p.log.Warn("a table that joins the set no longer exists", "table", t.Name, "oid", t.ID)
	}
	if k := p.tables[t.ID]; k != nil && k.table != nil {
		r.joined = append(r.joined, k.table)
	}
	return nil
}

// joins compares a table that joins with what is known of it: what the message names, and what was published of it before.
func (p *planner) joins(t addTable, now *catalog.Table) error {
	if now.QualifiedName() != t.Name {
		return connectors.Block(fmt.Errorf("table %s joins the set here and is now called %s: a captured table must keep its name; rename it back, or go on after this place with connectctl offsets set WORKER CONNECTOR", t.Name, now.QualifiedName()))
	}
	if stored, ok := p.stored[t.Name]; ok {
		return catalog.TableDrift(stored, now, now, p.currentKey(now))
	}
	return nil
}

// keyOf is the key of a table before the log describes it.
func (p *planner) keyOf(t *catalog.Table) ([]string, error) {
	if stored, ok := p.stored[t.QualifiedName()]; ok {
		return parseNames(stored.KeyColumns)
	}
	key, err := catalog.KeyFor(t, p.filter.key(t.Schema, t.Name), p.ops)
	if err != nil {
		return nil, connectors.Block(err)
	}
	return key, nil
}

// columnsOf are the columns of a table that the publication publishes, nil where that is not known.
func (p *planner) columnsOf(ctx context.Context, oid uint32) ([]string, error) {
	if p.publication == nil {
		return nil, nil
	}
	pub, err := p.publication(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range pub.Tables {
		if t.OID == oid {
			return t.Columns, nil
		}
	}
	return nil, nil
}

// tableView is the set as of the boundary last handed out, for other goroutines.
type tableView struct {
	mu     sync.Mutex
	set    tableSet
	tables map[string]uint32 // captured tables: OIDs by name
	stored map[string]offsets.TableState
}

func (v *tableView) read() (set tableSet, tables map[string]uint32, stored map[string]offsets.TableState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.set, v.tables, v.stored
}

// show publishes the planner's set, where something changed since it last did.
func (v *tableView) show(p *planner) {
	if !p.setChanged {
		return
	}
	p.setChanged = false
	tables, stored := make(map[string]uint32, len(p.names)), make(map[string]offsets.TableState, len(p.stored))
	for name, oid := range p.names {
		if k := p.tables[oid]; k != nil && k.table != nil {
			tables[name] = oid
		}
	}
	for name, state := range p.stored {
		stored[name] = state
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.set, v.tables, v.stored = p.set, tables, stored
}
