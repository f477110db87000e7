package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

const connectorRefused = 5

// Cases 6, 10, 14 and 15: an idle stream beside busy neighbours, in its own database and in another, holds no WAL: the slot
// follows at the heartbeat, from the first second after every restart, with and without a heartbeat query.
func TestIdleStreamHoldsNoWAL(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		const heartbeat = 300 * time.Millisecond
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE busy(v text)"}, Publication: "FOR TABLE a",
			Connector: map[string]string{"heartbeat.interval.ms": "300"}})
		neighbour := servers.Postgres(t, major).NewDatabase(t)
		if err := neighbour.Exec(s.Ctx, "CREATE TABLE busy(v text)"); err != nil {
			t.Fatal(err)
		}
		other := neighbour.Connect(t)
		for round := range 3 {
			if round == 2 {
				s.Configure(map[string]string{"heartbeat.action.query": "SELECT pg_logical_emit_message(true, 'heartbeat', '')"})
			}
			w := s.Run()
			moved, last := 0, s.Confirmed()
			for range 8 {
				s.SQL("INSERT INTO busy SELECT repeat('x', 100) FROM generate_series(1, 500)")
				if _, err := other.Exec(s.Ctx, "INSERT INTO busy SELECT repeat('x', 100) FROM generate_series(1, 500)"); err != nil {
					t.Fatal(err)
				}
				end := s.LSN("SELECT pg_current_wal_lsn()::text")
				if !harness.Eventually(20*heartbeat, func() bool { return s.Confirmed() >= end }) {
					t.Fatalf("round %d: the slot does not follow: %d bytes behind", round, s.LSN("SELECT pg_current_wal_lsn()::text")-s.Confirmed())
				}
				s.SlotNotAhead()
				if now := s.Confirmed(); now > last {
					moved, last = moved+1, now
				}
			}
			if moved < 8 {
				t.Errorf("round %d: the slot moved %d times of 8", round, moved)
			}
			if wal := s.Query("SELECT wal_status FROM pg_replication_slots WHERE slot_name = $1", s.Name); wal != "reserved" {
				t.Errorf("wal_status is %s", wal)
			}
			w.Kill()
			s.SlotFree()
		}
		s.Configure(map[string]string{"heartbeat.action.query": ""}) // a message sent as the worker stops would be for the next start
		s.SQL("INSERT INTO a VALUES (1)")
		s.Finish(s.Run(), harness.Expect{})
	})
}

// Case 7: the slot was dropped and made again while the worker was stopped: refused, with both positions, and nothing is touched.
func TestSlotRecreated(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"}})
		w := s.Run()
		s.SQL("INSERT INTO a SELECT generate_series(1, 9)")
		s.CaughtUp(soon)
		w.Stop()
		s.SlotFree()
		s.SQL("SELECT pg_drop_replication_slot('" + s.Name + "')")
		refused(t, s, s.Name) // the slot is missing
		s.SQL("INSERT INTO a SELECT generate_series(10, 20)", "SELECT pg_create_logical_replication_slot('"+s.Name+"', 'pgoutput')")
		slot := s.Query("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.Name)
		refused(t, s, slot)
		refused(t, s, slot) // and again
		if got := s.Query("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.Name); got != slot {
			t.Errorf("the slot moved from %s to %s", slot, got)
		}
		if n := len(s.Records(harness.Uncommitted)); n != 9 {
			t.Errorf("%d records, want 9", n)
		}
	})
}

// refused starts a worker that must end with the code of a refusal and a sentence that contains a text.
func refused(t *testing.T, s *harness.Stream, text string) {
	t.Helper()
	w := s.Start()
	if code := w.Wait(soon); code != connectorRefused || !strings.Contains(w.Message(), text) {
		t.Errorf("code %d, want %d; %q should say %q", code, connectorRefused, w.Message(), text)
	}
	s.SlotFree()
}

// Case 12: the stored offset is beyond the server's log, and the stored offset is another server's.
func TestOffsetOfAnotherServer(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"}})
		w := s.Run()
		s.SQL("INSERT INTO a VALUES (1)")
		s.CaughtUp(soon)
		w.Stop()
		s.SlotFree()
		code, out, errs := s.Ctl("offsets", "set", s.WorkerFile, s.ConfigFile, `{"boundary_lsn":"FFFF/0"}`)
		if code == 0 {
			refused(t, s, "FFFF/0")
		} else if !strings.Contains(errs, "FFFF/0") {
			t.Errorf("offsets set: code %d %s%s", code, out, errs)
		}
		// Another server, on which everything has the same name.
		o := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"}})
		w = o.Run()
		o.SQL("INSERT INTO a VALUES (1)")
		o.CaughtUp(soon)
		w.Stop()
		elsewhere := servers.Postgres(t, otherMajor(major))
		o.Configure(map[string]string{"database.port": fmt.Sprint(elsewhere.Port()), "database.hostname": elsewhere.Host(), "database.dbname": "postgres"})
		refused(t, o, o.Query("SELECT system_identifier::text FROM pg_control_system()"))
	})
}

