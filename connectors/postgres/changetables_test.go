package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// untilVersion consumes until the set has a version.
func (p *pgtest) untilVersion(s *Source, version int64) (joined, left []string) {
	p.Helper()
	err := p.consume(s, func(b connectors.Batch, stored bool) error {
		if !stored {
			return nil
		}
		for _, t := range b.Joined {
			joined = append(joined, t.QualifiedName())
		}
		for _, t := range b.Left {
			left = append(left, t.QualifiedName())
		}
		if v, _ := s.Tables(); v >= version {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		p.Fatalf("version %d: %v", version, err)
	}
	if err := s.Ack(p.ctx, p.stored); err != nil {
		p.Fatal(err)
	}
	return joined, left
}

func (p *pgtest) reported(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		if strings.Contains(s.Reason, text) {
			return true
		}
	}
	return false
}

func (p *pgtest) publishes(name string) bool {
	p.Helper()
	var n int
	if err := p.conn.QueryRow(p.ctx, "SELECT count(*) FROM pg_publication_tables WHERE schemaname || '.' || tablename = $1", name).Scan(&n); err != nil {
		p.Fatal(err)
	}
	return n > 0
}

func TestChangeTables(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propAutocreate], p.raw[propTableInclude] = "filtered", `public\.a`
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY, v text)")
		s := p.open(Options{})
		other := p.connect(p.url)
		defer func() { _ = other.Close(p.ctx) }()
		p.exec(other, "BEGIN", "INSERT INTO b VALUES (1, 'before')")
		done := make(chan error, 1)
		go func() { done <- s.ChangeTables(p.ctx, []string{"public.b"}, nil) }()
		p.eventually("the wait is told", func() bool { return p.reported(fmt.Sprintf("pid %d", other.PgConn().PID())) })
		p.sql("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (2, 'before')")
		p.exec(other, "COMMIT")
		if err := <-done; err != nil {
			p.Fatal(err)
		}
		p.sql("INSERT INTO b VALUES (3, 'after')", "INSERT INTO a VALUES (2)")
		joined, _ := p.untilVersion(s, 1)
		if diff := cmp.Diff([]string{"public.b"}, joined); diff != "" {
			p.Error(diff)
		}
		p.until(s, 3)
		want := []string{"0 c public.a v1 after(1)", "0 c public.b v1 after(3,after)", "0 c public.a v1 after(2)"}
		if diff := cmp.Diff(want, p.lines); diff != "" {
			p.Error(diff)
		}
		_ = s.Close(p.ctx)

		s = p.open(Options{}) // the lists do not have b
		if v, names := s.Tables(); v != 1 || strings.Join(names, " ") != "public.a public.b" {
			p.Errorf("after a start the set is version %d, %v", v, names)
		}
		p.sql("INSERT INTO b VALUES (4, 'after')")
		p.until(s, 4)
		if err := s.ChangeTables(p.ctx, nil, []string{"public.a"}); err != nil {
			p.Fatal(err)
		}
		p.sql("INSERT INTO a VALUES (3)", "INSERT INTO b VALUES (5, 'after')")
		if !p.publishes("public.a") {
			p.Error("the table left the publication before its place was acknowledged")
		}
		_, left := p.untilVersion(s, 2)
		if diff := cmp.Diff([]string{"public.a"}, left); diff != "" {
			p.Error(diff)
		}
		p.eventually("the table leaves the publication", func() bool { return !p.publishes("public.a") })
		p.until(s, 5)
		if got := p.lines[4]; got != "0 c public.b v1 after(5,after)" {
			p.Errorf("after the removal came %s", got)
		}
		if err := s.current().checkCatalogue(p.ctx); err != nil {
			p.Error(err)
		}
		p.sql("ALTER TABLE a RENAME TO elsewhere") // drift of a table that left does not count
		if err := s.current().checkCatalogue(p.ctx); err != nil {
			p.Error(err)
		}
		_ = s.Close(p.ctx)
		s = p.open(Options{})
		p.wantError(s.ChangeTables(p.ctx, []string{"public.a"}, nil), connectors.ClassRefused, "there is no table public.a")
		p.sql("ALTER TABLE elsewhere RENAME TO a")
		if err := s.ChangeTables(p.ctx, []string{"public.a"}, []string{"public.b"}); err != nil {
			p.Fatal(err)
		}
		p.sql("INSERT INTO a VALUES (4)", "INSERT INTO b VALUES (6, '')")
		p.untilVersion(s, 3)
		p.until(s, 6)
		if got := p.lines[5]; got != "0 c public.a v1 after(4)" {
			p.Errorf("after the change came %s", got)
		}
	})
}

