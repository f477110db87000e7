package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// snapshotKind is a way in which rows that were there before come into the topics.
type snapshotKind struct {
	name     string
	exported bool // the worker creates the slot, and the tables are read under its snapshot
	readOnly bool // the role may not write messages: places in the log are found by LSN
}

var snapshotKinds = []snapshotKind{{"exported", true, false}, {"chunks", false, false}, {"chunks by LSN", false, true}}

// Rows that are there before a stream: many small ones, large values, a composite key, and a table without a key.
const snapshotRows = `INSERT INTO a SELECT g, 0, g / 4.0, clock_timestamp(), CASE WHEN g % 50 = 0 THEN repeat('x', 3000) END FROM generate_series(1, 20000) g;
	INSERT INTO f SELECT 'w' || g % 7, g, 0, CASE WHEN g % 50 = 0 THEN repeat('y', 3000) END FROM generate_series(1, 4000) g`

// withoutMessages takes the right to write logical messages from everybody but superusers.
const withoutMessages = `DO $$ DECLARE f regprocedure; BEGIN
	FOR f IN SELECT oid::regprocedure FROM pg_proc WHERE proname = 'pg_logical_emit_message' LOOP
		EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || f || ' FROM PUBLIC';
	END LOOP; END $$`

// snapshotStream makes a stream whose tables have rows before it starts.
func snapshotStream(t *testing.T, major int, kind snapshotKind, o harness.Options) *harness.Stream {
	t.Helper()
	o.Setup = append(append([]string{}, crashSetup...), snapshotRows)
	o.Publication = or(o.Publication, crashTables)
	o.NoSlot = kind.exported
	if o.Connector == nil {
		o.Connector = map[string]string{}
	}
	o.Connector["snapshot.mode"] = "initial"
	o.Connector["incremental.snapshot.chunk.size"] = "700"
	if kind.readOnly {
		role := strings.ReplaceAll(env.Unique("reader_"), "-", "_")
		if o.PG == nil {
			o.PG = servers.Postgres(t, major)
		}
		if err := o.PG.Exec(t.Context(), "postgres", "CREATE ROLE "+role+" LOGIN REPLICATION PASSWORD 'x'"); err != nil {
			t.Fatal(err)
		}
		pg := o.PG
		t.Cleanup(func() { // after the database, which depends on it
			if err := pg.Exec(context.Background(), "postgres", "DROP ROLE IF EXISTS "+role); err != nil {
				t.Logf("drop the role: %v", err)
			}
		})
		o.Setup = append(o.Setup, withoutMessages, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+role)
		o.Connector["database.user"], o.Connector["database.password"] = role, "x"
	}
	return stream(t, major, o)
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// snapshotStates are the states of the tables' snapshots by table.
func snapshotStates(s *harness.Stream) map[string]string {
	out := map[string]string{}
	for key, value := range s.Offsets() {
		if !strings.Contains(key, `"kind":"table"`) {
			continue
		}
		name, _ := value["name"].(string)
		out[name], _ = value["snapshot"].(string)
	}
	return out
}

// snapshotDone waits until every table's rows were published.
func snapshotDone(s *harness.Stream, within time.Duration, tables ...string) {
	s.T.Helper()
	if !harness.Eventually(within, func() bool {
		states := snapshotStates(s)
		for _, name := range tables {
			if states[name] != "done" {
				return false
			}
		}
		return true
	}) {
		s.T.Fatalf("after %s the snapshots are %v", within, snapshotStates(s))
	}
}

// sameAsTables checks order, that nothing is twice, and that replaying the topics gives the tables.
func sameAsTables(s *harness.Stream) {
	s.T.Helper()
	records := s.Records(harness.Committed)
	for _, v := range check.Order(records) {
		s.T.Errorf("order: %s", v)
	}
	read := map[string]int{}
	for i := range records {
		if records[i].Op == 'r' {
			read[records[i].Topic]++
		}
	}
	s.T.Logf("%d records; rows read by topic: %v", len(records), read)
	if read[s.Topic("public", "a")] == 0 {
		s.T.Error("no row of table a was read")
	}
	s.SameRows("public", "a", "id", "n", "d", "at", "big")
	s.SameRows("public", "f", "k", "id", "n", "big")
	s.Verify()
	s.SlotNotAhead()
}

// unionRate is how many writes a second the tables are to take while their rows are read. The writers ask for several times as many; what
// they reach depends on the machine, and the log says it: 2,400 to 3,100 on two cores, a tenth beside three other tests.
const unionRate = 2000

// Under writers that ask for more than 2,000 writes a second, rows of before and stream together are the tables, for both kinds of
// snapshot; a table without a key too.
func TestSnapshotUnion(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		for _, kind := range snapshotKinds {
			t.Run(kind.name, func(t *testing.T) {
				rnd := seeded(t)
				s := snapshotStream(t, major, kind, harness.Options{})
				s.SQL("INSERT INTO nk SELECT g % 30, 'before' FROM generate_series(1, 500) g")
				began := time.Now()
				stop := countedLoad(t, s, rnd, 1, 3, 10*time.Millisecond)
				w := s.Run()
				snapshotDone(s, time.Minute, "public.a", "public.f")
				n, writes := stop()
				took := time.Since(began)
				rate := int(float64(writes) / took.Seconds())
				t.Logf("%d transactions, %d writes in %s: %d a second", n, writes, took.Round(time.Millisecond), rate)
				if rate < unionRate {
					t.Logf("the machine is busy: the load is meant for %d writes a second", unionRate)
				}
				if snapshotStates(s)["public.nk"] != "done" { // a table without a key is read at a place of its own, for which the server waits for older transactions
					stop := loadFrom(t, s, rnd, 10, 1, 60*time.Millisecond)
					snapshotDone(s, time.Minute, "public.nk")
					stop()
				}
				s.CaughtUp(time.Minute)
				w.Stop()
				s.SlotFree()
				sameAsTables(s)
				s.SameRowsSinceRead("public", "nk", "n", "s") // read beside the stream, what was streamed before is there twice
			})
		}
	})
}

