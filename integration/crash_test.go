package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

var crashSetup = []string{
	`CREATE TABLE a(id int PRIMARY KEY, n int, d numeric(12,2), at timestamptz, big text); ALTER TABLE a ALTER big SET STORAGE EXTERNAL`,
	`CREATE TABLE f(k text, id int, n int, big text, PRIMARY KEY (id, k)); ALTER TABLE f ALTER big SET STORAGE EXTERNAL; ALTER TABLE f REPLICA IDENTITY FULL`,
	`CREATE TABLE nk(n int, s text); ALTER TABLE nk REPLICA IDENTITY FULL`,
	`CREATE TABLE elsewhere(id int)`,
}

const crashTables = "FOR TABLE a, f, nk"

// writer is a session that makes random transactions on keys of its own.
type writer struct {
	id   int
	rnd  *rand.Rand
	conn *pgx.Conn
	next int
	live []int
	made int // changes of the transaction made last
}

// transaction is one random transaction's SQL.
func (w *writer) transaction() string {
	var b strings.Builder
	b.WriteString("BEGIN;")
	n := 1 + w.rnd.IntN(8)
	if w.rnd.IntN(40) == 0 {
		n = 1500
	}
	w.made = n
	for i := range n {
		w.change(&b)
		if i%7 == 6 && w.rnd.IntN(3) == 0 {
			fmt.Fprintf(&b, "SAVEPOINT s; UPDATE a SET n = -1 WHERE id BETWEEN %d AND %d; ROLLBACK TO s;", w.id*1_000_000, w.id*1_000_000+20)
		}
	}
	b.WriteString("COMMIT")
	return b.String()
}

func (w *writer) change(b *strings.Builder) {
	big := "NULL"
	if w.rnd.IntN(6) == 0 {
		big = "repeat('b', 3000)"
	}
	switch k := w.rnd.IntN(12); {
	case k < 4 || len(w.live) == 0:
		id := w.id*1_000_000 + w.next
		w.next++
		w.live = append(w.live, id)
		fmt.Fprintf(b, "INSERT INTO a VALUES (%d, 0, %d.25, clock_timestamp(), %s);", id, id, big)
	case k < 6:
		fmt.Fprintf(b, "UPDATE a SET n = n + 1 WHERE id = %d;", w.pick())
	case k == 6:
		at := w.rnd.IntN(len(w.live))
		fmt.Fprintf(b, "DELETE FROM a WHERE id = %d;", w.live[at])
		w.live[at] = w.live[len(w.live)-1]
		w.live = w.live[:len(w.live)-1]
	case k == 7:
		at := w.rnd.IntN(len(w.live))
		id := w.id*1_000_000 + w.next
		w.next++
		fmt.Fprintf(b, "UPDATE a SET id = %d WHERE id = %d;", id, w.live[at])
		w.live[at] = id
	case k == 8:
		fmt.Fprintf(b, "INSERT INTO f VALUES ('w%d', %d, 1, %s) ON CONFLICT (id, k) DO UPDATE SET n = f.n + 1;", w.id, w.rnd.IntN(50), big)
	case k == 9:
		fmt.Fprintf(b, "DELETE FROM f WHERE k = 'w%d' AND id = %d;", w.id, w.rnd.IntN(50))
	case k == 10:
		fmt.Fprintf(b, "INSERT INTO nk VALUES (%d, 'w%d'); UPDATE nk SET n = n + 1 WHERE s = 'w%d' AND n %% 17 = 0;", w.rnd.IntN(100), w.id, w.id)
	default:
		fmt.Fprintf(b, "INSERT INTO elsewhere VALUES (1); SELECT pg_logical_emit_message(%t, 'm', 'x');", w.rnd.IntN(2) == 0)
	}
}

func (w *writer) pick() int { return w.live[w.rnd.IntN(len(w.live))] }

// load runs writers until stop is called, which waits for them.
func load(t *testing.T, s *harness.Stream, rnd *rand.Rand, writers int, pause time.Duration) (stop func() int) {
	return loadFrom(t, s, rnd, 1, writers, pause)
}

// loadFrom is load with writers of other numbers, and so of other keys, than those before.
func loadFrom(t *testing.T, s *harness.Stream, rnd *rand.Rand, first, writers int, pause time.Duration) (stop func() int) {
	end := countedLoad(t, s, rnd, first, writers, pause)
	return func() int { n, _ := end(); return n }
}

// countedLoad is loadFrom that tells the changes that were committed, too.
func countedLoad(t *testing.T, s *harness.Stream, rnd *rand.Rand, first, writers int, pause time.Duration) (stop func() (transactions, changes int)) {
	ctx, cancel := context.WithCancel(s.Ctx)
	var wg sync.WaitGroup
	var done, made atomic.Int64
	for i := range writers {
		w := &writer{id: first + i, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 0)), conn: s.Connect()}
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := w.conn.PgConn().Exec(s.Ctx, w.transaction()).ReadAll(); err != nil {
					if s.Ctx.Err() == nil {
						t.Errorf("workload: %v", err)
					}
					return
				}
				done.Add(1)
				made.Add(int64(w.made))
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(w.rnd.Int64N(int64(pause)))):
				}
			}
		})
	}
	return func() (int, int) { cancel(); wg.Wait(); return int(done.Load()), int(made.Load()) }
}

