//go:build linux || darwin

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/shop"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// database is the PostgreSQL the shop lives in, and the names of what the demo makes there.
type database struct {
	config      *pgx.ConnConfig
	tls         map[string]string // sslmode, sslrootcert, sslcert, sslkey, as in the URL
	shop        shop.Shop
	publication string
	slot        string // the stream's
	judgeSlot   string // made where the stream's was, read at the end
}

// parseDatabase reads --postgres-url. Its errors do not show the password.
func parseDatabase(raw string) (*pgx.ConnConfig, map[string]string, error) {
	cfg, err := pgx.ParseConfig(raw)
	if err != nil {
		// pgx's error shows the URL without what it takes for the password; a mistyped URL may hide it from pgx.
		return nil, nil, errors.New("--postgres-url cannot be read: write postgres://user:password@host:port/database (a special character in a password must be percent-encoded)")
	}
	tls := map[string]string{}
	if u, err := url.Parse(raw); err == nil {
		for _, name := range []string{"sslmode", "sslrootcert", "sslcert", "sslkey"} {
			if v := u.Query().Get(name); v != "" {
				tls[name] = v
			}
		}
	}
	return cfg, tls, nil
}

func (d *database) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, d.config)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL at %s port %d: %w", d.config.Host, d.config.Port, short(err))
	}
	return conn, nil
}

// short is the last line of a connection error, which has one for each address.
func short(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return errors.New(pg.Message)
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	return errors.New(strings.TrimSpace(lines[len(lines)-1]))
}

// check refuses a server that cannot stream, before anything is made there.
func (d *database) check(ctx context.Context, conn *pgx.Conn) error {
	var level string
	var version int
	var mayReplicate bool
	err := conn.QueryRow(ctx, `SELECT current_setting('wal_level'), current_setting('server_version_num')::int,
		(SELECT rolsuper OR rolreplication FROM pg_catalog.pg_roles WHERE rolname = current_user)`).Scan(&level, &version, &mayReplicate)
	switch {
	case err != nil:
		return fmt.Errorf("look at the PostgreSQL server: %w", err)
	case version < 140000:
		return fmt.Errorf("the PostgreSQL server has version %d.%d; the demo needs 14 or later", version/10000, version%10000)
	case level != "logical":
		return fmt.Errorf("the PostgreSQL server has wal_level=%s: set it to logical and restart the server", level)
	case !mayReplicate:
		return fmt.Errorf("the role %s may not replicate: ALTER ROLE %s REPLICATION, or use another role", d.config.User, d.config.User)
	}
	return nil
}

// install makes the shop, the publication, and two slots at one place of the log.
func (d *database) install(ctx context.Context, conn *pgx.Conn) error {
	if err := d.shop.Install(ctx, conn); err != nil {
		return err
	}
	tables := ""
	for i, t := range shop.Tables() {
		if i > 0 {
			tables += ", "
		}
		tables += d.shop.Table(t)
	}
	if _, err := conn.Exec(ctx, "CREATE PUBLICATION "+pgx.Identifier{d.publication}.Sanitize()+" FOR TABLE "+tables); err != nil {
		return fmt.Errorf("make publication %s: %w", d.publication, err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_catalog.pg_create_logical_replication_slot($1, 'pgoutput')", d.slot); err != nil {
		return fmt.Errorf("make slot %s: %w", d.slot, err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_catalog.pg_copy_logical_replication_slot($1, $2)", d.slot, d.judgeSlot); err != nil {
		return fmt.Errorf("copy slot %s: %w", d.slot, err)
	}
	return nil
}

// position is where the log ends now: everything committed before lies before it.
func (d *database) position(ctx context.Context, conn *pgx.Conn) (pgoutput.LSN, error) {
	return scanLSN(conn.QueryRow(ctx, "SELECT pg_catalog.pg_current_wal_insert_lsn()::text"))
}

// confirmed is what the slot was acknowledged up to.
func (d *database) confirmed(ctx context.Context, conn *pgx.Conn) (pgoutput.LSN, error) {
	return scanLSN(conn.QueryRow(ctx, "SELECT confirmed_flush_lsn::text FROM pg_catalog.pg_replication_slots WHERE slot_name = $1", d.slot))
}

func scanLSN(row pgx.Row) (pgoutput.LSN, error) {
	var text string
	if err := row.Scan(&text); err != nil {
		return 0, fmt.Errorf("read a position of the log: %w", err)
	}
	return pgoutput.ParseLSN(text)
}

// remove takes away all that install made; it goes on after an error and returns the first ones.
func (d *database) remove(ctx context.Context) error {
	conn, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var errs []error
	for _, slot := range []string{d.slot, d.judgeSlot} {
		errs = append(errs, dropSlot(ctx, conn, slot))
	}
	if _, err := conn.Exec(ctx, "DROP PUBLICATION IF EXISTS "+pgx.Identifier{d.publication}.Sanitize()); err != nil {
		errs = append(errs, fmt.Errorf("drop publication %s: %w", d.publication, err))
	}
	if err := d.shop.Remove(ctx, conn); err != nil {
		errs = append(errs, fmt.Errorf("drop schema %s: %w", d.shop.Schema, err))
	}
	return errors.Join(errs...)
}

// dropSlot ends the connection that still holds the slot: its owner may have been killed unseen.
func dropSlot(ctx context.Context, conn *pgx.Conn, slot string) error {
	for {
		_, err := conn.Exec(ctx, `SELECT pg_catalog.pg_terminate_backend(active_pid) FROM pg_catalog.pg_replication_slots WHERE slot_name = $1 AND active_pid IS NOT NULL`, slot)
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots WHERE slot_name = $1", slot)
		}
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "55006" { // still in use
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("drop slot %s: %w", slot, err)
		}
		return nil
	}
}
