package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// tablesStream makes a stream whose list has public.a alone, with a publication of the worker's own.
func tablesStream(t *testing.T, major int, setup ...string) *harness.Stream {
	return stream(t, major, harness.Options{Publication: "-", NoSlot: true,
		Setup: append([]string{"CREATE TABLE a(id int PRIMARY KEY, n int)", "INSERT INTO a SELECT i, 0 FROM generate_series(1, 500) i"}, setup...),
		Connector: map[string]string{"publication.autocreate.mode": "filtered", "table.include.list": `public\.a`, "snapshot.mode": "initial",
			"incremental.snapshot.chunk.size": "500"}})
}

// traffic changes rows of a table that has id and n, from 1 to rows.
func traffic(s *harness.Stream, rnd *rand.Rand, table string, rows int) (stop func() int) {
	return paced(s, 3*time.Millisecond, func(i int) string {
		id := 1 + rnd.IntN(rows)
		switch rnd.IntN(5) {
		case 0:
			return fmt.Sprintf("DELETE FROM %s WHERE id = %d", table, id)
		case 1, 2:
			return fmt.Sprintf("INSERT INTO %s VALUES (%d, %d) ON CONFLICT (id) DO UPDATE SET n = excluded.n", table, id, i)
		case 3:
			return fmt.Sprintf("UPDATE %s SET id = %d WHERE id = %d AND NOT EXISTS (SELECT FROM %s WHERE id = %d)", table, rows+i, id, table, rows+i)
		}
		return fmt.Sprintf("BEGIN; UPDATE %s SET n = n + 1 WHERE id BETWEEN %d AND %d; COMMIT", table, id, id+5)
	})
}

// tables runs connectctl tables.
func tables(s *harness.Stream, verb string, more ...string) (code int, stdout, stderr string) {
	s.T.Helper()
	return s.Ctl(append([]string{"tables", verb, s.WorkerFile, s.ConfigFile}, more...)...)
}

// listed waits until tables list says something, as a run of words.
func listed(s *harness.Stream, words string) {
	s.T.Helper()
	var out, errs string
	if !harness.Eventually(time.Minute, func() bool {
		_, out, errs = tables(s, "list")
		return strings.Contains(strings.Join(strings.Fields(out), " "), words)
	}) {
		s.T.Fatalf("tables list does not say %q:\n%s%s", words, out, errs)
	}
}

// A table is added while writers run: rows and stream together are the table, and the others go on. Then it is removed.
func TestTablesAddAndRemove(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		rnd := seeded(t)
		s := tablesStream(t, major, "CREATE TABLE b(id int PRIMARY KEY, n int)", "INSERT INTO b SELECT i, 0 FROM generate_series(1, 3000) i")
		w := s.Run()
		stopA, stopB := traffic(s, rand.New(rand.NewPCG(rnd.Uint64(), 1)), "a", 500), traffic(s, rand.New(rand.NewPCG(rnd.Uint64(), 2)), "b", 3000)
		code, out, errs := tables(s, "add", "--table", "public.b")
		if code != 0 || !strings.Contains(out, "table set version 1: added public.b") {
			t.Fatalf("code %d, %s%s", code, out, errs)
		}
		listed(s, "public.b id "+s.Topic("public", "b")+" yes done")
		stopA()
		stopB()
		s.CaughtUp(soon)
		s.SameRows("public", "a", "id", "n")
		s.SameRows("public", "b", "id", "n")
		s.Verify()
		if w.Ended() {
			t.Fatal(w.Message())
		}
		if code, out, errs := tables(s, "remove", "--table", "public.b"); code != 0 || !strings.Contains(out, "version 2: removed public.b") {
			t.Fatalf("code %d, %s%s", code, out, errs)
		}
		before := s.CommittedEnd(s.Topic("public", "b"))
		s.SQL("INSERT INTO b SELECT i, 0 FROM generate_series(10001, 10050) i", "INSERT INTO a VALUES (10001, 0)")
		s.CaughtUp(soon)
		if after := s.CommittedEnd(s.Topic("public", "b")); after != before {
			t.Errorf("%d records of a removed table", after-before)
		}
		if !harness.Eventually(soon, func() bool {
			return s.Query("SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_publication_tables WHERE pubname = $1", s.Name) == "a"
		}) {
			t.Error("the table does not leave the publication")
		}
		listed(s, "version 2: the configured lists, without public.b")
		w.Stop()
		s.SlotFree()
		w = s.Run() // with the stored set, and the publication without b
		s.SQL("INSERT INTO a VALUES (10002, 0)", "INSERT INTO b VALUES (10100, 0)")
		s.CaughtUp(soon)
		w.Stop()
		s.SameRows("public", "a", "id", "n")
		s.Verify()
	})
}

