package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
)

const (
	database    = "dbz_golden"
	publication = "golden"
	ownSlot     = "dbz_golden_own"
)

// statements splits a script at semicolons that end a line; comments are lines of their own.
func (r *recorder) statements(name string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, l := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(l, "--") {
			lines = append(lines, l)
		}
	}
	var out []string
	for _, s := range strings.Split(strings.Join(lines, "\n"), ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out, nil
}

func (r *recorder) script(ctx context.Context, conn *pgx.Conn, name string) error {
	list, err := r.statements(name)
	if err != nil {
		return err
	}
	for _, s := range list {
		if _, err := conn.PgConn().Exec(ctx, s).ReadAll(); err != nil {
			return fmt.Errorf("%s: %.80s: %w", name, s, err)
		}
	}
	return nil
}

// prepare makes the database and the slot of our own; the connection has the settings that our decoders expect.
func (r *recorder) prepare(ctx context.Context) (conn *pgx.Conn, err error) {
	admin, err := pgx.Connect(ctx, r.pg)
	if err != nil {
		return nil, err
	}
	defer admin.Close(ctx)
	for _, s := range []string{
		"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '" + database + "'",
		"DROP DATABASE IF EXISTS " + database + " WITH (FORCE)",
		"CREATE DATABASE " + database + " TEMPLATE template0 ENCODING 'UTF8'",
	} {
		if _, err := admin.Exec(ctx, s); err != nil {
			return nil, err
		}
	}
	u, err := url.Parse(r.pg)
	if err != nil {
		return nil, err
	}
	u.Path = "/" + database
	q := u.Query()
	for k, v := range map[string]string{"datestyle": "ISO", "intervalstyle": "postgres", "timezone": "UTC", "extra_float_digits": "3", "bytea_output": "hex", "lc_monetary": "C"} {
		q.Set(k, v)
	}
	u.RawQuery = q.Encode()
	if conn, err = pgx.Connect(ctx, u.String()); err != nil {
		return nil, err
	}
	if err := r.script(ctx, conn, "setup.sql"); err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", ownSlot)
	return conn, err
}

// awaitSlots waits until every connector streams.
func (r *recorder) awaitSlots(ctx context.Context, conn *pgx.Conn, n int) error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		var active int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND active").Scan(&active); err != nil {
			return err
		}
		if active == n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d connectors stream", active, n)
		}
	}
}

// wal writes our slot's messages: a line each, the LSN as XLogData would carry it, then the message in hex.
func (r *recorder) wal(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `SELECT lsn::text || ' ' || encode(data, 'hex') FROM pg_logical_slot_get_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', $2, 'messages', 'true')`, ownSlot, publication)
	if err != nil {
		return err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return r.write("pgoutput.hex", strings.Join(lines, "\n")+"\n")
}

// catalogue writes the tables and types as the connector reads them.
func (r *recorder) catalogue(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname")
	if err != nil {
		return err
	}
	oids, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	if err != nil {
		return err
	}
	tables, err := catalog.ReadTables(ctx, conn, oids...)
	if err != nil {
		return err
	}
	var types []uint32
	for _, t := range tables {
		for _, c := range t.Columns {
			types = append(types, c.TypeOID)
		}
	}
	set := catalog.TypeSet{}
	if err := set.Load(ctx, conn, types...); err != nil {
		return err
	}
	b, err := json.MarshalIndent(map[string]any{"tables": tables, "types": set}, "", " ")
	if err != nil {
		return err
	}
	return r.write("catalogue.json", string(b)+"\n")
}

func (r *recorder) write(name, text string) error {
	return os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644)
}
