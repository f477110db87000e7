package postgres

import (
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
)

func TestStreamsRows(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int, big text)", "CREATE TABLE f(id int PRIMARY KEY, n int, big text)", "ALTER TABLE f REPLICA IDENTITY FULL",
			"ALTER TABLE a ALTER big SET STORAGE EXTERNAL", "ALTER TABLE f ALTER big SET STORAGE EXTERNAL")
		s := p.open(Options{})
		huge := strings.Repeat("z", 5000)
		p.sql("INSERT INTO a VALUES (1, 0, '"+huge+"')", "UPDATE a SET n = 1", "UPDATE a SET id = 2", "DELETE FROM a",
			"INSERT INTO f VALUES (1, 0, '"+huge+"')", "UPDATE f SET n = 1", // case 28
			"BEGIN; SELECT pg_logical_emit_message(true, 'app', 'm1'); INSERT INTO a VALUES (3, 0, ''); COMMIT", // case 5
		)
		p.until(s, 9)
		want := []string{
			"0 c public.a v1 after(1,0,H)", "0 u public.a v1 after(1,1,?)",
			"0 d public.a v1 before(1,?,?)", "1 c public.a v1 after(2,1,?) oldkey(1,?,?)", "0 d public.a v1 before(2,?,?)",
			"0 c public.f v1 after(1,0,H)", "0 u public.f v1 before(1,0,H) after(1,1,H)", "0 m app m1 true", "1 c public.a v1 after(3,0,)",
		}
		for i := range p.lines {
			p.lines[i] = strings.ReplaceAll(p.lines[i], huge, "H")
		}
		if diff := cmp.Diff(want, p.lines); diff != "" {
			p.Error(diff)
		}
	})
}

// Cases 2 and 8: stopped at random places and in random ways, every row comes once, and the slot is never
// ahead of what is stored.
func TestResumesAnywhere(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)")
		rnd := rand.New(rand.NewSource(1))
		const total = 600
		s := p.open(Options{})
		for i := range total {
			p.sql(fmt.Sprintf("INSERT INTO a VALUES (%d)", i))
		}
		for len(p.lines) < total {
			left := 1 + rnd.Intn(60)
			atStored := rnd.Intn(2) == 0
			err := p.consume(s, func(_ connectors.Batch, stored bool) error {
				if stored == atStored {
					left--
				}
				if left <= 0 || len(p.lines) >= total {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) {
				p.Fatal(err)
			}
			if confirmed := p.confirmed(); confirmed > p.boundaryOf() {
				p.Fatalf("slot at %s, stored %s", confirmed, p.boundaryOf())
			}
			_ = s.Close(p.ctx)
			s = p.open(Options{})
		}
		for i, l := range p.lines {
			if want := fmt.Sprintf("0 c public.a v1 after(%d)", i); l != want {
				p.Fatalf("change %d is %s, want %s", i, l, want)
			}
		}
	})
}

// Case 1: rows of one statement share a position; a crash in the middle repeats all of them with the same ordinals.
func TestBigTransactionIsCutAndRepeated(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, v text)")
		s := p.open(Options{})
		rows := make([][]any, 50_000)
		for i := range rows {
			rows[i] = []any{i, strings.Repeat("x", 50)}
		}
		if _, err := p.conn.CopyFrom(p.ctx, pgx.Identifier{"a"}, []string{"id", "v"}, pgx.CopyFromRows(rows)); err != nil {
			p.Fatal(err)
		}
		seen := 0
		err := p.consume(s, func(b connectors.Batch, stored bool) error {
			if len(b.Changes) > 1024 {
				return fmt.Errorf("a batch of %d changes", len(b.Changes))
			}
			if seen += len(b.Changes); seen > 20_000 {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) || len(p.lines) != 0 {
			p.Fatalf("%d published, %v", len(p.lines), err)
		}
		_ = s.Close(p.ctx)
		p.until(p.open(Options{}), len(rows))
		for i, l := range p.lines {
			if want := fmt.Sprintf("%d c public.a v1 after(%d,", i, i); !strings.HasPrefix(l, want) {
				p.Fatalf("change %d is %s, want %s…", i, l, want)
			}
		}
	})
}