// The worker is killed again and again, at named points and at random ones, under a random load; in the end every change is in the
// topics once, in order, as the log has it, and after every kill the slot is not ahead of what Kafka has committed (case 8).
func TestCrash(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		rnd := seeded(t)
		server := servers.Postgres(t, major)
		px, err := proxy.New("127.0.0.1:0", fmt.Sprintf("%s:%d", server.Host(), server.Port()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(px.Close)
		s := stream(t, major, harness.Options{PG: server, Setup: crashSetup, Publication: crashTables, PGAddr: px.Addr()})
		stop := load(t, s, rnd, 2, 60*time.Millisecond)
		c := &crasher{t: t, s: s, px: px, rnd: rnd}
		points := []func(){c.inOpenTransaction, c.asRowsAppear, c.beforeSlotAck, c.whileStarting, c.whileStopping, c.anyTime}
		rounds := 6
		if newest(major) {
			rounds = 12
		}
		for i := range rounds {
			c.w = s.Start()
			points[i%len(points)]()
			c.w.Kill()
			px.Reset()
			px.Resume()
			s.SlotNotAhead()
			if t.Failed() {
				break
			}
		}
		n := stop()
		w := s.Run()
		s.CaughtUp(time.Minute)
		w.Kill() // at idle
		s.SlotFree()
		s.SlotNotAhead()
		w = s.Run()
		res := s.Finish(w, harness.Expect{Captured: func(_, table string) bool { return table != "elsewhere" }})
		t.Logf("%d transactions of the load, %d kills; points met: %v", n, rounds+1, c.met)
		if res.Transactions < n/2 {
			t.Errorf("%d transactions judged of %d", res.Transactions, n)
		}
		s.SameRows("public", "a", "id", "n", "d", "at", "big")
		s.SameRows("public", "f", "k", "id", "n", "big")
		s.SameRows("public", "nk", "n", "s")
	})
}

// crasher brings a worker to a point at which it is to be killed.
type crasher struct {
	t   *testing.T
	s   *harness.Stream
	px  *proxy.Proxy
	rnd *rand.Rand
	w   *harness.Worker
	met []string
}

func (c *crasher) reached(point string, ok bool) {
	if !ok {
		c.t.Errorf("the point %q was not reached; worker in state %v", point, c.w.State())
	}
	c.met = append(c.met, point)
}

// inOpenTransaction: the broker holds records of a Kafka transaction that is not committed.
func (c *crasher) inOpenTransaction() {
	c.w.WaitRunning()
	c.s.CaughtUp(soon)
	topic := c.s.Topic("public", "a")
	seen := false // one may be over before it is looked for: then another is made
	for range 10 {
		base := c.rnd.IntN(1 << 20)
		c.s.SQL(fmt.Sprintf("INSERT INTO a SELECT 100000000 + %d * 1000 + g, g, g, now(), repeat('o', 200) FROM generate_series(1, 20000) g ON CONFLICT DO NOTHING", base))
		end := c.s.End()
		harness.Eventually(soon, func() bool { seen = seen || c.s.OpenTransaction(topic); return seen || c.s.Boundary() >= end })
		if seen {
			break
		}
	}
	c.reached("open transaction", seen)
}

// asRowsAppear: a consumer sees the first rows of a transaction; their offset must be there with them.
func (c *crasher) asRowsAppear() {
	c.w.WaitRunning()
	c.s.SQL("INSERT INTO nk VALUES (-2, 'seen')")
	c.s.CaughtUp(soon)
	topic := c.s.Topic("public", "nk")
	before := c.s.CommittedEnd(topic)
	c.s.SQL("INSERT INTO nk VALUES (-2, 'appears')")
	ok := false
	for deadline := time.Now().Add(soon); !ok && time.Now().Before(deadline); {
		ok = c.s.CommittedEnd(topic) > before
	}
	c.w.Kill()
	c.reached("rows appear", ok)
}

// beforeSlotAck: Kafka has committed what the slot has not been told.
func (c *crasher) beforeSlotAck() {
	c.w.WaitRunning()
	// Every table is seen once before: a table that comes up is looked up in the catalogue, which the pause would cut off.
	c.s.SQL("INSERT INTO nk VALUES (-1, 'seen'); INSERT INTO f VALUES ('seen', -1, 0) ON CONFLICT (id, k) DO UPDATE SET n = f.n + 1; INSERT INTO a(id) VALUES (-1) ON CONFLICT (id) DO UPDATE SET n = a.n + 1")
	c.s.CaughtUp(soon)
	end := c.s.End() // still under the load: what comes now is decoded and published, but not acknowledged
	c.px.Pause(proxy.Up)
	c.s.SQL("INSERT INTO nk VALUES (-1, 'unacknowledged')")
	c.reached("committed, not acknowledged", harness.Eventually(soon, func() bool { return c.s.Boundary() > end && c.s.Boundary() > c.s.Confirmed() }))
}

