package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/schema"
)

// maxReselect bounds the rows that are read again for one batch: each may be large.
const maxReselect = 64

// incomplete is a change whose new row lacks values that the log did not carry.
type incomplete struct {
	change int // index in the batch
	rel    *relation
	key    [][]byte // as text, in key order
}

// noteIncomplete remembers the change just added if its row is to be completed from the table.
func (a *assembler) noteIncomplete(rel *relation, m *pgoutput.Update) {
	last := len(a.changes) - 1
	for n := len(a.incomplete); n > 0 && a.incomplete[n-1].change >= last; n-- {
		a.incomplete = a.incomplete[:n-1] // of an attempt that was taken back
	}
	if !a.reselect || last < 0 || len(rel.key) == 0 || len(unavailable(a.changes[last].After)) == 0 {
		return
	}
	key := make([][]byte, len(rel.key))
	for i, k := range rel.key {
		v := &m.New.Columns[k]
		if v.Kind == pgoutput.ColumnUnchanged && m.OldKind != pgoutput.OldNone {
			v = &m.Old.Columns[k]
		}
		if v.Kind != pgoutput.ColumnText {
			return
		}
		key[i] = v.Data
	}
	a.incomplete = append(a.incomplete, incomplete{change: last, rel: rel, key: key})
}

func unavailable(row schema.Row) (at []int) {
	for i := range row {
		if row[i].Kind == schema.KindUnavailable {
			at = append(at, i)
		}
	}
	return at
}

// handOut completes the batch's rows where that is configured. What a row has now may be newer than the change; a row or
// column that is gone stays unavailable.
func (s *stream) handOut(ctx context.Context, b connectors.Batch) (connectors.Batch, error) {
	if len(s.asm.incomplete) == 0 {
		return b, nil
	}
	err := s.sentinel.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		for i := range s.asm.incomplete {
			if err := s.asm.complete(ctx, conn.PgConn(), &s.asm.incomplete[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return b, err
}

// complete reads the missing columns of one row by its key.
func (a *assembler) complete(ctx context.Context, conn *pgconn.PgConn, c *incomplete) error {
	row := a.changes[c.change].After
	missing := unavailable(row)
	var query strings.Builder
	query.WriteString("SELECT ")
	for i, at := range missing {
		if i > 0 {
			query.WriteString(", ")
		}
		query.WriteString(pgx.Identifier{c.rel.table.Columns[at].Name}.Sanitize())
	}
	query.WriteString(" FROM " + pgx.Identifier{c.rel.table.Namespace, c.rel.table.Name}.Sanitize() + " WHERE ")
	for i, k := range c.rel.key {
		if i > 0 {
			query.WriteString(" AND ")
		}
		fmt.Fprintf(&query, "%s = $%d", pgx.Identifier{c.rel.columns[k].name}.Sanitize(), i+1)
	}
	result := conn.ExecParams(ctx, query.String(), c.key, nil, nil, nil).Read()
	if result.Err != nil {
		return reselectError(c.rel.name, result.Err)
	}
	if len(result.Rows) != 1 {
		return nil // deleted since, or no key after all
	}
	for i, at := range missing {
		text := result.Rows[0][i]
		if text == nil {
			row[at] = schema.Null()
			continue
		}
		if v, err := decoderOf(c.rel, at)(&a.arena, text); err == nil { // else of another type by now
			row[at] = v
		}
	}
	return nil
}

func decoderOf(rel *relation, at int) func(*values.Arena, []byte) (schema.Value, error) {
	for i := range rel.columns {
		if rel.columns[i].at == at {
			return rel.columns[i].decode
		}
	}
	return func(*values.Arena, []byte) (schema.Value, error) { return schema.Value{}, errors.New("no such column") }
}

// reselectError is nil where the table has changed since: then there is nothing to read.
func reselectError(table string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "42P01", "3F000", "42703", "42883", "22P02", "22003", "22007", "22008": // no table, schema, column, operator; a key of another type
			return nil
		case "42501":
			return connectors.WithClass(connectors.ClassWait, fmt.Errorf("%s=reselect: the role may not read table %s: GRANT SELECT ON it, or set %s=mark", propUnavailable, table, propUnavailable))
		}
	}
	return fmt.Errorf("read unavailable values of table %s: %w", table, err)
}

// readable returns why values cannot be read from a table where that is configured.
func (o *opening) readable(ctx context.Context, t *catalog.Table) error {
	if !o.set.reselect {
		return nil
	}
	var may bool
	if err := o.sql.QueryRow(ctx, "SELECT has_schema_privilege($1, 'USAGE') AND has_table_privilege($2::oid, 'SELECT')", t.Schema, t.OID).Scan(&may); err != nil {
		return fmt.Errorf("read the role's rights on table %s: %w", t.QualifiedName(), err)
	}
	if !may {
		return fmt.Errorf("reselect needs to read table %s, which the role may not: GRANT SELECT ON %s TO the role, or set it to mark", t.QualifiedName(), t.Quoted())
	}
	return nil
}