// The worker is killed at random moments of a snapshot, again and again, while the tables are written to.
func TestSnapshotKilled(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		for _, kind := range snapshotKinds {
			if kind.readOnly && !newest(major) {
				continue
			}
			t.Run(kind.name, func(t *testing.T) {
				rnd := seeded(t)
				// Slow enough for every kill to fall into it.
				s := snapshotStream(t, major, kind, harness.Options{Publication: "FOR TABLE a, f", Connector: map[string]string{"snapshot.max.rows.per.second": "12000"}})
				stop := load(t, s, rnd, 3, 15*time.Millisecond)
				kills := killInSnapshot(s, rnd, 4)
				s.Configure(map[string]string{"snapshot.max.rows.per.second": "0"})
				w := s.Run()
				snapshotDone(s, time.Minute, "public.a", "public.f")
				n := stop()
				s.CaughtUp(time.Minute)
				w.Stop()
				s.SlotFree()
				t.Logf("%d transactions, %d kills in a snapshot under way", n, kills)
				sameAsTables(s)
			})
		}
	})
}

// killInSnapshot kills workers n times, each a random while after it was seen streaming or its rows were seen, and tells how many
// of the kills left a snapshot unfinished.
func killInSnapshot(s *harness.Stream, rnd *rand.Rand, n int) (inside int) {
	s.T.Helper()
	for range n {
		w := s.Start()
		topic := s.Topic("public", []string{"a", "f"}[rnd.IntN(2)])
		before := s.CommittedEnd(topic)
		wait := time.Duration(rnd.Int64N(int64(700 * time.Millisecond)))
		harness.Eventually(5*time.Second, func() bool { return s.CommittedEnd(topic) > before })
		harness.Eventually(wait, w.Ended) // a random moment, or its end
		w.Kill()
		s.SlotNotAhead()
		open := false
		for _, state := range snapshotStates(s) {
			open = open || state == "pending" || state == "reading"
		}
		if open {
			inside++
		}
	}
	return inside
}

