package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

const (
	database       = "bench"
	publication    = "bench"
	template       = "bench_template" // the slot all others are copies of
	perTransaction = 1000
)

// bench is a running set of servers.
type bench struct {
	options
	env      *env.Env
	pg       *env.Postgres
	kafka    *env.Kafka
	registry *env.Registry
	broker   int // its pid
	sql      *pgx.Conn
	dir      string // for configuration files

	before   string // LSN between the last transaction but one and the last
	end      string // LSN after the last commit
	walBytes int64
	runs     int
}

// setUp starts the servers, all of them this process's own. The caller closes them.
func setUp(ctx context.Context, o options) (b *bench, err error) {
	b = &bench{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.env, err = env.Start(ctx, env.Options{Alone: true}); err != nil {
		return b, err
	}
	if b.dir, err = os.MkdirTemp("", "tidemark-bench-"); err != nil {
		return b, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		b.pg, err = b.env.StartPostgres(gctx, o.major, env.PostgresOptions{Fsync: true, Settings: map[string]string{
			"max_wal_size": "8GB", "checkpoint_timeout": "1h", "autovacuum": "off", "max_slot_wal_keep_size": "-1",
		}})
		return err
	})
	g.Go(func() (err error) { b.kafka, err = b.env.OpenKafka(gctx); return err })
	g.Go(func() (err error) { b.registry, err = b.env.OpenRegistry(gctx); return err })
	if err = g.Wait(); err != nil {
		return b, err
	}
	if b.broker, err = readPid(filepath.Join(b.kafka.Dir, "pid")); err != nil {
		return b, err
	}
	if err = b.pg.Exec(ctx, "postgres", "CREATE DATABASE "+database); err != nil {
		return b, err
	}
	b.sql, err = pgx.Connect(ctx, b.pg.SocketURL(database))
	return b, err
}

func (b *bench) close() error {
	var err error
	if b.sql != nil {
		err = b.sql.Close(context.Background())
	}
	if b.env != nil {
		err = errors.Join(err, b.env.Close())
	}
	if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return err
}

// load makes the slot, then the rows.
func (b *bench) load(ctx context.Context) error {
	const insert = `INSERT INTO orders SELECT i, rpad(md5(i::text), 30, 'x'), (i * 7919 %% 100000)::int,
		'2026-03-01 00:00:00.123456+00'::timestamptz + i * interval '1 second 7 microseconds', (i %% 100000000)::numeric / 100
		FROM generate_series(%s) i`
	bulk := fmt.Sprintf("DO $$ BEGIN FOR n IN 0..%d LOOP "+insert+"; COMMIT; END LOOP; END $$",
		b.rows/perTransaction-2, "(n * 1000 + 1)::bigint, (n * 1000 + 1000)::bigint")
	last := fmt.Sprintf(insert, fmt.Sprintf("%d::bigint, %d::bigint", b.rows-perTransaction+1, b.rows))
	for _, s := range []string{
		"CREATE TABLE orders (id bigint PRIMARY KEY, customer text, quantity int, at timestamptz, price numeric(12,2))",
		"CREATE PUBLICATION " + publication + " FOR TABLE orders",
		"SELECT pg_create_logical_replication_slot('" + template + "', 'pgoutput')",
		bulk,
	} {
		if _, err := b.sql.Exec(ctx, s); err != nil {
			return fmt.Errorf("load: %w", err)
		}
	}
	if err := b.sql.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&b.before); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if _, err := b.sql.Exec(ctx, last); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	const end = "SELECT pg_current_wal_insert_lsn()::text, (pg_current_wal_insert_lsn() - confirmed_flush_lsn)::bigint FROM pg_replication_slots WHERE slot_name = $1"
	if err := b.sql.QueryRow(ctx, end, template).Scan(&b.end, &b.walBytes); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	// What was written is on disk before anything is measured.
	_, err := b.sql.Exec(ctx, "CHECKPOINT")
	return err
}

// newSlot copies the template; drop removes the copy.
func (b *bench) newSlot(ctx context.Context) (name string, drop func() error, err error) {
	b.runs++
	name = "bench_" + strconv.Itoa(b.runs)
	if _, err := b.sql.Exec(ctx, "SELECT pg_copy_logical_replication_slot($1, $2)", template, name); err != nil {
		return "", nil, fmt.Errorf("copy the slot: %w", err)
	}
	return name, func() error {
		ctx := context.WithoutCancel(ctx)
		for {
			var active bool
			if err := b.sql.QueryRow(ctx, "SELECT active FROM pg_replication_slots WHERE slot_name = $1", name).Scan(&active); err != nil {
				return err
			}
			if !active {
				_, err := b.sql.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name)
				return err
			}
			pause(ctx)
		}
	}, nil
}

// walsender waits for the process that serves a slot.
func (b *bench) walsender(ctx context.Context, slot string) int {
	for ctx.Err() == nil {
		var pid int
		err := b.sql.QueryRow(ctx, "SELECT coalesce(active_pid, 0) FROM pg_replication_slots WHERE slot_name = $1", slot).Scan(&pid)
		if err != nil || pid > 0 {
			return pid
		}
		pause(ctx)
	}
	return 0
}
