package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

const (
	connectorBlocked = 3
	connectorFenced  = 4
)

// Case 136: a worker is stopped with SIGSTOP, at rest and inside a Kafka transaction, another takes over, and the first goes on:
// it loses, with the exit code of a fenced worker, and nothing is repeated.
func TestZombieIsFenced(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, v text)"}})
		for i, inside := range []bool{false, true} {
			old := s.Run()
			s.SQL(fmt.Sprintf("INSERT INTO a VALUES (%d)", i))
			s.CaughtUp(soon)
			topic := s.Topic("public", "a")
			if inside {
				seen := false // one may be over before it is looked for: then another is made
				for from := 1000; from < 1_000_000 && !seen; from += 100_000 {
					s.SQL(fmt.Sprintf("INSERT INTO a SELECT g, repeat('z', 200) FROM generate_series(%d, %d) g", from, from+40_000))
					end := s.End()
					harness.Eventually(soon, func() bool { seen = seen || s.OpenTransaction(topic); return seen || s.Boundary() >= end })
				}
				if !seen {
					t.Error("no open transaction was seen")
				}
			}
			old.Signal(syscall.SIGSTOP)
			next := s.Start()
			next.WaitState("WAITING", "in use", soon)
			s.SQL(fmt.Sprintf("INSERT INTO a VALUES (%d)", 100+i))
			old.Signal(syscall.SIGCONT)
			if code := old.Wait(soon); code != connectorFenced {
				t.Errorf("inside %v: the old worker ended with code %d, want %d: %s", inside, code, connectorFenced, old.Message())
			}
			next.WaitRunning()
			s.CaughtUp(soon)
			s.SlotNotAhead()
			next.Stop()
			s.SlotFree()
		}
		s.Finish(s.Run(), harness.Expect{})
		s.SameRows("public", "a", "id", "v")
	})
}

// Case 140: a slow broker slows the stream down; nothing is abandoned, begun again or repeated.
func TestThrottledKafka(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		kafka := servers.Kafka(t)
		px := kafka.Proxy(t)
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, v text)"}, KafkaAddr: kafka.ProxyBootstrap()})
		w := s.Run()
		s.SQL("INSERT INTO a VALUES (0)")
		s.CaughtUp(soon)
		px.Throttle(100_000)
		s.SQL("INSERT INTO a SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 2000) g") // some 900 kB
		end := s.End()
		s.Published(end, time.Minute)
		px.Throttle(0)
		if res := s.Finish(w, harness.Expect{}); res.Changes != 2001 {
			t.Errorf("%s", res)
		}
	})
}

// A connection that breaks anywhere, in the middle of commits too, leaves their outcome unknown: it is settled, and nothing is lost or
// repeated, without the process being started again.
func TestConnectionCutInCommits(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		rnd := seeded(t)
		kafka := servers.Kafka(t)
		px := kafka.Proxy(t)
		s := stream(t, major, harness.Options{Setup: crashSetup, Publication: crashTables, KafkaAddr: kafka.ProxyBootstrap()})
		w := s.Run()
		stop := load(t, s, rnd, 2, 20*time.Millisecond)
		rounds := 4
		if newest(major) {
			rounds = 8
		}
		for i := range rounds {
			s.CaughtUp(time.Minute)
			time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond) // somewhere in the commits
			switch i % 4 {
			case 0:
				px.Reset()
			case 1: // what was asked is done, the answer is lost
				px.Pause(proxy.Down)
				time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
				px.Reset()
				px.Resume()
			case 2: // what was asked is lost
				px.Pause(proxy.Up)
				time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
				px.Reset()
				px.Resume()
			case 3:
				px.Cut()
				time.Sleep(200 * time.Millisecond)
				if err := px.Restore(); err != nil {
					t.Fatal(err)
				}
			}
			s.SlotNotAhead()
		}
		n := stop()
		if w.Ended() {
			t.Fatalf("the worker ended: %s", w.Message())
		}
		s.Finish(w, harness.Expect{Captured: func(_, table string) bool { return table != "elsewhere" }})
		t.Logf("%d transactions of the load", n)
	})
}

// The broker is stopped in order and killed; the worker waits and goes on.
func TestBrokerRestarts(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		if !newest(major) {
			t.Skip("the broker is the same for every PostgreSQL")
		}
		kafka := servers.NewKafka(t, env.KafkaOptions{})
		s := stream(t, major, harness.Options{Kafka: kafka, Setup: crashSetup, Publication: crashTables})
		w := s.Run()
		stop := load(t, s, seeded(t), 1, 50*time.Millisecond)
		for _, end := range []func() error{func() error { return kafka.Stop(s.Ctx) }, func() error { return kafka.Kill(s.Ctx) }} {
			s.CaughtUp(time.Minute)
			if err := end(); err != nil {
				t.Fatal(err)
			}
			s.SQL("INSERT INTO nk VALUES (1, 'while the broker is away')")
			if err := kafka.Start(s.Ctx); err != nil {
				t.Fatal(err)
			}
		}
		s.CaughtUp(time.Minute)
		stop()
		if w.Ended() {
			t.Fatalf("the worker ended: %s", w.Message())
		}
		s.Finish(w, harness.Expect{Captured: func(_, table string) bool { return table != "elsewhere" }})
	})
}