// The worker is killed at any point between the signal and the first rows: what is published in the end is the table.
func TestTablesAddSurvivesKills(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		rnd := seeded(t)
		const added = 3
		var setup []string
		for i := range added {
			setup = append(setup, fmt.Sprintf("CREATE TABLE b%d(id int PRIMARY KEY, n int); INSERT INTO b%d SELECT i, 0 FROM generate_series(1, 2000) i", i, i))
		}
		s := tablesStream(t, major, setup...)
		w := s.Run()
		stops := []func() int{traffic(s, rand.New(rand.NewPCG(rnd.Uint64(), 1)), "a", 500)}
		for i := range added {
			table := fmt.Sprintf("b%d", i)
			stops = append(stops, traffic(s, rand.New(rand.NewPCG(rnd.Uint64(), 2)), table, 2000))
			sent := make(chan string, 1)
			go func() {
				code, out, errs := tables(s, "add", "--table", "public."+table, "--timeout", "1m")
				sent <- fmt.Sprint(code, out, errs)
			}()
			for range 3 {
				time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond) // where it is then is up to chance
				w.Kill()
				s.SlotFree()
				w = s.Start()
			}
			if got := <-sent; !strings.HasPrefix(got, "0") {
				t.Errorf("tables add %s: %s", table, got)
			}
			listed(s, "public."+table+" id "+s.Topic("public", table)+" yes done")
		}
		for _, stop := range stops {
			stop()
		}
		s.CaughtUp(soon)
		w.Stop()
		s.SameRows("public", "a", "id", "n")
		for i := range added {
			s.SameRows("public", fmt.Sprintf("b%d", i), "id", "n")
		}
		s.Verify()
	})
}

// What cannot be added is refused with a sentence, and the stream goes on.
func TestTablesRefuses(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := tablesStream(t, major, "CREATE TABLE customers(id int PRIMARY KEY)", "CREATE TABLE nokey(id int)", "CREATE VIEW v AS SELECT * FROM a")
		w := s.Run()
		for _, tc := range []struct{ verb, table, want string }{
			{"add", "public.customer", "similar ones are public.customers"},
			{"add", "public.nokey", "has no primary key and no REPLICA IDENTITY FULL"},
			{"add", "public.v", "is a view"},
			{"add", "public.a", "is in the set already"},
			{"remove", "public.customers", "is not in the set"},
		} {
			code, out, errs := tables(s, tc.verb, "--table", tc.table)
			if code != 1 || !strings.Contains(errs, tc.want) || strings.Count(errs, "\n") != 1 || out != "" {
				t.Errorf("%s %s: code %d, printed %q and %q, want …%s…", tc.verb, tc.table, code, out, errs, tc.want)
			}
		}
		s.SQL("INSERT INTO a VALUES (1001, 0)")
		s.CaughtUp(soon)
		s.SameRows("public", "a", "id", "n")
		w.Stop()
	})
}

// A lock and an open transaction are waited for by name; the request outlives the command and a restart.
func TestTablesAddWaits(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := tablesStream(t, major, "CREATE TABLE b(id int PRIMARY KEY, n int)", "CREATE TABLE c(id int PRIMARY KEY, n int)")
		w := s.Run()
		blocker := s.Connect()
		for _, step := range []struct{ table, hold string }{{"b", "LOCK TABLE b IN ACCESS EXCLUSIVE MODE"}, {"c", "INSERT INTO c VALUES (1, 1)"}} {
			if _, err := blocker.Exec(s.Ctx, "BEGIN"); err != nil {
				t.Fatal(err)
			}
			if _, err := blocker.Exec(s.Ctx, step.hold); err != nil {
				t.Fatal(err)
			}
			code, _, errs := tables(s, "add", "--table", "public."+step.table, "--timeout", "2s")
			if code != 1 || !strings.Contains(errs, "the request stands") {
				t.Errorf("%s: code %d, %s", step.table, code, errs)
			}
			w.WaitState("WAITING", fmt.Sprintf("pid %d", blocker.PgConn().PID()), soon)
			s.SQL("INSERT INTO a SELECT max(id) + 1, 0 FROM a")
			s.CaughtUp(soon) // the stream goes on
			if step.table == "c" {
				w.Stop()
				s.SlotFree()
				w = s.Run()
			}
			if _, err := blocker.Exec(s.Ctx, "COMMIT"); err != nil {
				t.Fatal(err)
			}
			listed(s, "public."+step.table+" id "+s.Topic("public", step.table)+" yes done")
		}
		s.SQL("INSERT INTO c VALUES (2, 2)")
		s.CaughtUp(soon)
		s.SameRows("public", "a", "id", "n")
		s.SameRows("public", "c", "id", "n")
		w.Stop()
		s.SlotFree()
		if code, out, errs := tables(s, "remove", "--table", "public.c"); code != 0 || !strings.Contains(out, "does not run; its next start takes the change up") {
			t.Errorf("code %d, %s%s", code, out, errs)
		}
		w = s.Run()
		listed(s, "version 3: the configured lists, with public.b, without public.c")
		w.Stop()
	})
}
