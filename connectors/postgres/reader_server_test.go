package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Cases 36, 37, 39, 46 and 47 for chunks: they have of every type what the stream has, byte for byte.
func TestEveryTypeIsTheSameFromChunkAndStream(t *testing.T) {
	onEach(t, func(p *pgtest) {
		cases := prepareTypes(p, slices.Clone(typeCases))
		s := p.open(Options{})
		r := p.openReader(s)
		equalTo(p, t, s, cases, func(table string, each func(*schema.Table, schema.Row) error) { p.chunkRows(r, "public."+table, each) })
	})
}

// readError reads a chunk that is to fail.
func (p *pgtest) readError(r connectors.Reader, q connectors.ChunkQuery, class connectors.Class, want string) {
	p.Helper()
	if q.Limit == 0 {
		q.Limit = 10
	}
	_, err := r.Chunk(p.ctx, q)
	p.wantError(err, class, want)
}

// A table's own failures are refused with a sentence, and the reader goes on to serve other tables.
func TestReaderRefusesInASentence(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.asRole()
		role := p.raw[propUser]
		p.sql("CREATE TABLE good(id int PRIMARY KEY, v text, u int NOT NULL, w int UNIQUE)", "INSERT INTO good SELECT g, 'x' || g, g, g FROM generate_series(1, 30) g",
			"CREATE TABLE gone(id int PRIMARY KEY)", "CREATE TABLE hidden(id int PRIMARY KEY)", "CREATE TABLE mine(id int PRIMARY KEY)", "CREATE TABLE rekeyed(id int PRIMARY KEY, other int NOT NULL UNIQUE)",
			"CREATE SEQUENCE ticks", "CREATE TABLE bare(v text)", "ALTER TABLE bare REPLICA IDENTITY FULL", "INSERT INTO bare VALUES ('a')")
		s := p.open(Options{})
		r := p.openReader(s)
		p.exec(p.admin, "ALTER ROLE "+role+" NOSUPERUSER")
		p.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+role, "GRANT USAGE ON ticks TO "+role, "REVOKE SELECT ON hidden FROM "+role, "DROP TABLE gone",
			"ALTER TABLE mine ENABLE ROW LEVEL SECURITY", "ALTER TABLE rekeyed DROP CONSTRAINT rekeyed_pkey, ADD PRIMARY KEY (other)")
		s2, err := s.OpenReader(p.ctx) // rights are those of the session's role now
		if err != nil {
			p.Fatal(err)
		}
		defer func() { _ = s2.Close(p.ctx) }()
		refused := func(q connectors.ChunkQuery, want string) {
			p.Helper()
			p.readError(s2, q, connectors.ClassRefused, want)
			if c := p.chunk(s2, connectors.ChunkQuery{Table: "public.good", Limit: 5}); len(c.Rows) != 5 {
				p.Fatalf("after that a chunk has %d rows", len(c.Rows))
			}
		}
		refused(connectors.ChunkQuery{Table: "public.gone"}, "does not exist any more")
		refused(connectors.ChunkQuery{Table: "public.never"}, "is not captured")
		refused(connectors.ChunkQuery{Table: "public.hidden"}, "GRANT SELECT")
		refused(connectors.ChunkQuery{Table: "public.mine"}, "row-level security")
		refused(connectors.ChunkQuery{Table: "public.rekeyed"}, "its key is (other), but the stream has the key (id)")
		refused(connectors.ChunkQuery{Table: "public.bare"}, "has no key")
		for where, want := range map[string]string{
			"nosuch = 1": `"nosuch = 1" cannot be used: column "nosuch" does not exist`, "id =": "cannot be used: syntax error", "f(id)": "with their schema", "id = 'x'": "invalid input syntax",
			"true) UNION SELECT (true": "cannot be used", "true) LIMIT (1": "cannot be used", "true THEN 1 END FROM good; SELECT CASE WHEN true": "cannot be used", "id": "cannot be used", "id / (id - 7) = 1": "fails on a row (SQLSTATE 22012)",
			"id = $1": "it has a parameter", "nextval('public.ticks') > 0": "it writes to the database",
			"true --": "", "v::int = 1": "fails on a row (SQLSTATE 22P02)",
		} {
			if want != "" {
				refused(connectors.ChunkQuery{Table: "public.good", Where: where}, want)
			} else if c := p.chunk(s2, connectors.ChunkQuery{Table: "public.good", Where: where, Limit: 100}); len(c.Rows) != 30 {
				p.Fatalf("%q: %d rows", where, len(c.Rows))
			}
		}
		refused(connectors.ChunkQuery{Table: "public.good", Key: []string{"u"}}, "no unique index")
		refused(connectors.ChunkQuery{Table: "public.good", Key: []string{"w"}}, "may be NULL")
		refused(connectors.ChunkQuery{Table: "public.good", Key: []string{"none"}}, `no column "none"`)
		refused(connectors.ChunkQuery{Table: "public.good", After: `["a"]`}, "does not fit the types of the key")
		refused(connectors.ChunkQuery{Table: "public.good", After: `["1","2"]`}, "does not fit the columns")
		if c := p.chunk(s2, connectors.ChunkQuery{Table: "public.good", Where: "id % 2 = 0", Limit: 100}); len(c.Rows) != 15 {
			p.Fatalf("%d rows fulfil the condition", len(c.Rows))
		}
		table, rows, err := s2.Table(p.ctx, "public.good")
		if err != nil || table.QualifiedName() != "public.good" || rows != -1 && rows != 30 {
			p.Fatalf("%v, %d rows: %v", table, rows, err)
		}
		_, err = r.Chunk(p.ctx, connectors.ChunkQuery{Table: "public.good", Limit: 1})
		if err != nil {
			p.Fatal(err)
		}
	})
}