// A synchronous standby does not answer for seconds: commits are in the log, and streamed, long before anybody can see them.
// A row read meanwhile is older than the change that was streamed before it.
func TestSnapshotInvisibleCommits(t *testing.T) {
	t.Parallel()
	major := fullMajors()[len(fullMajors())-1]
	pg := servers.NewPostgres(t, major, env.PostgresOptions{})
	for _, kind := range snapshotKinds[:2] {
		t.Run(kind.name, func(t *testing.T) {
			rnd := seeded(t)
			s := snapshotStream(t, major, kind, harness.Options{PG: pg, Publication: "FOR TABLE a, f", Connector: map[string]string{"snapshot.max.rows.per.second": "8000"}})
			stop := load(t, s, rnd, 4, 10*time.Millisecond)
			w := s.Start()
			admin := s.Connect()
			stalls := 0
			for range 3 {
				harness.Eventually(5*time.Second, func() bool { return s.CommittedEnd(s.Topic("public", "a")) > 0 })
				stalls += stall(s, admin, 2*time.Second)
			}
			s.Configure(map[string]string{"snapshot.max.rows.per.second": "0"})
			snapshotDone(s, time.Minute, "public.a", "public.f")
			n := stop()
			t.Logf("%d transactions; in %d of 3 stalls commits were seen waiting for the standby", n, stalls)
			if stalls == 0 {
				t.Error("no commit was ever invisible")
			}
			s.CaughtUp(time.Minute)
			w.Stop()
			s.SlotFree()
			sameAsTables(s)
		})
	}
}

// stall has commits wait for a standby that is not there, for a while; 1 where some were seen waiting.
func stall(s *harness.Stream, admin *pgx.Conn, d time.Duration) (seen int) {
	s.T.Helper()
	exec := func(statement string) {
		if _, err := admin.PgConn().Exec(s.Ctx, statement).ReadAll(); err != nil {
			s.T.Fatalf("%s: %v", statement, err)
		}
	}
	exec("SET synchronous_commit = local")
	exec("ALTER SYSTEM SET synchronous_standby_names = 'absent'")
	exec("SELECT pg_reload_conf()")
	harness.Eventually(d, func() bool {
		var waiting int
		if err := admin.QueryRow(s.Ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&waiting); err != nil {
			s.T.Fatal(err)
		}
		if waiting > 0 {
			seen = 1
		}
		return false // the whole time
	})
	exec("ALTER SYSTEM RESET synchronous_standby_names")
	exec("SELECT pg_reload_conf()")
	if !harness.Eventually(10*time.Second, func() bool {
		var waiting int
		err := admin.QueryRow(s.Ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").Scan(&waiting)
		return err == nil && waiting == 0
	}) {
		s.T.Fatal("commits still wait for the standby")
	}
	return seen
}

// Every row's snapshot position is one of a boundary: no change of a transaction has it.
func TestSnapshotPositions(t *testing.T) {
	t.Parallel()
	major := fullMajors()[0]
	s := snapshotStream(t, major, snapshotKinds[0], harness.Options{Publication: "FOR TABLE a, f"})
	w := s.Run()
	snapshotDone(s, time.Minute, "public.a", "public.f")
	s.SQL("UPDATE a SET n = 1 WHERE id = 1")
	s.CaughtUp(soon)
	w.Stop()
	records := s.Records(harness.Committed)
	rows, places := 0, map[uint64]bool{}
	var change *check.Record
	for i := range records {
		r := &records[i]
		if r.Op != 'r' {
			change = r
			continue
		}
		rows++
		places[r.LSN] = true
		if r.Seq < 1<<50 {
			t.Fatalf("%s: its ordinal is that of a change", r)
		}
	}
	if rows != 24000 || len(places) != 1 || change == nil {
		t.Fatalf("%d rows at %d positions, change %v; want 24000 at one", rows, len(places), change)
	}
	for p := range places {
		if change.LSN <= p {
			t.Errorf("the change at %s does not follow the rows at %s", check.FormatLSN(change.LSN), check.FormatLSN(p))
		}
	}
	s.Verify()
	gens := s.Raw(harness.Committed, s.GenerationsTopic())
	if len(gens) != 1 || !strings.Contains(string(gens[0].Value), `"baseline":true`) {
		t.Errorf("activation records: %s", fmt.Sprint(gens))
	}
}
