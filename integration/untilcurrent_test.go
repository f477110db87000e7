package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// summary is what a bounded run prints.
type summary struct {
	Connector     string
	Transactions  int
	Changes, Rows int
	Tables        int
	Records       int
	From, To      string
	Duration      int `json:"duration_ms"`
}

// bounded makes a bounded run, which must end by itself, and returns its summary.
func bounded(s *harness.Stream) (out summary) {
	s.T.Helper()
	w := s.StartWith("--until-current", "--summary", "json")
	if code := w.Wait(2 * time.Minute); code != 0 {
		s.T.Fatalf("a bounded run ended with %d: %s", code, w.Message())
	}
	if err := json.Unmarshal([]byte(w.Stdout()), &out); err != nil || strings.Count(w.Stdout(), "\n") != 1 || out.Connector != s.Name {
		s.T.Fatalf("a bounded run printed %q (%v)", w.Stdout(), err)
	}
	s.T.Logf("%+v", out)
	s.SlotFree()
	// A commit is decided a moment before its markers make it visible.
	if topics := append(s.Topics(), s.OffsetsTopic()); !harness.Eventually(soon, func() bool { return !s.OpenTransaction(topics...) }) {
		s.T.Fatal("the last Kafka transaction of a bounded run is not visible")
	}
	return out
}

// paced runs a statement again and again until stop is called.
func paced(s *harness.Stream, every time.Duration, statement func(i int) string) (stop func() int) {
	s.T.Helper()
	conn := s.Connect()
	quit, n := make(chan struct{}), 0
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if _, err := conn.PgConn().Exec(s.Ctx, statement(n)).ReadAll(); err != nil {
				s.T.Errorf("writer: %v", err)
				return
			}
			n++
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	})
	return sync.OnceValue(func() int { close(quit); wg.Wait(); return n })
}

// A bounded run ends at the place of the log where it began, whatever goes on in tables that are not captured.
//
// It goes red where the run ends at the first captured transaction at or after the log's end as of its begin: none comes. It stays
// green where that end is compared with the stream's boundary, which keepalives move too. See docs/decisions/bounded-runs.md.
func TestUntilCurrentBesideABusyTable(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		for _, publication := range []string{"FOR TABLE a", "FOR ALL TABLES"} {
			s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE busy(v text)"}, Publication: publication,
				Connector: map[string]string{"table.include.list": `public\.a`}})
			s.SQL("INSERT INTO a SELECT generate_series(1, 9)")
			var stops []func() int
			for range 2 {
				stops = append(stops, paced(s, time.Millisecond, func(int) string { return "INSERT INTO busy VALUES (repeat('x', 500))" }))
			}
			for round := range 3 {
				got := bounded(s)
				if want := []int{9, 0, 1}[round]; got.Changes != want || got.Records != want {
					t.Errorf("%s, run %d: %d changes and %d records, want %d", publication, round, got.Changes, got.Records, want)
				}
				if got.To == "" || got.From == "" || round > 0 && got.Duration > 60_000 {
					t.Errorf("%s, run %d: %+v", publication, round, got)
				}
				if round == 1 {
					s.SQL("INSERT INTO a VALUES (10)")
				}
			}
			for _, stop := range stops {
				stop()
			}
			s.Check(harness.Expect{Captured: func(_, table string) bool { return table == "a" }})
		}
	})
}

// Runs one after the other lose nothing and repeat nothing, while writers go on; what each tells adds up.
func TestUntilCurrentInARow(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, n int)"}})
		stop := paced(s, 2*time.Millisecond, func(i int) string {
			return fmt.Sprintf("BEGIN; INSERT INTO a VALUES (%d, 0); UPDATE a SET n = n + 1 WHERE id = %d; COMMIT", i, i/2)
		})
		var all summary
		run := func() {
			got := bounded(s)
			all.Changes, all.Records, all.Transactions = all.Changes+got.Changes, all.Records+got.Records, all.Transactions+got.Transactions
		}
		run()
		run()
		n := stop()
		run()
		if all.Changes != 2*n || all.Transactions != n || all.Records != 2*n {
			t.Errorf("the runs tell of %+v; there were %d transactions of two changes", all, n)
		}
		run() // nothing is left
		if all.Transactions != n {
			t.Errorf("a run with nothing to do told of %d transactions", all.Transactions-n)
		}
		s.Check(harness.Expect{})
		s.SameRows("public", "a", "id", "n")
	})
}

// A large transaction on a table that is not captured stands before the backlog; the run comes to its end all the same.
func TestUntilCurrentBehindALargeTransaction(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE busy(id int, v text)"},
			Connector: map[string]string{"table.include.list": `public\.a`}})
		s.SQL("INSERT INTO busy SELECT i, repeat('x', 50) FROM generate_series(1, 200000) i")
		for i := range 200 {
			s.SQL(fmt.Sprintf("INSERT INTO a SELECT generate_series(%d, %d)", i*10, i*10+9))
		}
		if got := bounded(s); got.Changes != 2000 || got.Transactions != 200 {
			t.Errorf("got %+v", got)
		}
		s.Check(harness.Expect{Captured: func(_, table string) bool { return table == "a" }})
	})
}

// A bounded run that begins with the rows of the tables reads them to their end.
func TestUntilCurrentWithSnapshot(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, n int)", "INSERT INTO a SELECT i, 0 FROM generate_series(1, 20000) i",
			"CREATE TABLE nk(v text); ALTER TABLE nk REPLICA IDENTITY FULL", "INSERT INTO nk VALUES ('x'), ('y')"}, NoSlot: true,
			Connector: map[string]string{"snapshot.mode": "initial"}})
		stop := paced(s, 5*time.Millisecond, func(i int) string {
			return fmt.Sprintf("UPDATE a SET n = n + 1 WHERE id = %d; INSERT INTO a VALUES (%d, 0)", 1+i%20000, 30000+i)
		})
		got := bounded(s)
		if got.Rows < 20002 || got.Tables != 2 {
			t.Errorf("got %+v", got)
		}
		stop()
		if got := bounded(s); got.Rows != 0 {
			t.Errorf("the second run read %d rows", got.Rows)
		}
		s.SameRows("public", "a", "id", "n")
		s.Verify()
	})
}

// A signal ends a bounded run as any other, without its line, and the next one goes on.
func TestUntilCurrentIsStopped(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, v text)"}})
		for i := range 300 {
			s.SQL(fmt.Sprintf("INSERT INTO a SELECT i, repeat('x', 200) FROM generate_series(%d, %d) i", i*300, i*300+299))
		}
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			w := s.StartWith("--until-current")
			before := s.Boundary()
			if !harness.Eventually(soon, func() bool { return s.Boundary() > before }) {
				t.Fatalf("nothing is published: %s", w.Message())
			}
			w.Signal(sig)
			code := w.Wait(soon)
			if code == 0 && strings.Contains(w.Stdout(), "is current") {
				t.Logf("it was over before %s came", sig)
			} else if code != 128+int(sig) || w.Stdout() != "" {
				t.Errorf("after %s: code %d, printed %q: %s", sig, code, w.Stdout(), w.Message())
			}
			s.SlotFree()
		}
		bounded(s)
		s.Check(harness.Expect{})
	})
}
