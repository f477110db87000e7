package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ReadTable reads one table; nil where the OID does not exist.
func ReadTable(ctx context.Context, conn *pgx.Conn, oid uint32) (*Table, error) {
	tables, err := ReadTables(ctx, conn, oid)
	if err != nil || len(tables) == 0 {
		return nil, err
	}
	return tables[0], nil
}

// ReadTables reads tables by OID, sorted by name, from one snapshot; conn must not be in a
// transaction. A table that does not exist is absent.
func ReadTables(ctx context.Context, conn *pgx.Conn, oids ...uint32) ([]*Table, error) {
	if len(oids) == 0 {
		return nil, nil
	}
	var tables []*Table
	err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		tables, err = readWithLeaves(ctx, tx, oids)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tables from the catalogue: %w", err)
	}
	return tables, nil
}

// ReadTableIn is ReadTable on a connection that is in a transaction, of repeatable read at least.
func ReadTableIn(ctx context.Context, conn *pgx.Conn, oid uint32) (*Table, error) {
	tables, err := readWithLeaves(ctx, conn, []uint32{oid})
	if err != nil {
		return nil, fmt.Errorf("read tables from the catalogue: %w", err)
	}
	if len(tables) == 0 {
		return nil, nil
	}
	return tables[0], nil
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func readWithLeaves(ctx context.Context, tx querier, oids []uint32) ([]*Table, error) {
	tables, err := readTables(ctx, tx, oids)
	if err != nil {
		return nil, err
	}
	return tables, readLeaves(ctx, tx, tables)
}

func readTables(ctx context.Context, tx querier, oids []uint32) ([]*Table, error) {
	rows, err := tx.Query(ctx, tableQuery, oids)
	if err != nil {
		return nil, err
	}
	byOID := make(map[uint32]*Table, len(oids))
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Table, error) {
		var t Table
		var kind, identity string
		err := row.Scan(&t.OID, &t.Schema, &t.Name, &kind, &t.Partition, &t.RootOID, &t.Permanent, &identity)
		t.Kind, t.IdentityKind = firstByte(kind), firstByte(identity)
		byOID[t.OID] = &t
		return &t, err
	})
	if err != nil {
		return nil, err
	}
	if err := readColumns(ctx, tx, oids, byOID); err != nil {
		return nil, err
	}
	return tables, readIndexes(ctx, tx, oids, byOID)
}

const tableQuery = `
SELECT c.oid, n.nspname::text, c.relname::text, c.relkind::text, c.relispartition,
       CASE WHEN c.relispartition THEN coalesce(pg_partition_root(c.oid)::oid, 0::oid) ELSE 0::oid END,
       c.relpersistence = 'p', c.relreplident::text
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = ANY($1::oid[]) AND c.relkind IN ('r', 'p')
 ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C"`

// No query here may wait for a lock: a stream would stand still as long as somebody alters a table. Given a table,
// pg_get_expr locks it; a default refers to no column and needs none.
//
// A NOT NULL constraint that is NOT VALID (18) sets attnotnull, but rows before it may be NULL.
const columnQuery = `
SELECT a.attrelid, a.attnum, a.attname::text, a.atttypid, a.atttypmod, format_type(a.atttypid, a.atttypmod),
       a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = a.attrelid AND k.contype = 'n'
                                       AND k.conkey[1] = a.attnum AND NOT k.convalidated),
       a.attgenerated::text, a.attstorage::text,
       CASE WHEN a.attgenerated = '' THEN coalesce(pg_get_expr(d.adbin, 0), '') ELSE '' END
  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = ANY($1::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attrelid, a.attnum`

func readColumns(ctx context.Context, tx querier, oids []uint32, byOID map[uint32]*Table) error {
	rows, err := tx.Query(ctx, columnQuery, oids)
	if err != nil {
		return err
	}
	var oid uint32
	var c Column
	var generated, storage string
	_, err = pgx.ForEachRow(rows, []any{&oid, &c.Num, &c.Name, &c.TypeOID, &c.Typmod, &c.TypeName, &c.NotNull, &generated, &storage, &c.Default}, func() error {
		c.Storage = firstByte(storage)
		c.Generated = firstByte(generated)
		if t := byOID[oid]; t != nil {
			t.Columns = append(t.Columns, c)
		}
		return nil
	})
	return err
}

