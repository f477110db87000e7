package badinput

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

// TestBadSnapshots gives a running connector snapshots that cannot be read. Each fails alone, with its sentence, and streaming
// goes on.
func TestBadSnapshots(t *testing.T) {
	pg := servers.NewPostgres(t, 18, env.PostgresOptions{Settings: map[string]string{"max_connections": "200"}})
	for name, test := range map[string]func(*testing.T, *env.Postgres){
		"missing": snapshotMissing, "condition": snapshotCondition, "unreadable": snapshotUnreadable, "dropped": snapshotDropped,
		"key changed": snapshotKeyChanged, "helper killed": snapshotHelperKilled, "timeouts": snapshotTimeouts, "stop in a chunk": snapshotStopped,
		"open transaction": snapshotOpenTransaction, "tables only": snapshotTablesOnly, "row too large": snapshotRowTooLarge,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, pg)
		})
	}
}

// snapshotStage has rows in public.t that the running connector has not published, and another captured table.
func snapshotStage(t *testing.T, pg *env.Postgres, rows int) *stage {
	s := newStage(t, pg)
	s.connector["incremental.snapshot.chunk.size"] = "500"
	s.sql("CREATE TABLE public.other (id int PRIMARY KEY)",
		fmt.Sprintf("INSERT INTO public.t SELECT g, repeat('v', 100) FROM generate_series(1, %d) g", rows),
		"CREATE PUBLICATION p FOR TABLE public.t, public.other", "SELECT pg_create_logical_replication_slot('"+s.name+"', 'pgoutput')")
	return s
}

// snapshotUnderWay has read a part of public.t, slowly.
func snapshotUnderWay(t *testing.T, pg *env.Postgres) (*stage, *process) {
	s := snapshotStage(t, pg, 20_000)
	s.connector["snapshot.max.rows.per.second"] = "1000"
	p := s.run()
	p.line(0, "state=RUNNING")
	s.snapshotStart("--table", "public.t")
	s.until("rows are read", func() bool { return s.snapshots()["public.t"].Rows > 0 })
	return s, p
}

// snapshot is what `snapshot status --json` says of a table.
type snapshot struct {
	Table, ID, State, Reason string
	Rows                     int64
}

func (s *stage) snapshots() map[string]snapshot {
	s.Helper()
	w, c := s.files()
	out, _ := s.ctl(0, "snapshot", "status", "--json", w, c)
	var status struct{ Tables []snapshot }
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		s.Fatalf("%s: %v", out, err)
	}
	all := map[string]snapshot{}
	for _, one := range status.Tables {
		all[one.Table] = one
	}
	return all
}

// snapshotIs waits until a table's snapshot is in a state.
func (s *stage) snapshotIs(table, state string) (now snapshot) {
	s.Helper()
	s.until("the snapshot of "+table+" is "+state, func() bool {
		now = s.snapshots()[table]
		return now.State == state
	})
	return now
}

// snapshotStart asks for a snapshot of public.t.
func (s *stage) snapshotStart(args ...string) {
	s.Helper()
	w, c := s.files()
	s.ctl(0, append([]string{"snapshot", "start", w, c}, args...)...)
}

// streams shows that streaming goes on.
func (s *stage) streams(id int) {
	s.Helper()
	s.sql(fmt.Sprintf("INSERT INTO public.other VALUES (%d)", id))
	s.until("the stream goes on", func() bool { return len(s.rows("other")) >= id })
}

func (s *stage) readRows(table string) (n int) {
	s.Helper()
	for _, r := range s.rows(table) {
		if r.Op == "r" {
			n++
		}
	}
	return n
}

func snapshotMissing(t *testing.T, pg *env.Postgres) {
	s := snapshotStage(t, pg, 10)
	p := s.run()
	p.line(0, "state=RUNNING")
	w, c := s.files()
	_, sentence := s.ctl(2, "snapshot", "start", w, c, "--table", "public.nothing")
	s.wants(sentence, "public.nothing", "no captured table")
	s.streams(1)
	s.snapshotStart("--table", "public.t")
	s.snapshotIs("public.t", "done")
	if n := s.readRows("t"); n != 10 {
		s.Errorf("%d rows were read, want 10", n)
	}
	p.stop()
}

