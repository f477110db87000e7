package env

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestPostgresAnswers(t *testing.T) {
	t.Parallel()
	for _, major := range Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			p := servers.Postgres(t, major)
			want := fmt.Sprintf("PostgreSQL %d.", major)
			for _, url := range []string{p.URL("postgres"), p.SocketURL("postgres")} {
				if v := version(t, url); !strings.HasPrefix(v, want) {
					t.Errorf("%s is %s", url, v)
				}
			}
			if err := p.Stop(t.Context(), Fast); !errors.Is(err, errShared) {
				t.Errorf("stop of a shared server: %v", err)
			}
		})
	}
}

// An open session and a slot in use must not keep a test's database alive.
func TestDatabaseIsDroppedWithItsSlots(t *testing.T) {
	t.Parallel()
	p := servers.Postgres(t, 18)
	var name string
	t.Run("test", func(t *testing.T) {
		d := p.NewDatabase(t)
		name = d.Name
		if err := d.Exec(t.Context(), "CREATE TABLE t (id int)", "SELECT pg_create_logical_replication_slot('"+name+"', 'pgoutput')"); err != nil {
			t.Fatal(err)
		}
		tool, err := PgRecvlogical()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(tool, "-d", d.URL(), "--slot", name, "--start", "-f", "/dev/null", "-n", "-o", "proto_version=1", "-o", "publication_names=none")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		c := d.Connect(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := waitFor(ctx, "the slot's use", func() bool {
			var active bool
			return c.QueryRow(ctx, "SELECT active FROM pg_replication_slots WHERE slot_name = $1", name).Scan(&active) == nil && active
		}); err != nil {
			t.Fatal(err)
		}
	})
	c, err := pgx.Connect(t.Context(), p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var n int
	const q = "SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) + (SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1)"
	if err := c.QueryRow(t.Context(), q, name).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d left, %v", n, err)
	}
}

func TestPostgresStopsAndComesBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := servers.NewPostgres(t, 14, PostgresOptions{Fsync: true, Settings: map[string]string{"wal_level": "replica", "application_name": "it's"}})
	d := p.NewDatabase(t)
	if err := d.Exec(ctx, "CREATE TABLE t AS SELECT current_setting('wal_level') AS w, current_setting('fsync') AS f, current_setting('application_name') AS a"); err != nil {
		t.Fatal(err)
	}
	addr := p.addr(0)
	for _, end := range []func() error{
		func() error { return p.Stop(ctx, Fast) },
		func() error { return p.Stop(ctx, Immediate) },
		func() error { return p.Kill(ctx) },
	} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if c, err := pgx.Connect(ctx, d.URL()); err == nil {
			_ = c.Close(ctx)
			t.Fatal("it answers after its end")
		}
		if err := p.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if p.addr(0) != addr {
			t.Fatalf("came back at %s, was at %s", p.addr(0), addr)
		}
	}
	p.Configure(PostgresOptions{})
	if err := p.Restart(ctx, Fast); err != nil {
		t.Fatal(err)
	}
	var was, is string
	if err := d.Connect(t).QueryRow(ctx, "SELECT t::text, current_setting('wal_level') FROM t").Scan(&was, &is); err != nil {
		t.Fatal(err)
	}
	if was != "(replica,on,it's)" || is != "logical" {
		t.Errorf("settings were %s, wal_level is %s", was, is)
	}
}

func TestStandbyFollowsAndIsPromoted(t *testing.T) {
	t.Parallel()
	for _, major := range []int{14, 18} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			ctx := t.Context()
			p := servers.Postgres(t, major)
			d := p.NewDatabase(t)
			s := p.NewStandby(t, PostgresOptions{})
			if err := d.Exec(ctx, "CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			if err := s.CaughtUp(ctx, p); err != nil {
				t.Fatal(err)
			}
			if err := s.Exec(ctx, d.Name, "INSERT INTO t VALUES (2)"); err == nil || !strings.Contains(err.Error(), "read-only") {
				t.Errorf("insert on the standby: %v", err)
			}
			if err := s.Promote(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.Exec(ctx, d.Name, "INSERT INTO t VALUES (2)"); err != nil {
				t.Errorf("insert after promotion: %v", err)
			}
		})
	}
}