// A connection that ends inside of a chunk is an error that passes, never a shorter chunk.
func TestKilledReaderGivesNoShorterChunk(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE slow(id int PRIMARY KEY, v text)", "INSERT INTO slow SELECT g, repeat('x', 2000) FROM generate_series(1, 2000) g")
		s := p.open(Options{})
		r := p.openReader(s)
		done := make(chan error, 1)
		go func() {
			_, err := r.Chunk(p.ctx, connectors.ChunkQuery{Table: "public.slow", Limit: 2000, Where: "v <> '' AND (id < 1000 OR pg_sleep(0.05) IS NOT NULL)"})
			done <- err
		}()
		p.eventually("the chunk is read", func() bool {
			return p.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = $1 AND query LIKE '%pg_sleep%' AND wait_event = 'PgSleep'`, p.slot) != "0"
		})
		p.text(`SELECT coalesce(bool_and(pg_terminate_backend(pid)), false)::text FROM pg_stat_activity WHERE datname = $1 AND query LIKE '%pg_sleep%'`, p.slot)
		if err := <-done; err == nil || connectors.ClassOf(err) != connectors.ClassWait {
			p.Fatalf("%v (%s)", err, connectors.ClassOf(err))
		}
		if c := p.chunk(p.openReader(s), connectors.ChunkQuery{Table: "public.slow", Limit: 3000}); len(c.Rows) != 2000 {
			p.Fatalf("%d rows", len(c.Rows))
		}
	})
}

// Once the stream has reached a chunk's place, everything the chunk has seen was streamed, with messages and, for a role that may
// write none, by position: within seconds on a server where nothing else happens.
func TestPlaceComesAfterWhatTheChunkSaw(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(map[bool]string{false: "message", true: "position"}[silent], func(t *testing.T) {
			onEach(t, func(p *pgtest) {
				p.sql("CREATE TABLE t(id int PRIMARY KEY, n int)")
				p.asRole()
				s := p.open(Options{})
				if silent {
					p.exec(p.admin, "ALTER ROLE "+p.raw[propUser]+" NOSUPERUSER")
					p.sql("GRANT SELECT ON t TO "+p.raw[propUser], `DO $$ DECLARE f regprocedure; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE proname = 'pg_logical_emit_message' LOOP
						EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || f || ' FROM PUBLIC'; END LOOP; END $$`)
				}
				r := p.openReader(s)
				seen := map[uint64]bool{}
				for i := range 20 {
					p.sql("SET synchronous_commit = "+[]string{"off", "on"}[i%2], fmt.Sprintf("INSERT INTO t VALUES (%d, %d)", i, i))
					xid := p.numbers("SELECT xmin::text::bigint FROM t WHERE id = " + fmt.Sprint(i))[0]
					c := p.chunk(r, connectors.ChunkQuery{Table: "public.t", Limit: 100})
					if len(c.Rows) != i+1 || c.Visible.Sees(&connectors.Transaction{ID: 1 << 62}) {
						p.Fatalf("%d rows", len(c.Rows))
					}
					began := time.Now()
					err := p.consume(s, func(b connectors.Batch, stored bool) error {
						for range b.Changes {
							seen[b.Tx.ID] = true
						}
						if b.Last && stored && c.Place.Reached(&b) {
							return errors.Join(errEnough, s.Ack(p.ctx, b.Boundary))
						}
						return nil
					})
					if !errors.Is(err, errEnough) || time.Since(began) > 5*time.Second {
						p.Fatalf("after %s: %v", time.Since(began), err)
					}
					if len(seen) != i+1 || !c.Visible.Sees(&connectors.Transaction{ID: uint64(xid)}) {
						p.Fatalf("%d transactions of %d were streamed at the place", len(seen), i+1)
					}
				}
			})
		})
	}
}

// An open transaction that was there before the stream is waited for by name, and no chunk counts before it is over; one
// of another database is not.
func TestChunkWaitsForOlderTransactions(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE t(id int PRIMARY KEY)")
		s := p.open(Options{})
		other := p.connect(p.url)
		defer func() { _ = other.Close(p.ctx) }()
		p.exec(other, "BEGIN", "INSERT INTO t VALUES (1)")
		p.exec(p.admin, "BEGIN", "CREATE TEMPORARY TABLE elsewhere(id int)")
		r := p.openReader(s) // ids are counted from here: all before may matter
		c, err := r.Chunk(p.ctx, connectors.ChunkQuery{Table: "public.t", Limit: 10})
		if err != nil {
			p.Fatal(err)
		}
		ok, waits := c.Visible.Above()
		if ok || strings.Count(waits, "pid ") != 1 || !strings.Contains(waits, fmt.Sprintf("pid %d (open since ", other.PgConn().PID())) {
			p.Fatalf("%t, %q, not for pid %d", ok, waits, other.PgConn().PID())
		}
		p.exec(other, "COMMIT")
		if c := p.chunk(r, connectors.ChunkQuery{Table: "public.t", Limit: 10}); len(c.Rows) != 1 {
			p.Fatalf("%d rows", len(c.Rows))
		}
		p.exec(p.admin, "ROLLBACK")
	})
}

// A copy's rows, with what the stream has from its place on, are the table, whatever is written meanwhile.
func TestCopyAndStreamAreTheTable(t *testing.T) {
	onEach(t, func(p *pgtest) {
		seed := rand.Uint64()
		p.Logf("seed %d", seed)
		p.sql("CREATE TABLE bag(n bigint, v text)", "ALTER TABLE bag REPLICA IDENTITY FULL", "INSERT INTO bag SELECT g % 500, 'x' FROM generate_series(1, 5000) g")
		s := p.open(Options{})
		var writers sync.WaitGroup
		stop := make(chan struct{})
		for w := range 3 {
			conn := p.connect(p.url)
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			writers.Go(func() {
				defer func() { _ = conn.Close(context.Background()) }()
				for {
					select {
					case <-stop:
						return
					default:
					}
					n := rnd.IntN(500)
					sql := []string{"INSERT INTO bag VALUES ($1, 'new')", "DELETE FROM bag WHERE ctid IN (SELECT ctid FROM bag WHERE n = $1 LIMIT 2)", "UPDATE bag SET v = v || 'u' WHERE ctid IN (SELECT ctid FROM bag WHERE n = $1 LIMIT 1)"}[rnd.IntN(3)]
					if _, err := conn.Exec(p.ctx, sql, n); err != nil && sqlState(err) != "40P01" {
						p.Error(err)
						return
					}
				}
			})
		}
		bag := map[string]int{}
		line := func(table *schema.Table, row schema.Row) string {
			return fmt.Sprint(row[table.ColumnIndex("n")].Num, string(row[table.ColumnIndex("v")].Bytes))
		}
		var at connectors.Place
		rows := 0
		err := p.openReader(s).Copy(p.ctx, connectors.CopyQuery{Table: "public.bag"}, func(c connectors.CopyRows) error {
			if at == nil && len(c.Rows) > 0 {
				return errors.New("the place is not known before the rows")
			}
			at = c.Place
			for _, row := range c.Rows {
				bag[line(c.Table, row)]++
				rows++
			}
			return nil
		})
		close(stop)
		writers.Wait()
		if err != nil || rows < 4000 {
			p.Fatalf("%d rows: %v", rows, err)
		}
		if err := s.Mark(p.ctx, "end"); err != nil {
			p.Fatal(err)
		}
		err = p.consume(s, func(b connectors.Batch, stored bool) error {
			if stored {
				return nil
			}
			for _, c := range b.Changes {
				switch {
				case !at.Before(&b):
				case c.Before != nil:
					bag[line(c.Table, c.Before)]--
				default:
					bag[line(c.Table, c.After)]++
				}
			}
			if slices.Contains(b.Markers, "end") {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			p.Fatal(err)
		}
		left, err := p.conn.Query(p.ctx, "SELECT n, v FROM bag")
		if err != nil {
			p.Fatal(err)
		}
		var n int64
		var v string
		if _, err := pgx.ForEachRow(left, []any{&n, &v}, func() error { bag[fmt.Sprint(n, v)]--; return nil }); err != nil {
			p.Fatal(err)
		}
		for l, count := range bag {
			if count != 0 {
				p.Errorf("%s: %+d", l, count)
			}
		}
	})
}

// A snapshot's text tells what it sees.
func TestSnapshotSees(t *testing.T) {
	s, err := parseSnapshot("100:110:104,102")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uint64]bool{0: true, 99: true, 100: true, 102: false, 103: true, 104: false, 109: true, 110: false, 1 << 33: false} {
		if got := s.Sees(&connectors.Transaction{ID: id}); got != want {
			t.Errorf("sees %d: %t", id, got)
		}
	}
	for _, bad := range []string{"", "1:2", "a:2:", "1:2:x"} {
		if _, err := parseSnapshot(bad); err == nil {
			t.Errorf("%q is a snapshot", bad)
		}
	}
	boundary := catalog.Position{BoundaryLSN: 0x2000}.Object("g", "c")
	for _, c := range []struct {
		at              place
		before, reached bool
	}{{0x1000, true, true}, {0x1001, false, true}, {0x2000, false, true}, {0x2001, false, false}} {
		b := connectors.Batch{Tx: connectors.Transaction{Pos: catalog.FormatPos(0x1000)}, Last: true, Boundary: boundary}
		if c.at.Before(&b) != c.before || c.at.Reached(&b) != c.reached {
			t.Errorf("%x: before %t, reached %t", c.at, c.at.Before(&b), c.at.Reached(&b))
		}
	}
	if at := endOfRecord(pgoutput.LSN(0x4018), 8192); at != 0x4000 {
		t.Errorf("after a full page %s", at)
	}
}

// A statement that selects a table's initial rows does so in chunks too, and not for a snapshot on demand.
func TestChunksOfInitialRowsAreThoseSelected(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE public.t (id int PRIMARY KEY, n int)", "INSERT INTO public.t SELECT g, g FROM generate_series(1, 50) g",
			"CREATE TABLE public.b (id int PRIMARY KEY)", "INSERT INTO public.b VALUES (40)")
		p.raw[propSnapshotOverride] = "public.t,public.b"
		p.raw[propSnapshotOverride+".public.b"] = "SELECT id FROM public.b WHERE 1 / (id - 40) < 5"
		p.raw[propSnapshotOverride+".public.t"] = "SELECT n, id FROM public.t WHERE id % 3 = 0 -- every third"
		r := p.openReader(p.open(Options{}))
		for initial, query := range map[bool]string{true: "SELECT n::bigint FROM t WHERE id % 3 = 0 ORDER BY id", false: "SELECT n::bigint FROM t ORDER BY id"} {
			if got, want := p.pages(r, connectors.ChunkQuery{Table: "public.t", Limit: 4, Initial: initial}, nil), p.numbers(query); !slices.Equal(got, want) {
				p.Errorf("initial %t: got %v, want %v", initial, got, want)
			}
		}
		if _, err := r.Chunk(p.ctx, connectors.ChunkQuery{Table: "public.b", Limit: 100, Initial: true}); connectors.ClassOf(err) != connectors.ClassRefused ||
			err.Error() != "snapshot.select.statement.overrides.public.b: the statement fails on a row (SQLSTATE 22012)" {
			p.Errorf("got %v", err)
		}
	})
}
