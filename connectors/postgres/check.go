package postgres

import (
	"context"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Check looks at the configuration and at the server and returns every problem at once; it changes nothing.
// hasOffsets tells that the stream has stored offsets: its slot must then exist.
func Check(ctx context.Context, cfg connectors.Config, hasOffsets bool) []connectors.Problem {
	set, err := newSettings(cfg)
	if err != nil {
		return []connectors.Problem{{Message: err.Error()}}
	}
	return catalog.Check(ctx, catalog.CheckConfig{
		Conn: set.conn, Slot: set.slot, Failover: set.failover, HasOffsets: hasOffsets, Publication: set.publication,
		Captured: set.filter.table, Include: set.filter.selectors(), Members: set.filter.members(), KeyColumns: set.filter.key,
	})
}

// Tables returns the captured tables as a start would plan them, for checks of what is made of them, and what is
// wrong with any that Check does not tell. It changes nothing; tables without a usable key are left out.
func Tables(ctx context.Context, cfg connectors.Config) (tables []*schema.Table, problems []connectors.Problem, err error) {
	set, err := newSettings(cfg)
	if err != nil {
		return nil, nil, err
	}
	o := &opening{set: set}
	if o.sql, err = catalog.Connect(ctx, set.conn); err != nil {
		return nil, nil, err
	}
	defer o.abandon(ctx)
	if err := o.selectTables(ctx); err != nil {
		return nil, nil, err
	}
	plans, _, columns, err := o.planner(ctx)
	if err != nil {
		return nil, nil, err
	}
	problems = o.snapshotProblems(ctx)
	for _, t := range o.captured {
		key, err := catalog.KeyFor(t, set.filter.key(t.Schema, t.Name), o.operations())
		if err != nil {
			continue
		}
		if err := o.readable(ctx, t); err != nil {
			problems = append(problems, connectors.Problem{Property: propUnavailable, Message: err.Error()})
		}
		table, err := plans.seed(ctx, t, key, columns[t.OID])
		if err != nil {
			problems = append(problems, connectors.Problem{Message: err.Error()})
			continue
		}
		tables = append(tables, table)
	}
	return tables, problems, nil
}

// snapshotProblems says what keeps the rows of tables from being read, each problem on its own.
func (o *opening) snapshotProblems(ctx context.Context) []connectors.Problem {
	problems := o.set.snapshot.unknownTables(qualifiedNames(o.captured))
	if !o.set.snapshot.mode.reads() {
		return problems
	}
	unreadable, err := o.unreadable(ctx)
	if err != nil {
		return append(problems, connectors.Problem{Property: propSnapshotMode, Message: err.Error()})
	}
	if len(unreadable) > 0 {
		problems = append(problems, connectors.Problem{Property: propSnapshotMode, Message: o.unreadableError(unreadable).Error()})
	}
	return append(problems, o.overrideProblems(ctx)...)
}
