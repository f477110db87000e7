package postgres

import (
	"context"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// SetOf reads a stream's table set from its stored entries: the names that were added to the configured lists and removed
// from them. Version 0 is the lists alone.
func SetOf(server string, stored []offsets.Entry) (version int64, added, removed []string, err error) {
	s, err := readSet(server, stored)
	return s.version, s.added, s.removed, err
}

// CapturedTable is a table of the set as the database has it now.
type CapturedTable struct {
	Table     *schema.Table // with ID, namespace and name alone
	Key       []string
	Published bool   // the publication has it
	Problem   string // why a start would refuse it
}

// CapturedTables lists the tables of the set that the stored entries name. It changes nothing.
func CapturedTables(ctx context.Context, cfg connectors.Config, server string, stored []offsets.Entry) ([]CapturedTable, error) {
	set, err := newSettings(cfg)
	if err != nil {
		return nil, err
	}
	o := &opening{set: set}
	if o.tables, err = readSet(server, stored); err != nil {
		return nil, err
	}
	if o.sql, err = catalog.Connect(ctx, set.conn); err != nil {
		return nil, err
	}
	defer o.abandon(ctx)
	if err := o.selectTables(ctx); err != nil {
		return nil, err
	}
	published := make(map[uint32]bool, len(o.pub.Tables))
	for _, t := range o.pub.Tables {
		published[t.OID] = true
	}
	out := make([]CapturedTable, len(o.captured))
	for i, t := range o.captured {
		out[i] = CapturedTable{Table: &schema.Table{ID: uint64(t.OID), Database: set.conn.Database, Namespace: t.Schema, Name: t.Name}, Published: published[t.OID]}
		if out[i].Key, err = catalog.KeyFor(t, set.filter.key(t.Schema, t.Name), o.operations()); err != nil {
			out[i].Problem = err.Error()
		}
	}
	return out, nil
}
