package env

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Superuser of every PostgreSQL server, and its password.
const (
	Superuser         = "postgres"
	SuperuserPassword = "postgres"
)

// Majors are PostgreSQL's supported major versions, oldest first.
func Majors() []int { return []int{14, 15, 16, 17, 18} }

// Mode is how PostgreSQL shuts down.
type Mode string

// Fast disconnects clients and waits for walsenders to send all; Immediate aborts all, so that the next start recovers.
const (
	Fast      Mode = "fast"
	Immediate Mode = "immediate"
)

// Postgres is a server: wal_level=logical, 60 slots and senders, 200 connections, scram passwords, fsync off, C.UTF-8.
type Postgres struct {
	server
	Major int
}

// PostgresOptions of a private server.
type PostgresOptions struct {
	Fsync    bool              // on, as benchmarks and crash tests need
	Settings map[string]string // configuration parameters on top, by name
}

// Postgres is the run's shared server of a major version, started on first use.
func (e *Env) Postgres(t testing.TB, major int) *Postgres {
	t.Helper()
	p, err := e.OpenPostgres(t.Context(), major)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// OpenPostgres is Postgres outside a test.
func (e *Env) OpenPostgres(ctx context.Context, major int) (*Postgres, error) {
	p := e.postgres(major, false, PostgresOptions{})
	if err := e.shared(ctx, fmt.Sprintf("pg%d", major), &p.server, func() error { return p.start(ctx) }); err != nil {
		return nil, fmt.Errorf("PostgreSQL %d: %w", major, err)
	}
	return p, nil
}

// NewPostgres starts a server for one test alone; the test may stop, kill and restart it, and it is gone when the test ends.
func (e *Env) NewPostgres(t testing.TB, major int, o PostgresOptions) *Postgres {
	t.Helper()
	p := e.postgres(major, true, o)
	p.startPrivate(t, func(ctx context.Context) error { return p.Stop(ctx, Immediate) })
	return p
}

// StartPostgres is NewPostgres outside a test: the server ends with the run.
func (e *Env) StartPostgres(ctx context.Context, major int, o PostgresOptions) (*Postgres, error) {
	p := e.postgres(major, true, o)
	if err := p.start(ctx); err != nil {
		return nil, fmt.Errorf("PostgreSQL %d: %w", major, err)
	}
	return p, nil
}

func (e *Env) postgres(major int, private bool, o PostgresOptions) *Postgres {
	p := &Postgres{Major: major}
	p.server = e.newServer(fmt.Sprintf("pg%d", major), kind{"setup-postgres.sh", []string{"PORT"}}, private)
	p.Configure(o)
	return p
}

// Configure replaces the options; they take effect at the next start.
func (p *Postgres) Configure(o PostgresOptions) {
	fsync, extra := "off", ""
	if o.Fsync {
		fsync = "on"
	}
	for _, name := range slices.Sorted(maps.Keys(o.Settings)) {
		extra += fmt.Sprintf(" -c %s='%s'", name, strings.ReplaceAll(o.Settings[name], "'", `'\''`))
	}
	p.vars = []string{"VERSION=" + strconv.Itoa(p.Major), "FSYNC=" + fsync, "PGPW=" + SuperuserPassword, "EXTRA=" + extra}
}

// Host is the address the server listens on.
func (p *Postgres) Host() string { return host }

// Port is the server's TCP port, and the number in its socket's name.
func (p *Postgres) Port() int { return p.Ports[0] }

// SocketDir holds the server's unix socket.
func (p *Postgres) SocketDir() string { return p.Dir }

// DataDir is the server's data directory.
func (p *Postgres) DataDir() string { return filepath.Join(p.Dir, "data") }

// URL connects the superuser to a database over TCP.
func (p *Postgres) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(Superuser, SuperuserPassword), Host: p.addr(0), Path: "/" + database}
	return u.String()
}

// SocketURL connects the superuser to a database over the unix socket.
func (p *Postgres) SocketURL(database string) string {
	q := url.Values{"host": {p.Dir}, "port": {strconv.Itoa(p.Port())}}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(Superuser, SuperuserPassword), Path: "/" + database, RawQuery: q.Encode()}
	return u.String()
}

// Stop shuts a private server down and waits for its end.
func (p *Postgres) Stop(ctx context.Context, m Mode) error { return p.stop(ctx, string(m)) }

// Restart stops and starts a private server, at the same address.
func (p *Postgres) Restart(ctx context.Context, m Mode) error {
	if err := p.Stop(ctx, m); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Kill ends all processes of a private server with SIGKILL.
func (p *Postgres) Kill(ctx context.Context) error { return p.kill(ctx, "data/postmaster.pid") }

// Psql is the path of Debian's psql, which works with every major version.
func Psql() (string, error) { return clientTool("psql") }

// PgRecvlogical is the path of Debian's pg_recvlogical, which works with every major version.
func PgRecvlogical() (string, error) { return clientTool("pg_recvlogical") }

func clientTool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // where Debian keeps what it does not link into /usr/bin
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("%s is missing: run `make deps` as root, it installs Debian's postgresql-client", name)
	}
	return slices.Max(found), nil
}
