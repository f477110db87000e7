package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// What is sent in another way from some place on leaves no trace in the log either; the next look at the catalogue tells it.
func TestPublicationSendsOtherwise(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propAutocreate] = "disabled"
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int, x text)", "CREATE TABLE r(id int PRIMARY KEY) PARTITION BY RANGE (id)",
			"CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10)", "CREATE TABLE r2 PARTITION OF r FOR VALUES FROM (10) TO (20)",
			"CREATE PUBLICATION tidemark FOR TABLE a, r WITH (publish_via_partition_root = true)")
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1, 1, '')", "INSERT INTO r VALUES (1)")
		p.until(s, 2)
		st := s.current()
		p.sql("ALTER TABLE a ADD y int", "ALTER TABLE a RENAME n TO m", "ALTER TABLE a DROP x", // those the log shows
			"CREATE TABLE r3 PARTITION OF r FOR VALUES FROM (20) TO (30)", "CREATE TABLE other(id int PRIMARY KEY)", "ALTER PUBLICATION tidemark ADD TABLE other")
		if err := st.checkCatalogue(p.ctx); err != nil {
			p.Fatal(err)
		}
		var version int
		if err := p.conn.QueryRow(p.ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
			p.Fatal(err)
		}
		type step struct{ change, want, back string }
		steps := []step{
			{"ALTER PUBLICATION tidemark SET (publish_via_partition_root = false)", "does not publish table public.r", "ALTER PUBLICATION tidemark SET (publish_via_partition_root = true)"},
			{"ALTER TABLE r DETACH PARTITION r2", "its partition public.r2 was detached or dropped", "ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20)"},
		}
		if version >= 150000 {
			steps = append(steps,
				step{"ALTER PUBLICATION tidemark SET TABLE a WHERE (id > 5), r, other", "row filter changed from none to (id > 5)", "ALTER PUBLICATION tidemark SET TABLE a, r, other"},
				step{"ALTER PUBLICATION tidemark SET TABLE a (id, m), r, other", "column list no longer has (y)", "ALTER PUBLICATION tidemark SET TABLE a, r, other"},
			)
		}
		for _, step := range steps {
			p.sql(step.change)
			for range 2 { // and told again
				p.wantError(st.checkCatalogue(p.ctx), connectors.ClassBlock, step.want)
			}
			p.sql(step.back)
			if strings.Contains(step.back, "SET TABLE") { // the membership is another one
				p.wantError(st.checkCatalogue(p.ctx), connectors.ClassBlock, "put back since the last look")
				_ = s.Close(p.ctx)
				s = p.open(Options{})
				st = s.current()
			}
			if err := st.checkCatalogue(p.ctx); err != nil {
				p.Fatalf("after %s: %v", step.back, err)
			}
		}
		p.sql("ALTER PUBLICATION tidemark DROP TABLE a", "INSERT INTO a(id) VALUES (99)", "ALTER PUBLICATION tidemark ADD TABLE a") // between two looks
		p.wantError(st.checkCatalogue(p.ctx), connectors.ClassBlock, "table public.a: it was taken out of the publication")
		_ = s.Close(p.ctx)
		s = p.open(Options{})
		st = s.current()
		p.sql("DROP TABLE r1")
		st.wake(&st.checkDue) // as the timer does
		err := p.consume(s, func(connectors.Batch, bool) error { return nil })
		p.wantError(err, connectors.ClassBlock, "its partition public.r1 was detached or dropped")
		_ = s.Close(p.ctx)
		s = p.open(Options{}) // a start goes on with what there is
		if err := s.current().checkCatalogue(p.ctx); err != nil {
			p.Fatal(err)
		}
		_ = s.Close(p.ctx)
	})
}

// An update that moves a row across the publication's row filter comes as an insert or a delete, and only the columns of its list. Case 51.
func TestRowFilter(t *testing.T) {
	onEach(t, func(p *pgtest) {
		var version int
		if err := p.conn.QueryRow(p.ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
			p.Fatal(err)
		}
		if version < 150000 {
			p.Skip("row filters come with 15")
		}
		p.raw[propAutocreate] = "disabled"
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int, hidden text)", "ALTER TABLE a REPLICA IDENTITY FULL",
			"CREATE TABLE b(id int, n int, hidden text, PRIMARY KEY (id, n))", "CREATE PUBLICATION tidemark FOR TABLE a WHERE (n > 10), b (id, n) WHERE (n > 10)")
		s := p.open(Options{})
		for _, table := range []string{"a", "b"} {
			p.sql("INSERT INTO "+table+" VALUES (1, 5, ''), (2, 20, '')", "UPDATE "+table+" SET n = 50 WHERE id = 1", "UPDATE "+table+" SET n = 1 WHERE id = 2")
		}
		p.until(s, 6)
		_ = s.Close(p.ctx)
		want := []string{
			"0 c public.a v1 after(2,20,)", "0 c public.a v1 after(1,50,)", "0 d public.a v1 before(2,20,)",
			"0 c public.b v1 after(2,20)", "0 c public.b v1 after(1,50)", "0 d public.b v1 before(2,20)",
		}
		if diff := cmp.Diff(want, p.lines); diff != "" {
			p.Error(diff)
		}
	})
}

// A table that somebody alters for long is locked. The look at the catalogue is put off, and the stream goes on.
func TestCheckOfTheCatalogueWaitsForNoLock(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)")
		s := p.open(Options{})
		other := p.connect(p.url)
		defer func() { _ = other.Close(p.ctx) }()
		p.exec(other, "BEGIN", "LOCK TABLE a IN ACCESS EXCLUSIVE MODE")
		st := s.current()
		st.wake(&st.checkDue)
		began := time.Now()
		p.sql("INSERT INTO b VALUES (1)")
		p.until(s, 1)
		if took := time.Since(began); took > 10*time.Second {
			p.Errorf("the stream stood still for %s", took)
		}
		p.exec(other, "ROLLBACK")
		p.sql("ALTER TABLE a REPLICA IDENTITY FULL")
	})
}
