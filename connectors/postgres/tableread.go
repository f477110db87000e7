package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/schema"
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// tableRead reads the rows of a table as the stream would decode them: the same columns, the same
// text output under the same session settings, the same decoders.
type tableRead struct {
	plan  *relation
	table *schema.Table
	sql   string
	arena values.Arena
	row   schema.Row
}

// newTableRead reads the columns that a seeded table has. where is a condition in SQL, empty for
// all rows; order is an order in SQL, empty for none.
func newTableRead(k *known, t *catalog.Table, where, order string) *tableRead {
	var columns []string
	for i := range k.plan.columns {
		if c := &k.plan.columns[i]; c.at >= 0 {
			columns = append(columns, pgx.Identifier{c.name}.Sanitize())
		}
	}
	only := "ONLY "
	if t.Kind == 'p' {
		only = "" // the rows are in the partitions
	}
	sql := "SELECT " + strings.Join(columns, ", ") + " FROM " + only + t.Quoted()
	if where != "" {
		sql += " WHERE " + where
	}
	if order != "" {
		sql += " ORDER BY " + order
	}
	return &tableRead{plan: k.plan, table: k.table, sql: sql, row: make(schema.Row, len(k.table.Columns))}
}

// each calls f for every row. The row is valid until f returns. conn is one of catalog.Connect,
// whose settings the decoders expect. After a values.UnknownLabelError the table is to be planned again
// (planner.relabel) and read again.
func (r *tableRead) each(ctx context.Context, conn querier, f func(schema.Row) error) error {
	rows, err := conn.Query(ctx, r.sql, pgx.QueryExecModeSimpleProtocol) // all results as text
	if err != nil {
		return fmt.Errorf("read table %s: %w", r.plan.name, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := r.decode(rows.RawValues()); err != nil {
			return err
		}
		if err := f(r.row); err != nil {
			return err
		}
		r.arena.Reset()
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read table %s: %w", r.plan.name, err)
	}
	return nil
}

func (r *tableRead) decode(raw [][]byte) error {
	next := 0
	for i := range r.plan.columns {
		c := &r.plan.columns[i]
		if c.at < 0 {
			continue
		}
		data := raw[next]
		next++
		if data == nil {
			r.row[c.at] = schema.Null()
			continue
		}
		v, err := c.decode(&r.arena, data)
		if err != nil {
			return connectors.Block(fmt.Errorf("table %s, column %q of type %s: %w", r.plan.name, c.name, r.table.Columns[c.at].Type.Name, err))
		}
		r.row[c.at] = v
	}
	return nil
}