func snapshotCondition(t *testing.T, pg *env.Postgres) {
	s := snapshotStage(t, pg, 10)
	p := s.run()
	p.line(0, "state=RUNNING")
	for i, bad := range []string{"nothing = 1", "id ==", "id = 'x'"} {
		s.snapshotStart("--table", "public.t", "--where", bad, "--id", fmt.Sprint("bad", i))
		s.until("the snapshot failed", func() bool { now := s.snapshots()["public.t"]; return now.State == "failed" })
		s.wants(s.snapshotIs("public.t", "failed").Reason, "condition", "public.t")
		s.streams(i + 1)
		s.snapshotStart("--table", "public.t", "--where", "id = 1", "--id", fmt.Sprint("good", i))
		s.snapshotIs("public.t", "done")
	}
	if n := s.readRows("t"); n != 3 {
		s.Errorf("%d rows were read, want 3", n)
	}
	p.stop()
}

func snapshotUnreadable(t *testing.T, pg *env.Postgres) {
	s := snapshotStage(t, pg, 10)
	s.super("CREATE TABLE public.foreign_one (id int PRIMARY KEY)", "ALTER PUBLICATION p ADD TABLE public.foreign_one")
	p := s.run()
	p.line(0, "state=RUNNING")
	s.snapshotStart("--table", "public.foreign_one")
	s.wants(s.snapshotIs("public.foreign_one", "failed").Reason, "public.foreign_one", "GRANT SELECT")
	s.streams(1)
	p.stop()
}

// A row that no record can hold fails the snapshot of its table, on demand or of the start, and neither the stream nor other tables.
func snapshotRowTooLarge(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	s.connector["snapshot.mode"] = "initial"
	s.sql("CREATE TABLE public.other (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE public.t, public.other",
		"INSERT INTO public.t SELECT g, 'v' FROM generate_series(1, 3000) g", "INSERT INTO public.t VALUES (2000000, repeat('x', 3000000))")
	p := s.run()
	s.wants(s.snapshotIs("public.t", "failed").Reason, "public.t", "max.message.bytes")
	s.snapshotIs("public.other", "done")
	s.streams(1)
	s.snapshotStart("--table", "public.t", "--id", "bad")
	s.until("it failed", func() bool { return s.snapshots()["public.t"].ID == "bad" })
	s.wants(s.snapshotIs("public.t", "failed").Reason, "max.message.bytes")
	s.streams(2)
	p.stop()
	p = s.run()
	p.line(0, "state=RUNNING")
	s.snapshotStart("--table", "public.t", "--where", "id < 2000000", "--id", "good")
	s.until("it is another one", func() bool { return s.snapshots()["public.t"].ID == "good" })
	s.snapshotIs("public.t", "done")
	ids := map[any]bool{}
	for _, r := range s.rows("t") {
		ids[r.Value["id"]] = true
	}
	if len(ids) != 3000 {
		t.Errorf("%d rows were read, want 3000", len(ids))
	}
	s.streams(3)
	p.stop()
}

// A run that only reads tables, and cannot read one, does not say that all is well.
func snapshotTablesOnly(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	s.connector["snapshot.mode"] = "initial_only"
	s.connector["snapshot.select.statement.overrides"] = "public.t"
	s.connector["snapshot.select.statement.overrides.public.t"] = "SELECT * FROM public.t WHERE 10 / (id - 5) < 100"
	s.sql("CREATE TABLE public.other (id int PRIMARY KEY)", "INSERT INTO public.other VALUES (1)",
		"INSERT INTO public.t SELECT g, 'v' FROM generate_series(1, 10) g", "CREATE PUBLICATION p FOR TABLE public.t, public.other")
	s.wants(s.run().exit(1), "1 tables were not read to their end", "connectctl tables list")
	s.wants(s.snapshotIs("public.t", "failed").Reason, "public.t")
	if n := s.readRows("other"); n != 1 {
		t.Errorf("%d rows of the other table were read, want 1", n)
	}
}

func snapshotDropped(t *testing.T, pg *env.Postgres) {
	s, p := snapshotUnderWay(t, pg)
	s.sql("DROP TABLE public.t")
	s.wants(s.snapshotIs("public.t", "failed").Reason, "public.t")
	s.streams(1)
	p.stop()
}

