// Package shop is the traffic of the demo: a small shop's database with live inserts, updates and
// deletes, one transaction that updates one row thousands of times, and one that inserts very many rows.
package shop

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// What the demo does and its judge expects.
const (
	HotUpdates = 8_000   // updates of one row, in one transaction: v = 1 … HotUpdates
	BulkRows   = 200_000 // rows of one transaction
	HotID      = 1       // key of the hot row

	HotTable  = "flash_sale"
	BulkTable = "price_list"

	customers = 200
	products  = 300
)

// Tables are the shop's tables, in the order of the publication.
func Tables() []string {
	return []string{"customers", "orders", "order_lines", "stock", HotTable, BulkTable}
}

// Shop is one shop in one schema of a database.
type Shop struct {
	Schema string
}

// Table returns the quoted, qualified name of a table.
func (s Shop) Table(name string) string { return pgx.Identifier{s.Schema, name}.Sanitize() }

// sql puts qualified names in the place of {table}.
func (s Shop) sql(text string) string {
	for _, t := range Tables() {
		text = strings.ReplaceAll(text, "{"+t+"}", s.Table(t))
	}
	return text
}

const definition = `
CREATE TABLE {customers} (id bigint PRIMARY KEY, name text NOT NULL, email text NOT NULL, city text, since timestamptz NOT NULL DEFAULT now());
CREATE TABLE {orders} (id bigint PRIMARY KEY, customer_id bigint NOT NULL, status text NOT NULL, total numeric(12,2) NOT NULL, placed_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE {order_lines} (order_id bigint, line int, product_id bigint NOT NULL, quantity int NOT NULL, price numeric(10,2) NOT NULL, PRIMARY KEY (order_id, line));
CREATE TABLE {stock} (product_id bigint PRIMARY KEY, name text NOT NULL, quantity int NOT NULL, counted_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE {flash_sale} (id int PRIMARY KEY, v int NOT NULL);
CREATE TABLE {price_list} (id bigint PRIMARY KEY, sku text NOT NULL, price numeric(10,2) NOT NULL, valid_from timestamptz NOT NULL);
`

// Install makes the schema, the tables and the rows that are there before the stream begins, the hot
// row among them.
func (s Shop) Install(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, text := range []string{
			"CREATE SCHEMA " + pgx.Identifier{s.Schema}.Sanitize(),
			s.sql(definition),
			s.sql(fmt.Sprintf("INSERT INTO {customers} SELECT i, 'Customer ' || i, 'c' || i || '@example.com', 'Utrecht' FROM generate_series(1, %d) i", customers)),
			s.sql(fmt.Sprintf("INSERT INTO {stock} SELECT i, 'Product ' || i, 1000 FROM generate_series(1, %d) i", products)),
			s.sql(fmt.Sprintf("INSERT INTO {flash_sale} VALUES (%d, 0)", HotID)),
		} {
			if _, err := tx.Exec(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make the shop's tables in schema %s: %w", s.Schema, err)
	}
	return nil
}

// Remove drops the schema.
func (s Shop) Remove(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{s.Schema}.Sanitize()+" CASCADE")
	return err
}

// Hot updates one row HotUpdates times in one transaction.
func (s Shop) Hot(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, s.sql(fmt.Sprintf(
		"DO $$ BEGIN FOR i IN 1..%d LOOP UPDATE {flash_sale} SET v = i WHERE id = %d; END LOOP; END $$", HotUpdates, HotID)))
	if err != nil {
		return fmt.Errorf("update one row %d times: %w", HotUpdates, err)
	}
	return nil
}

// Bulk inserts BulkRows rows in one transaction; round, from 0, keeps the keys of several apart.
func (s Shop) Bulk(ctx context.Context, conn *pgx.Conn, round int) error {
	_, err := conn.Exec(ctx, s.sql(fmt.Sprintf(
		"INSERT INTO {price_list} SELECT i, 'SKU-' || i, (i %% 10000)::numeric / 100, now() FROM generate_series(%d, %d) i",
		round*BulkRows+1, (round+1)*BulkRows)))
	if err != nil {
		return fmt.Errorf("insert %d rows in one transaction: %w", BulkRows, err)
	}
	return nil
}
