package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// File is a relation with rows of its own, as a snapshot has it.
type File struct {
	TableRef
	Root uint32 // the table it belongs to: itself, or the partitioned table it is a leaf of
	File uint32 // relfilenode
	Rows int64  // estimate, -1: unknown
}

// Quoted returns the name as SQL takes it.
func (f File) Quoted() string { return pgx.Identifier{f.Schema, f.Name}.Sanitize() }

// ReadFiles reads the relations that hold the rows of plain tables and of partitioned ones, as of the snapshot of the
// transaction that conn is in. It takes no locks. A partitioned table that is read as a whole counts as plain.
func ReadFiles(ctx context.Context, conn *pgx.Conn, plain, roots []uint32) ([]File, error) {
	rows, err := conn.Query(ctx, `
WITH RECURSIVE tree(root, oid) AS (
	SELECT r.oid, r.oid FROM unnest($2::oid[]) r(oid)
	UNION ALL SELECT t.root, i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid),
wanted(root, oid) AS (
	SELECT t.root, t.oid FROM tree t JOIN pg_class c ON c.oid = t.oid WHERE t.oid <> t.root AND c.relkind <> 'p'
	UNION ALL SELECT p.oid, p.oid FROM unnest($1::oid[]) p(oid))
SELECT c.oid, n.nspname::text, c.relname::text, w.root, c.relfilenode, c.reltuples::bigint
  FROM wanted w JOIN pg_class c ON c.oid = w.oid JOIN pg_namespace n ON n.oid = c.relnamespace
 ORDER BY c.relpages DESC, n.nspname::text COLLATE "C", c.relname::text COLLATE "C"`, plain, roots)
	if err != nil {
		return nil, fmt.Errorf("read the files of tables: %w", err)
	}
	files, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (File, error) {
		var f File
		err := row.Scan(&f.OID, &f.Schema, &f.Name, &f.Root, &f.File, &f.Rows)
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the files of tables: %w", err)
	}
	return files, nil
}