// whileStarting: at a random moment of the start.
func (c *crasher) whileStarting() {
	c.w.WaitState("STARTING", "", soon)
	time.Sleep(time.Duration(c.rnd.IntN(400)) * time.Millisecond)
	c.reached("start", true)
}

// whileStopping: during the graceful stop.
func (c *crasher) whileStopping() {
	c.w.WaitRunning()
	c.s.SQL("INSERT INTO nk SELECT g, 'stopping' FROM generate_series(1, 3000) g")
	c.w.Signal(syscall.SIGTERM)
	time.Sleep(time.Duration(c.rnd.IntN(60)) * time.Millisecond)
	c.reached("stop", true)
}

func (c *crasher) anyTime() {
	c.w.WaitState("STARTING", "", soon)
	time.Sleep(time.Duration(c.rnd.IntN(1500)) * time.Millisecond)
	c.reached("any time", true)
}

// Killed between the creation of its slot and its first offset, the next start takes the slot as it is: nothing that was
// committed after it is lost.
func TestKilledAfterSlotCreation(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: crashSetup, Publication: crashTables, NoSlot: true})
		w := s.Start()
		if !harness.Eventually(soon, func() bool { return s.Confirmed() != 0 }) {
			t.Fatal("no slot was created")
		}
		w.Kill()
		s.SlotFree()
		t.Logf("killed with %d stored entries", len(s.Offsets()))
		if len(s.Offsets()) == 0 {
			s.SQL("SELECT pg_copy_logical_replication_slot('" + s.Name + "', '" + s.Judge + "')")
		} else { // it was quicker than us: the slot may have moved, nothing was written since
			s.SQL("SELECT pg_create_logical_replication_slot('" + s.Judge + "', 'pgoutput')")
		}
		s.SQL("INSERT INTO a(id) SELECT generate_series(1, 100)")
		w = s.Run()
		if res := s.Finish(w, harness.Expect{}); res.Changes != 100 {
			t.Errorf("%d changes, want 100", res.Changes)
		}
	})
}

// Case 1: killed in the middle of 50,000 rows of one statement, before and after the Kafka commit.
func TestStatementOfManyRows(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, v text)"}})
		w := s.Run()
		s.SQL("INSERT INTO a SELECT g, repeat('x', 50) FROM generate_series(1, 50000) g")
		topic, end, seen := s.Topic("public", "a"), s.End(), false
		if !harness.Eventually(soon, func() bool { seen = seen || s.OpenTransaction(topic); return seen || s.Boundary() >= end }) {
			t.Error("neither an open transaction nor its end was seen")
		}
		t.Logf("killed inside the Kafka transaction: %t", seen)
		w.Kill()
		s.SlotNotAhead()
		w = s.Run()
		s.Published(end, soon)
		w.Kill()
		s.SlotNotAhead()
		if res := s.Finish(s.Run(), harness.Expect{}); res.Changes != 50000 || res.Transactions != 1 {
			t.Errorf("%s", res)
		}
		s.SameRows("public", "a", "id", "v")
	})
}

// Case 2: single-row transactions from one session, the worker stopped in order and killed in between.
func TestSingleRowTransactions(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		rnd := seeded(t)
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"}})
		restarts := 8
		if newest(major) {
			restarts = 25
		}
		const total = 2000
		at := map[int]bool{}
		for len(at) < restarts {
			at[rnd.IntN(total)] = true
		}
		w := s.Run()
		for i := range total {
			s.SQL(fmt.Sprintf("INSERT INTO a VALUES (%d)", i))
			if !at[i] {
				continue
			}
			if rnd.IntN(4) == 0 && w.Saw("STARTING", "") { // before that SIGTERM is not caught
				w.Stop()
			} else {
				time.Sleep(time.Duration(rnd.IntN(8000)) * time.Microsecond) // somewhere in its publication
				w.Kill()
			}
			s.SlotNotAhead()
			w = s.Start()
			if rnd.IntN(4) > 0 {
				w.WaitRunning()
			}
		}
		w.WaitRunning()
		if res := s.Finish(w, harness.Expect{}); res.Transactions != total {
			t.Errorf("%s", res)
		}
	})
}

// Case 5: a transactional message and a row after it, the worker killed before the Kafka commit.
func TestRowAfterMessage(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, v text)"}})
		w := s.Run()
		s.SQL("BEGIN; SELECT pg_logical_emit_message(true,'app','m1'); INSERT INTO a VALUES (2,'after-msg'); COMMIT")
		w.Kill()
		res := s.Finish(s.Run(), harness.Expect{})
		records := s.Records(harness.Committed)
		if res.Changes != 2 || len(records) != 2 || records[0].LSN != records[1].LSN || records[0].Seq+records[1].Seq != 1 {
			t.Errorf("%s; records %v", res, records)
		}
	})
}