func TestChangeTablesRefuses(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propAutocreate], p.raw[propTableInclude] = "filtered", `public\.a`
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE customers(id int PRIMARY KEY)", "CREATE VIEW v AS SELECT * FROM a", "CREATE TABLE nokey(id int)",
			"CREATE TABLE fullkey(id int)", "ALTER TABLE fullkey REPLICA IDENTITY FULL", "CREATE UNLOGGED TABLE unlogged(id int PRIMARY KEY)",
			"CREATE TABLE p(id int PRIMARY KEY) PARTITION BY RANGE (id)")
		s := p.open(Options{})
		for _, tc := range []struct {
			add, remove, want string
		}{
			{"", "", "no table is named"},
			{"public.a", "", "is in the set already"},
			{"public.b", "public.b", "is named twice"},
			{"", "public.customers", "is not in the set"},
			{"public.customer", "", "similar ones are public.customers"},
			{"public.nowhere", "", "there is no table public.nowhere"},
			{"public.v", "", "is a view"},
			{"public.unlogged", "", "is unlogged"},
			{"public.p", "", "name those"},
			{"public.nokey", "", "has no primary key and no REPLICA IDENTITY FULL"},
		} {
			var add, remove []string
			if tc.add != "" {
				add = []string{tc.add}
			}
			if tc.remove != "" {
				remove = []string{tc.remove}
			}
			if err := s.ChangeTables(p.ctx, add, remove); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				p.Errorf("+%s -%s: got %v, want …%s…", tc.add, tc.remove, err, tc.want)
			}
		}
		if p.publishes("public.nokey") || p.publishes("public.customers") {
			p.Error("a refused change touched the publication")
		}
		if err := s.ChangeTables(p.ctx, []string{"public.fullkey", "public.customers"}, nil); err != nil {
			p.Error(err)
		}
		p.wantError(s.ChangeTables(p.ctx, []string{"public.fullkey"}, nil), connectors.ClassWait, "is in the set already") // though it was not read yet
		p.untilVersion(s, 1)
	})
}

// With a publication that we may not change the table must be in it.
func TestChangeTablesOfAPublicationThatIsNotOurs(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propAutocreate], p.raw[propTableInclude] = "disabled", `public\.a`
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)", "CREATE PUBLICATION tidemark FOR TABLE a")
		s := p.open(Options{})
		err := s.ChangeTables(p.ctx, []string{"public.b"}, nil)
		if err == nil || !strings.Contains(err.Error(), "ALTER PUBLICATION") {
			p.Fatalf("got %v", err)
		}
		p.sql("ALTER PUBLICATION tidemark ADD TABLE b")
		if err := s.ChangeTables(p.ctx, []string{"public.b"}, []string{"public.a"}); err != nil {
			p.Fatal(err)
		}
		p.sql("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1)")
		p.untilVersion(s, 1)
		p.until(s, 1)
		if p.lines[0] != "0 c public.b v1 after(1)" || !p.publishes("public.a") {
			p.Errorf("got %q; the publication has a: %v", p.lines, p.publishes("public.a"))
		}
	})
}

// A lock on the table is waited for, for as long as the change may take; the reason names who holds it, and nothing is changed.
func TestChangeTablesWaitsForALock(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propAutocreate], p.raw[propTableInclude] = "filtered", `public\.a`
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)")
		s := p.open(Options{})
		other := p.connect(p.url)
		defer func() { _ = other.Close(p.ctx) }()
		p.exec(other, "BEGIN", "LOCK TABLE b IN ACCESS EXCLUSIVE MODE")
		ctx, cancel := context.WithCancel(p.ctx)
		done := make(chan error, 1)
		go func() { done <- s.ChangeTables(ctx, []string{"public.b"}, nil) }()
		p.eventually("the wait is told", func() bool { return p.reported(fmt.Sprintf("pid %d", other.PgConn().PID())) })
		cancel()
		if err := <-done; err == nil {
			p.Error("it did not fail")
		}
		p.exec(other, "ROLLBACK")
		if p.publishes("public.b") {
			p.Error("the publication was changed")
		}
		if err := s.ChangeTables(p.ctx, []string{"public.b"}, nil); err != nil {
			p.Fatal(err)
		}
		p.untilVersion(s, 1)
	})
}

// A table that is added again by a message that a start has still to read stays in the publication.
func TestRemovalDoesNotOutliveAnAddition(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propAutocreate], p.raw[propTableInclude], p.raw[propHeartbeat] = "filtered", `public\.(a|b)`, "100"
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)")
		s := p.open(Options{})
		if err := s.ChangeTables(p.ctx, nil, []string{"public.b"}); err != nil {
			p.Fatal(err)
		}
		p.untilVersion(s, 1)
		_ = s.Close(p.ctx) // perhaps before the table left the publication
		s = p.open(Options{})
		if err := s.ChangeTables(p.ctx, []string{"public.b"}, nil); err != nil {
			p.Fatal(err)
		}
		_ = s.Close(p.ctx) // before the message was read
		s = p.open(Options{})
		p.untilVersion(s, 2)
		p.sql("INSERT INTO b VALUES (1)", "INSERT INTO a VALUES (1)")
		p.until(s, 2)
		acked := p.boundaryOf()
		p.eventually("the slot follows", func() bool { return p.confirmed() >= acked })
		st := s.current()
		st.retire.look()
		if err := st.retire.take(p.ctx); err != nil { // whoever takes tables out is done, or not begun
			p.Fatal(err)
		}
		ready := st.retire.ready()
		st.retire.give()
		if len(ready) > 0 || !p.publishes("public.b") {
			p.Errorf("the table is captured and is taken out of the publication: due %v, published %v", ready, p.publishes("public.b"))
		}
		if diff := cmp.Diff([]string{"0 c public.b v1 after(1)", "0 c public.a v1 after(1)"}, p.lines); diff != "" {
			p.Error(diff)
		}
	})
}