// Cases 10, 14 and 15: an idle stream follows the WAL that others write, from the start on and after restarts.
func TestIdleStreamFollows(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE busy(id int)", "CREATE PUBLICATION tidemark FOR TABLE a")
		p.raw[propHeartbeat] = "200"
		p.raw[propAutocreate] = "disabled"
		for range 3 {
			s := p.open(Options{})
			done := make(chan error, 1)
			go func() { done <- p.consume(s, func(connectors.Batch, bool) error { return nil }) }()
			for _, conn := range []*pgx.Conn{p.conn, p.admin} { // its own database and another
				p.exec(conn, "CREATE TABLE IF NOT EXISTS busy(id int)", "INSERT INTO busy SELECT generate_series(1, 2000)")
			}
			p.exec(p.admin, "DROP TABLE busy")
			end := p.lsn("SELECT pg_current_wal_lsn()::text")
			p.eventually("slot follows the WAL", func() bool { return p.confirmed() >= end })
			_ = s.Close(p.ctx)
			if err := <-done; !errors.Is(err, errClosed) {
				p.Fatalf("ended with %v", err)
			}
		}
	})
}

func TestNames(t *testing.T) { // cases 42 and 43
	onEach(t, func(p *pgtest) {
		p.raw[propPublication] = `My "Pub" it's`
		p.raw[propTableInclude] = `Схема\.таблица,public\.cc`
		p.raw[propAutocreate] = "filtered"
		p.sql(`CREATE SCHEMA "Схема"`, `CREATE TABLE "Схема"."таблица"("键" int PRIMARY KEY, "naïve" text)`,
			`CREATE TABLE cc(id int PRIMARY KEY, "Name" text, name text, "NAME" text)`, `CREATE TABLE other(id int PRIMARY KEY)`)
		s := p.open(Options{})
		p.sql(`INSERT INTO "Схема"."таблица" VALUES (1, 'é')`, `UPDATE "Схема"."таблица" SET "键" = 2`, `INSERT INTO other VALUES (1)`,
			`DELETE FROM "Схема"."таблица"`, `INSERT INTO cc VALUES (1, 'a', 'b', 'c')`)
		p.until(s, 5)
		want := []string{
			"0 c Схема.таблица v1 after(1,é)", "0 d Схема.таблица v1 before(1,?)", "1 c Схема.таблица v1 after(2,é) oldkey(1,?)",
			"0 d Схема.таблица v1 before(2,?)", "0 c public.cc v1 after(1,a,b,c)",
		}
		if diff := cmp.Diff(want, p.lines); diff != "" {
			p.Error(diff)
		}
	})
}

func TestHostileRole(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.asRole(
			"DateStyle = 'German, DMY'", "IntervalStyle = 'iso_8601'", "TimeZone = 'Asia/Tokyo'", "extra_float_digits = -15", "bytea_output = 'escape'",
			"client_encoding = 'LATIN1'", "search_path = 'nowhere'", "client_min_messages = 'error'", "default_transaction_read_only = on", "statement_timeout = '1s'",
		)
		p.sql("CREATE TABLE v(id int PRIMARY KEY, ts timestamptz, d date, f float8, b bytea, i interval, t text)")
		p.sql("CREATE PUBLICATION tidemark FOR ALL TABLES")
		s := p.open(Options{})
		p.sql(`INSERT INTO v VALUES (1, '2026-11-30 10:00+00', '2026-11-30', 0.1::float8 + 0.2::float8, '\x00ff', '1 day 02:00', 'é')`)
		var got string
		_ = p.consume(s, func(b connectors.Batch, _ bool) error {
			for _, c := range b.Changes {
				r := c.After
				got = fmt.Sprint(r[1].Num, r[2].Num, r[3].Num, r[4].Bytes) + fmt.Sprintf(" %s %s", r[5].Bytes, r[6].Bytes)
				return errEnough
			}
			return nil
		})
		if want := "1796032800000000 20787 4599075939470750516 [0 255] 1 day 02:00:00 é"; got != want {
			p.Errorf("got  %s\nwant %s", got, want)
		}
		_ = s.Close(p.ctx)
	})
}

// A pipeline that does not call Next for longer than wal_sender_timeout keeps its connection.
func TestBlockedPipelineKeepsItsConnection(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.asRole("wal_sender_timeout = '1s'")
		p.sql("CREATE TABLE a(id int PRIMARY KEY, v text)")
		s := p.open(Options{})
		p.sql("INSERT INTO a SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g")
		if _, err := s.Next(p.ctx); err != nil {
			p.Fatal(err)
		}
		pid := p.text("SELECT active_pid::text FROM pg_replication_slots WHERE slot_name = $1", p.slot)
		time.Sleep(3 * time.Second) // the stimulus: three times the timeout
		if now := p.text("SELECT coalesce(active_pid, 0)::text FROM pg_replication_slots WHERE slot_name = $1", p.slot); now != pid {
			p.Fatalf("walsender %s is gone (now %s)", pid, now)
		}
		p.lines = append(p.lines, make([]string, 1024)...) // what the first call took
		p.until(s, 20000)
		_ = s.Close(p.ctx)
	})
}