func otherMajor(major int) int {
	for _, m := range allMajors() {
		if m != major {
			return m
		}
	}
	return 17
}

// Case 16: a fast shutdown of the server takes less than 3 s while Kafka does not answer, at rest and under load; the worker
// comes back without repeating anything.
func TestFastShutdown(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		server := servers.NewPostgres(t, major, env.PostgresOptions{})
		kafka := servers.Kafka(t)
		px := kafka.Proxy(t)
		s := stream(t, major, harness.Options{PG: server, Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, v text)"}, KafkaAddr: kafka.ProxyBootstrap()})
		w := s.Run()
		s.SQL("INSERT INTO a SELECT generate_series(1, 100)")
		s.CaughtUp(soon)
		for _, load := range []bool{false, true} {
			px.Pause()
			if load {
				s.SQL("INSERT INTO a SELECT generate_series(1000, 3000)")
			}
			began := time.Now()
			if err := server.Stop(s.Ctx, env.Fast); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			t.Logf("load %v: fast shutdown took %s", load, took.Round(time.Millisecond))
			if took > 3*time.Second {
				t.Errorf("load %v: fast shutdown took %s, more than 3 s", load, took)
			}
			px.Resume()
			if err := server.Start(s.Ctx); err != nil {
				t.Fatal(err)
			}
			s.Conn = s.Connect()
			s.SQL("INSERT INTO a SELECT coalesce(max(id), 0) + 1 FROM a")
			s.CaughtUp(time.Minute)
			if w.Ended() {
				t.Fatalf("the worker ended: %s", w.Message())
			}
		}
		s.Finish(w, harness.Expect{})
		s.SameRows("public", "a", "id")
	})
}

// Case 17: the creation of the slot waits for a transaction; the state says for which.
func TestSlotCreationWaits(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"}, NoSlot: true})
		blocker := s.Connect()
		tx, err := blocker.Begin(s.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(s.Ctx, "SELECT pg_current_xact_id()"); err != nil {
			t.Fatal(err)
		}
		w := s.Start()
		w.WaitState("WAITING", fmt.Sprintf("pid %d", blocker.PgConn().PID()), soon)
		if err := tx.Commit(s.Ctx); err != nil {
			t.Fatal(err)
		}
		w.WaitRunning()
		s.SQL("INSERT INTO a VALUES (1)")
		s.CaughtUp(soon)
		if n := len(s.Records(harness.Committed)); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
		w.Stop()
	})
}

// Case 21: the publication cannot be made because of a lock; the state says who holds it.
func TestPublicationWaitsForLock(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"}, Publication: "-", NoSlot: true,
			Connector: map[string]string{"publication.autocreate.mode": "filtered", "table.include.list": `public\.a`}})
		blocker := s.Connect()
		tx, err := blocker.Begin(s.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(s.Ctx, "LOCK TABLE a IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		w := s.Start()
		w.WaitState("WAITING", fmt.Sprintf("pid %d", blocker.PgConn().PID()), soon)
		if err := tx.Rollback(s.Ctx); err != nil {
			t.Fatal(err)
		}
		w.WaitRunning()
		s.SQL("INSERT INTO a VALUES (1)")
		s.CaughtUp(soon)
		if n := len(s.Records(harness.Committed)); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
		w.Stop()
	})
}

// Case 22: the address leads to a hot standby; the worker waits, and goes on when it is promoted.
func TestStandbyIsPromoted(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		primary := servers.Postgres(t, major)
		standby := primary.NewStandby(t, env.PostgresOptions{})
		s := stream(t, major, harness.Options{PG: primary, NoSlot: true, Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"},
			PGAddr: fmt.Sprintf("%s:%d", standby.Host(), standby.Port())})
		if err := standby.CaughtUp(s.Ctx, primary); err != nil {
			t.Fatal(err)
		}
		w := s.Start()
		w.WaitState("WAITING", "recovery", soon)
		if err := standby.Promote(s.Ctx); err != nil {
			t.Fatal(err)
		}
		w.WaitRunning()
		conn, err := pgx.Connect(s.Ctx, standby.URL(s.DB.Name))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(s.Ctx)
		if _, err := conn.Exec(s.Ctx, "INSERT INTO a VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		if !harness.Eventually(soon, func() bool { return len(s.Records(harness.Committed)) == 1 }) {
			t.Errorf("records %v", s.Records(harness.Committed))
		}
		w.Stop()
	})
}