const indexQuery = `
SELECT i.indrelid, c.relname::text, i.indisprimary, i.indisreplident, i.indimmediate,
       array(SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(num, n)
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num
              WHERE k.n <= i.indnkeyatts ORDER BY k.n)
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
 WHERE i.indrelid = ANY($1::oid[]) AND (i.indisprimary OR i.indisreplident)`

func readIndexes(ctx context.Context, tx querier, oids []uint32, byOID map[uint32]*Table) error {
	rows, err := tx.Query(ctx, indexQuery, oids)
	if err != nil {
		return err
	}
	var oid uint32
	var name string
	var primary, identity, immediate bool
	var columns []string
	_, err = pgx.ForEachRow(rows, []any{&oid, &name, &primary, &identity, &immediate, &columns}, func() error {
		t := byOID[oid]
		if t == nil {
			return nil
		}
		own := append([]string(nil), columns...)
		if primary {
			t.PrimaryKey, t.Deferrable = own, !immediate
		}
		// The server does not log by a deferrable primary key.
		if (primary && t.IdentityKind == 'd' && immediate) || (identity && t.IdentityKind == 'i') {
			t.IdentityColumns = own
		}
		if identity {
			t.IdentityIndex = name
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range byOID {
		if t.IdentityKind != 'f' {
			continue
		}
		for _, c := range t.Columns {
			t.IdentityColumns = append(t.IdentityColumns, c.Name)
		}
	}
	return nil
}

// leafQuery is pg_partition_tree without its locks; a partition that is being detached no longer counts.
const leafQuery = `
WITH RECURSIVE tree(root, oid) AS (
	SELECT r.oid, r.oid FROM unnest($1::oid[]) r(oid)
	UNION ALL SELECT t.root, i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid WHERE NOT i.inhdetachpending)
SELECT t.root, t.oid FROM tree t JOIN pg_class c ON c.oid = t.oid WHERE t.oid <> t.root AND c.relkind <> 'p'`

// readLeaves fills in the leaf partitions of partitioned tables.
func readLeaves(ctx context.Context, tx querier, tables []*Table) error {
	roots := map[uint32]*Table{}
	var oids []uint32
	for _, t := range tables {
		if t.Kind == 'p' {
			roots[t.OID], oids = t, append(oids, t.OID)
		}
	}
	if len(oids) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, leafQuery, oids)
	if err != nil {
		return err
	}
	above := map[uint32][]*Table{}
	var root, leaf uint32
	var leafOIDs []uint32
	if _, err := pgx.ForEachRow(rows, []any{&root, &leaf}, func() error {
		above[leaf] = append(above[leaf], roots[root])
		leafOIDs = append(leafOIDs, leaf)
		return nil
	}); err != nil {
		return err
	}
	leaves, err := readTables(ctx, tx, leafOIDs)
	if err != nil {
		return err
	}
	for _, l := range leaves {
		for _, t := range above[l.OID] {
			t.Leaves = append(t.Leaves, l)
		}
	}
	return nil
}

// ListTables lists every table a publication could carry changes of: permanent tables outside
// the system schemas; with viaRoot partitioned tables stand for their partitions, else only
// the leaves are listed. Sorted by name.
func ListTables(ctx context.Context, conn *pgx.Conn, viaRoot bool) ([]TableRef, error) {
	rows, err := conn.Query(ctx, `
SELECT c.oid, n.nspname::text, c.relname::text
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relpersistence = 'p' AND c.oid >= 16384 AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
   AND CASE WHEN $1 THEN c.relkind IN ('r', 'p') AND NOT c.relispartition ELSE c.relkind = 'r' END
 ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C"`, viaRoot)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	refs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[TableRef])
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	return refs, nil
}
