// Package promotion tests what a stream does when its server's standby takes over (PostgreSQL 17 and newer, failover slots):
// the ordinary connectctl binary, a primary and a standby of each test's own.
//
// TIDEMARK_PROMOTION_MAJORS names the PostgreSQL versions (default 17,18); TIDEMARK_CONNECTCTL a binary to test in place of a
// fresh build.
package promotion

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

var (
	servers *env.Env
	binary  string
)

func TestMain(m *testing.M) { env.Main(runner{m}, &servers) }

// runner builds the binary around the tests.
type runner struct{ m *testing.M }

func (r runner) Run() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if binary = os.Getenv("TIDEMARK_CONNECTCTL"); binary != "" {
		return r.m.Run()
	}
	var err error
	if binary, err = harness.Build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer harness.Remove(binary)
	return r.m.Run()
}

const soon = 30 * time.Second

// on runs a test on every version that has failover slots.
func on(t *testing.T, test func(t *testing.T, major int)) {
	t.Parallel()
	list := os.Getenv("TIDEMARK_PROMOTION_MAJORS")
	if list == "" {
		list = "17,18"
	}
	for name := range strings.SplitSeq(list, ",") {
		major, err := strconv.Atoi(name)
		if err != nil {
			t.Fatalf("TIDEMARK_PROMOTION_MAJORS: %v", err)
		}
		t.Run("pg"+name, func(t *testing.T) {
			t.Parallel()
			test(t, major)
		})
	}
}

// pair is a primary and its standby.
type pair struct {
	t                *testing.T
	primary, standby *env.Postgres
}

// newPair starts both. Where guarded, the primary sends nothing to a failover slot that the standby does not have.
func newPair(t *testing.T, major int, guarded bool) *pair {
	t.Helper()
	quiet := map[string]string{"autovacuum": "off"} // a transaction of its own would make a slot wait for it on the standby
	p := &pair{t: t, primary: servers.NewPostgres(t, major, env.PostgresOptions{Settings: quiet})}
	p.standby = p.primary.NewStandby(t, env.PostgresOptions{Settings: map[string]string{
		"autovacuum": "off", "hot_standby_feedback": "on", "sync_replication_slots": "on", "wal_receiver_status_interval": "1"}})
	if guarded {
		slot := ask(t, p.primary, "SELECT slot_name::text FROM pg_replication_slots WHERE slot_type = 'physical'")
		p.exec(p.primary, "ALTER SYSTEM SET synchronized_standby_slots = '"+slot+"'", "SELECT pg_reload_conf()")
	}
	return p
}

func (p *pair) exec(on *env.Postgres, statements ...string) {
	p.t.Helper()
	if err := on.Exec(p.t.Context(), "postgres", statements...); err != nil {
		p.t.Fatal(err)
	}
}

// ask returns what a query selects, empty where there is no row.
func ask(t *testing.T, server *env.Postgres, query string, args ...any) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return strings.Join(list, ",")
}

// stream makes a stream on the primary, without slots.
func (p *pair) stream(o harness.Options) *harness.Stream {
	p.t.Helper()
	o.Binary, o.PG, o.Kafka, o.Registry, o.NoSlot = binary, p.primary, servers.Kafka(p.t), servers.Registry(p.t), true
	return harness.New(p.t, o)
}

// slots makes the slot and the judge of each stream.
func (p *pair) slots(failover bool, streams ...*harness.Stream) {
	p.t.Helper()
	for _, s := range streams {
		for _, slot := range []string{s.Judge, s.Name} {
			s.SQL(fmt.Sprintf("SELECT pg_create_logical_replication_slot('%s', 'pgoutput', false, false, %t)", slot, failover))
		}
	}
}

// synced makes failover slots and waits until the standby has them for good. A slot that nobody reads must need nothing that
// the standby has passed when it looks: so the primary must know first which transaction the standby is at.
func (p *pair) synced(streams ...*harness.Stream) {
	p.t.Helper()
	if !harness.Eventually(soon, func() bool {
		return ask(p.t, p.primary, "SELECT (xmin::text = pg_snapshot_xmax(pg_current_snapshot())::text)::text FROM pg_replication_slots WHERE slot_type = 'physical' AND xmin IS NOT NULL") == "true"
	}) {
		p.t.Fatal("no feedback from the standby")
	}
	p.slots(true, streams...)
	var names []string
	for _, s := range streams {
		names = append(names, s.Name, s.Judge)
	}
	if !harness.Eventually(soon, func() bool {
		p.exec(p.standby, "SELECT pg_reload_conf()") // which wakes the worker that synchronizes; its naps grow to 30 s
		return ask(p.t, p.standby, "SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = ANY($1) AND synced AND NOT temporary AND invalidation_reason IS NULL", names) == strconv.Itoa(len(names))
	}) {
		log, _ := os.ReadFile(filepath.Join(p.standby.Dir, "log"))
		p.t.Fatalf("the standby did not synchronize %v; it has %s and says\n%s", names, ask(p.t, p.standby, "SELECT s::text FROM pg_replication_slots s"), log[max(0, len(log)-4000):])
	}
}

// separate ends the standby's replication for good; what the primary writes from now on it never has.
func (p *pair) separate() {
	p.t.Helper()
	p.exec(p.standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	if !harness.Eventually(soon, func() bool { return ask(p.t, p.standby, "SELECT count(*)::text FROM pg_stat_wal_receiver") == "0" }) {
		p.t.Fatal("the standby still receives")
	}
}

// promote makes the standby the primary and returns where its timeline begins.
func (p *pair) promote() (branch string) {
	p.t.Helper()
	if err := p.standby.Promote(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	history := ask(p.t, p.standby, "SELECT pg_read_file('pg_wal/00000002.history')")
	fields := strings.Fields(history)
	if len(fields) < 2 {
		p.t.Fatalf("history of timeline 2: %q", history)
	}
	return fields[1]
}

func address(p *env.Postgres) string { return fmt.Sprintf("%s:%d", p.Host(), p.Port()) }