func snapshotKeyChanged(t *testing.T, pg *env.Postgres) {
	s, p := snapshotUnderWay(t, pg)
	s.sql("ALTER TABLE public.t ADD COLUMN k int NOT NULL DEFAULT 1", "ALTER TABLE public.t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, k)")
	s.wants(s.snapshotIs("public.t", "failed").Reason, "public.t", "key")
	s.streams(1)
	p.stop()
}

// A connection that ends in the middle of a chunk must not make it a short one.
func snapshotHelperKilled(t *testing.T, pg *env.Postgres) {
	const rows = 6000
	s := snapshotStage(t, pg, rows)
	s.connector["snapshot.max.rows.per.second"] = "3000"
	p := s.run()
	p.line(0, "state=RUNNING")
	s.snapshotStart("--table", "public.t")
	kills := 0
	s.until("the snapshot is done", func() bool {
		if kills < 8 {
			kills += s.killReaders()
		}
		return s.snapshots()["public.t"].State == "done"
	})
	if kills == 0 {
		t.Error("no connection was killed")
	}
	ids := map[any]bool{}
	for _, r := range s.rows("t") {
		ids[r.Value["id"]] = true
	}
	if len(ids) != rows {
		t.Errorf("%d rows were read, want %d", len(ids), rows)
	}
	s.streams(1)
	p.stop()
}

// killReaders ends the connections that read table t now.
func (s *stage) killReaders() (n int) {
	s.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.pg.URL(s.name))
	s.must(err)
	defer conn.Close(ctx)
	s.must(conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE usename = $1 AND datname = $2 AND backend_type = 'client backend' AND query ~ 'public.*\mt\M' AND query !~ 'terminate') x`, s.name, s.name).Scan(&n))
	return n
}

func snapshotTimeouts(t *testing.T, pg *env.Postgres) {
	s := snapshotStage(t, pg, 3000)
	for _, setting := range []string{"statement_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "lock_timeout", "transaction_timeout"} {
		s.super("ALTER ROLE " + s.name + " SET " + setting + " = '50ms'")
	}
	s.connector["snapshot.max.rows.per.second"] = "2000"
	p := s.run()
	p.line(0, "state=RUNNING")
	s.snapshotStart("--table", "public.t")
	s.snapshotIs("public.t", "done")
	if n := s.readRows("t"); n != 3000 {
		t.Errorf("%d rows were read, want 3000", n)
	}
	s.super("ALTER ROLE " + s.name + " RESET ALL") // the stage's own session
	p.stop()
}

func snapshotStopped(t *testing.T, pg *env.Postgres) {
	s, p := snapshotUnderWay(t, pg)
	w, c := s.files()
	s.ctl(0, "snapshot", "stop", w, c)
	s.snapshotIs("public.t", "stopped")
	s.streams(1)
	s.snapshotStart("--table", "public.t", "--where", "id <= 100")
	s.snapshotIs("public.t", "done")
	p.stop()
}

// A chunk that cannot be trusted yet is read again, in a state that names who is waited for.
func snapshotOpenTransaction(t *testing.T, pg *env.Postgres) {
	s := snapshotStage(t, pg, 100)
	other := s.connect(s.name, secret)
	ctx := context.Background()
	tx, err := other.Begin(ctx)
	s.must(err)
	_, err = tx.Exec(ctx, "INSERT INTO public.other VALUES (1000)") // has a transaction id that is older than what is decoded next
	s.must(err)
	p := s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.other VALUES (1)")
	s.until("the row is published", func() bool { return len(s.rows("other")) >= 1 })
	p.stop()
	p = s.run()
	from := p.line(0, "state=RUNNING")
	s.snapshotStart("--table", "public.t")
	p.line(from, fmt.Sprintf("pid %d", other.PgConn().PID()))
	if state := s.snapshots()["public.t"].State; state == "done" {
		t.Error("the snapshot is done although a transaction older than the stream is open")
	}
	s.must(tx.Rollback(ctx))
	s.snapshotIs("public.t", "done")
	if n := s.readRows("t"); n != 100 {
		t.Errorf("%d rows were read, want 100", n)
	}
	p.stop()
}
