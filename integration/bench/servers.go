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
	database    = "bench"
	publication = "bench"
	template    = "bench_template" // the slot all others are copies of
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
	runs     int
}

// setUp starts the servers, all of them this process's own, unless the room is missing for the bytes a bench writes and the
// memory it needs besides them. The caller closes them.
func setUp(ctx context.Context, o options, data, memory int64) (b *bench, err error) {
	b = &bench{options: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if err = checkRoom(data, memory); err != nil {
		return b, err
	}
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
	b.sql, err = b.connect(ctx)
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

// connect opens a session over the unix socket, for what is not measured.
func (b *bench) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, b.pg.SocketURL(database))
}

// exec runs statements, what says for whom.
func (b *bench) exec(ctx context.Context, what string, statements ...string) error {
	for _, s := range statements {
		if _, err := b.sql.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}

// host is where both sides connect to, as -transport says.
func (b *bench) host() string {
	if b.transport == "tcp" {
		return b.pg.Host()
	}
	return b.pg.SocketDir()
}

// newSlot names a slot, made by the program that is measured, or here as a copy of another; drop removes it.
func (b *bench) newSlot(ctx context.Context, copyOf string) (name string, drop func() error, err error) {
	b.runs++
	name = "bench_" + strconv.Itoa(b.runs)
	if copyOf != "" {
		if _, err := b.sql.Exec(ctx, "SELECT pg_copy_logical_replication_slot($1, $2)", copyOf, name); err != nil {
			return "", nil, fmt.Errorf("copy the slot: %w", err)
		}
	}
	return name, func() error { return b.dropSlot(context.WithoutCancel(ctx), name) }, nil
}

// dropSlot drops a slot, if it is there, as soon as nobody uses it.
func (b *bench) dropSlot(ctx context.Context, name string) error {
	for {
		var active bool
		err := b.sql.QueryRow(ctx, "SELECT active FROM pg_replication_slots WHERE slot_name = $1", name).Scan(&active)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if !active {
			_, err := b.sql.Exec(ctx, "SELECT pg_drop_replication_slot($1)", name)
			return err
		}
		pause(ctx)
	}
}

// walsender waits for the process that serves a slot, in a session of its own.
func (b *bench) walsender(ctx context.Context, slot string) int {
	sql, err := b.connect(ctx)
	if err != nil {
		return 0
	}
	defer sql.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		var pid int
		err := sql.QueryRow(ctx, "SELECT coalesce(active_pid, 0) FROM pg_replication_slots WHERE slot_name = $1", slot).Scan(&pid)
		if err == nil && pid > 0 {
			return pid
		}
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return 0
		}
		pause(ctx)
	}
	return 0
}
