package env

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Database is a database of its own for one test.
type Database struct {
	Server *Postgres
	Name   string
}

// NewDatabase creates a database with a unique name. When the test ends its sessions are ended, its slots and itself dropped.
func (p *Postgres) NewDatabase(t testing.TB) *Database {
	t.Helper()
	d := &Database{Server: p, Name: Unique("db_")}
	if err := p.Exec(t.Context(), "postgres", "CREATE DATABASE "+d.Name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		// A private server that the test stopped takes its databases along.
		if err := d.drop(ctx); err != nil && !p.private {
			t.Errorf("drop database %s: %v", d.Name, err)
		}
	})
	return d
}

// URL connects the superuser over TCP.
func (d *Database) URL() string { return d.Server.URL(d.Name) }

// SocketURL connects the superuser over the unix socket.
func (d *Database) SocketURL() string { return d.Server.SocketURL(d.Name) }

// Exec runs each statement as the superuser, on one connection.
func (d *Database) Exec(ctx context.Context, statements ...string) error {
	return d.Server.Exec(ctx, d.Name, statements...)
}

// Connect opens a superuser's session, closed when the test ends.
func (d *Database) Connect(t testing.TB) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// Exec runs each statement in a database as the superuser, on one connection.
func (p *Postgres) Exec(ctx context.Context, database string, statements ...string) error {
	c, err := pgx.Connect(ctx, p.URL(database))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// drop removes the database's slots, which would hold it, and the database.
func (d *Database) drop(ctx context.Context) error {
	c, err := pgx.Connect(ctx, d.Server.URL("postgres"))
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	const end = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1`
	const free = `SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE database = $1 AND NOT active`
	const left = `SELECT count(*) FROM pg_replication_slots WHERE database = $1`
	var last error
	err = waitFor(ctx, "its slots' release", func() bool {
		for _, q := range []string{end, free} {
			if _, last = c.Exec(ctx, q, d.Name); last != nil {
				return false
			}
		}
		var n int
		last = c.QueryRow(ctx, left, d.Name).Scan(&n)
		return last == nil && n == 0
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", err, errors.Join(last))
	}
	_, err = c.Exec(ctx, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", d.Name))
	return err
}