// Case 148: while the registry is away known schemas flow; an unknown one waits, with its reason, and flows when it is back.
func TestRegistryOutage(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		registry := servers.Registry(t)
		px, err := proxy.New("127.0.0.1:0", registry.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(px.Close)
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)"}, RegistryURL: registry.URLAt(px.Addr())})
		w := s.Run()
		s.SQL("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
		s.CaughtUp(soon)
		px.Cut()
		s.SQL("INSERT INTO a VALUES (2)", "INSERT INTO b VALUES (2)")
		s.CaughtUp(soon) // known schemas flow
		s.SQL("ALTER TABLE b ADD c text", "INSERT INTO a VALUES (3)")
		s.CaughtUp(soon)
		end := s.Boundary() // the end of the WAL may be later, by a record that is nobody's
		s.SQL("INSERT INTO b VALUES (3, 'unknown schema')", "INSERT INTO a VALUES (4)")
		w.WaitState("WAITING", "registry", soon)
		if s.Published(end, soon); len(s.Records(harness.Committed)) != 5 {
			t.Errorf("records %v, want the 5 before the unknown schema", s.Records(harness.Committed))
		}
		s.SlotNotAhead()
		if err := px.Restore(); err != nil {
			t.Fatal(err)
		}
		if res := s.Finish(w, harness.Expect{}); res.Changes != 7 {
			t.Errorf("%s", res)
		}
	})
}

// A transaction far larger than the memory it may take goes through in one Kafka transaction, whole or not at all, also when the worker
// is killed inside it.
func TestHugeTransaction(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		rows := 60_000
		if newest(major) {
			rows = 300_000
		}
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, v text)"},
			Connector: map[string]string{"memory.budget.bytes": "8388608"}})
		w := s.Run()
		topic := s.Topic("public", "a")
		s.SQL("INSERT INTO a VALUES (0, 'before')")
		s.CaughtUp(soon)
		s.SQL(fmt.Sprintf("INSERT INTO a SELECT g, repeat('h', 100) FROM generate_series(1, %d) g", rows))
		if !harness.Eventually(soon, func() bool { return s.OpenTransaction(topic) }) {
			t.Error("no open transaction was seen")
		}
		w.Kill()
		s.SlotNotAhead()
		if n := len(s.Records(harness.Committed)); n != 1 {
			t.Errorf("%d records committed of a transaction that was not", n-1)
		}
		w = s.Run()
		peak := int64(0)
		end := s.End()
		if !harness.Eventually(2*time.Minute, func() bool { peak = max(peak, w.RSS()); return s.Boundary() >= end }) {
			t.Fatalf("not published; state %v", w.State())
		}
		t.Logf("peak memory %d MiB for %d rows", peak>>20, rows)
		if peak > 120<<20 {
			t.Errorf("peak memory %d MiB, more than 120", peak>>20)
		}
		w.Stop()
		records := s.Records(harness.Committed)
		if len(records) != rows+1 {
			t.Fatalf("%d records, want %d", len(records), rows+1)
		}
		commits := map[uint64]int{}
		for _, r := range records {
			commits[r.LSN]++
		}
		if len(commits) != 2 {
			t.Errorf("%d commit positions, want 2", len(commits))
		}
		if n := producers(s, topic); n != 1 {
			t.Errorf("the committed rows were written by %d producer epochs, want 1", n)
		}
		s.SlotFree()
		s.Check(harness.Expect{})
	})
}

// producers counts the Kafka transactions that rows of a topic came in, the first row aside: the broker gives each transaction
// an epoch of its own (KIP-890).
func producers(s *harness.Stream, topic string) int {
	seen := map[string]bool{}
	for _, r := range s.Raw(harness.Committed, topic) {
		for _, h := range r.Headers {
			if h.Key == "__pos" {
				seen[fmt.Sprintf("%d/%d %s", r.ProducerID, r.ProducerEpoch, h.Value)] = true
			}
		}
	}
	return len(seen) - 1
}

// Case 8: while Kafka does not answer, the slot does not move past what Kafka has committed, at any moment one looks.
func TestSlotWaitsForKafka(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		kafka := servers.Kafka(t)
		px := kafka.Proxy(t)
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"}, KafkaAddr: kafka.ProxyBootstrap(),
			Connector: map[string]string{"heartbeat.interval.ms": "100"}})
		w := s.Run()
		s.SQL("INSERT INTO a VALUES (0)")
		s.CaughtUp(soon)
		px.Pause()
		committed := s.Boundary() // nothing is committed from here on, but what was on its way
		harness.Eventually(time.Second, func() bool { before := committed; committed = s.Boundary(); return before == committed })
		for i := range 20 {
			s.SQL(fmt.Sprintf("INSERT INTO a VALUES (%d)", i+1))
			time.Sleep(50 * time.Millisecond)
			if confirmed := s.Confirmed(); confirmed > s.Boundary() {
				t.Fatalf("the slot is confirmed up to %s, Kafka has %s", check.FormatLSN(confirmed), check.FormatLSN(s.Boundary()))
			}
		}
		w.Kill()
		px.Reset()
		px.Resume()
		s.SlotFree()
		if res := s.Finish(s.Run(), harness.Expect{}); res.Changes != 21 {
			t.Errorf("%s", res)
		}
	})
}
