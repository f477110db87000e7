package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// PageColumn is a column to read a table in the order of, as the server orders it: by the default order of its type.
type PageColumn struct {
	Name      string
	Expr      string // the column as SQL compares it: as the type below its domain
	TypeOID   uint32 // the type below a domain
	NotNull   bool
	Collation string // quoted as SQL takes it, empty where the type has none
	// Schema is where the order's operators are, quoted. The search path does not have that of an extension, and where it has
	// none of a type's own (citext), the server takes another type's (text), which orders otherwise.
	Schema                string
	Less, Equal, Greater  string
	LessEqual, GreatEqual string
}

// PageColumns reads columns of a table, in the order of names; those the table does not have are absent.
func PageColumns(ctx context.Context, conn *pgx.Conn, oid uint32, names []string) ([]PageColumn, error) {
	rows, err := conn.Query(ctx, pageQuery, oid, names)
	if err == nil {
		var columns []PageColumn
		if columns, err = pgx.CollectRows(rows, pgx.RowToStructByPos[PageColumn]); err == nil {
			return columns, nil
		}
	}
	return nil, fmt.Errorf("read the order of columns from the catalogue: %w", err)
}

const pageQuery = `
WITH RECURSIVE base(n, name, declared, typ, coll, filled) AS (
	SELECT k.n, a.attname::text, a.atttypid, a.atttypid, a.attcollation, a.attnotnull
	  FROM unnest($2::text[]) WITH ORDINALITY k(name, n)
	  JOIN pg_attribute a ON a.attrelid = $1 AND a.attname::text = k.name AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL
	SELECT b.n, b.name, b.declared, t.typbasetype, b.coll, b.filled FROM base b JOIN pg_type t ON t.oid = b.typ WHERE t.typtype = 'd')
SELECT b.name, quote_ident(b.name) || CASE WHEN b.typ = b.declared THEN '' ELSE '::' || format_type(b.typ, -1) END, b.typ, b.filled,
       CASE WHEN b.coll = 0 THEN '' ELSE (SELECT quote_ident(n.nspname) || '.' || quote_ident(c.collname)
          FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = b.coll) END,
       coalesce(o.schema, 'pg_catalog'), coalesce(o.names[1], '<'), coalesce(o.names[3], '='), coalesce(o.names[5], '>'),
       coalesce(o.names[2], '<='), coalesce(o.names[4], '>=')
  FROM base b JOIN pg_type t ON t.oid = b.typ AND t.typtype <> 'd'
  LEFT JOIN pg_opclass k ON k.opcintype = b.typ AND k.opcdefault AND k.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree')
  LEFT JOIN LATERAL (
	SELECT min(quote_ident(n.nspname)) AS schema, array_agg(p.oprname::text ORDER BY m.amopstrategy) AS names
	  FROM pg_amop m JOIN pg_operator p ON p.oid = m.amopopr JOIN pg_namespace n ON n.oid = p.oprnamespace
	 WHERE m.amopfamily = k.opcfamily AND m.amoplefttype = b.typ AND m.amoprighttype = b.typ AND m.amopstrategy BETWEEN 1 AND 5
	HAVING count(*) = 5) o ON true
 ORDER BY b.n`

// Unique reports whether a unique index keeps rows from sharing values of the columns.
func Unique(ctx context.Context, conn *pgx.Conn, oid uint32, columns []string) (bool, error) {
	rows, err := conn.Query(ctx, `
SELECT array(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(num, n)
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num WHERE k.n <= i.indnkeyatts)
  FROM pg_index i
 WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL`, oid)
	if err != nil {
		return false, fmt.Errorf("read the indexes of a table: %w", err)
	}
	indexes, err := pgx.CollectRows(rows, pgx.RowTo[[]string])
	if err != nil {
		return false, fmt.Errorf("read the indexes of a table: %w", err)
	}
	return slices.ContainsFunc(indexes, func(index []string) bool {
		return !slices.ContainsFunc(index, func(c string) bool { return !slices.Contains(columns, c) })
	}), nil
}

// Fingerprint changes whenever a table or its columns are altered.
func Fingerprint(ctx context.Context, conn *pgx.Conn, oid uint32) (text string, err error) {
	err = conn.QueryRow(ctx, `
SELECT coalesce((SELECT c.xmin::text || ' ' || (SELECT string_agg(a.xmin::text, ',' ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0)
                   FROM pg_class c WHERE c.oid = $1), '')`, oid).Scan(&text)
	if err != nil {
		return "", fmt.Errorf("read a table from the catalogue: %w", err)
	}
	return text, nil
}

// EstimateRows is the planner's estimate of a table's rows, of a partitioned one its leaves' together; -1 where there is none.
func EstimateRows(ctx context.Context, conn *pgx.Conn, t *Table) (int64, error) {
	oids := []uint32{t.OID}
	if t.Kind == 'p' {
		oids = nil
		for _, l := range t.Leaves {
			oids = append(oids, l.OID)
		}
	}
	var rows int64
	// Before the first vacuum or analyze reltuples is -1; what the files hold is not known then.
	err := conn.QueryRow(ctx, `
SELECT CASE WHEN bool_or(reltuples < 0) THEN -1 ELSE coalesce(sum(reltuples), 0) END::bigint FROM pg_class WHERE oid = ANY($1::oid[])`, oids).Scan(&rows)
	if err != nil {
		return 0, fmt.Errorf("read the estimate of a table's rows: %w", err)
	}
	return rows, nil
}

// Rewritten is an expression in SQL: whether a table, or a partition of it, has other files than the snapshot of the
// transaction knows. Such a snapshot finds the table empty. The table must be locked, so that it stays as it is.
func Rewritten(oid uint32) string {
	return fmt.Sprintf(`WITH RECURSIVE tree(oid) AS (SELECT %d::oid UNION ALL SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid)
SELECT coalesce(bool_or(c.relfilenode <> pg_relation_filenode(c.oid)), false) FROM tree t JOIN pg_class c ON c.oid = t.oid WHERE c.relkind = 'r'`, oid)
}
