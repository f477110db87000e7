package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
)

func TestStartRefuses(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)")
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1)")
		p.until(s, 1)
		stored := p.stored

		s2 := p.newSource(Options{})
		opening, cancel := context.WithCancel(p.ctx)
		failed := make(chan error, 1)
		go func() {
			_, err := s2.Open(opening, p.entries())
			failed <- err
		}()
		p.eventually("the state names the pid that holds the slot", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, st := range p.states {
				if st.Name == "WAITING" && strings.Contains(st.Reason, "in use by pid") {
					return true
				}
			}
			return false
		})
		cancel()
		if err := <-failed; connectors.ClassOf(err) != connectors.ClassWait {
			p.Errorf("slot in use: class %s, want wait", connectors.ClassOf(err))
		}
		_ = s.Close(p.ctx)

		p.eventually("slot is free", func() bool {
			return p.text("SELECT active::text FROM pg_replication_slots WHERE slot_name = $1", p.slot) == "false"
		})
		p.stored = stored.With("boundary_lsn", "FF/0") // case 12
		p.openError(connectors.ClassRefused, "ahead of the server")
		p.stored = stored.With("system_id", "7")
		p.openError(connectors.ClassRefused, "system identifier")
		p.stored = stored.With("group", "other")
		p.openError(connectors.ClassRefused, `belongs to group "other"`)

		p.stored = stored // case 7
		p.exec(p.admin, "SELECT pg_drop_replication_slot('"+p.slot+"')")
		p.openError(connectors.ClassRefused, "does not exist, but the stream has offsets")
		p.sql("INSERT INTO a VALUES (10)")
		p.sql("SELECT pg_create_logical_replication_slot('" + p.slot + "', 'pgoutput')")
		p.openError(connectors.ClassRefused, "bytes of WAL between them are lost")
	})
}

func TestDriftAtStart(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int NOT NULL)")
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1, 1)")
		p.until(s, 1)
		_ = s.Close(p.ctx)
		for _, step := range []struct{ change, back, want string }{
			{"ALTER TABLE a REPLICA IDENTITY FULL", "ALTER TABLE a REPLICA IDENTITY DEFAULT", "replica identity"},
			{"ALTER TABLE a ALTER id TYPE bigint", "ALTER TABLE a ALTER id TYPE int", "types of the key"},
			{"ALTER TABLE a RENAME TO b", "ALTER TABLE b RENAME TO a", "public.b"},
			{"ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (n)", "ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (id)", "key"},
			{"DROP TABLE a; CREATE TABLE a(id int PRIMARY KEY, n int)", "", "dropped and created again"},
		} {
			p.sql(step.change)
			p.openError(connectors.ClassBlock, step.want)
			if step.back != "" {
				p.sql(step.back)
			}
		}
	})
}

// What changes under way blocks with a sentence, and nothing of its transaction is published.
func TestDriftUnderWay(t *testing.T) {
	for name, tc := range map[string]struct{ change, want string }{
		"key type": {"ALTER TABLE a ALTER id TYPE bigint", "changed from integer to bigint"},
		"truncate": {"TRUNCATE a", "table public.a was truncated"},
		"identity": {"ALTER TABLE a REPLICA IDENTITY FULL", "replica identity"},
		"key":      {"ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (id, n)", "key"},
		"rename":   {"ALTER TABLE a RENAME TO b", "public.b"},
		"recreate": {"DROP TABLE a; CREATE TABLE a(id int PRIMARY KEY, n int)", "dropped and created again"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(p *pgtest) {
				p.sql("CREATE TABLE a(id int PRIMARY KEY, n int NOT NULL)")
				s := p.open(Options{})
				p.sql("INSERT INTO a VALUES (1, 1)")
				p.until(s, 1)
				table := "a"
				if name == "rename" {
					table = "b"
				}
				p.sql("BEGIN; " + tc.change + "; INSERT INTO " + table + " VALUES (2, 2); COMMIT")
				err := p.consume(s, func(connectors.Batch, bool) error { return nil })
				p.wantError(err, connectors.ClassBlock, tc.want)
				if len(p.lines) != 1 {
					p.Errorf("published %v", p.lines[1:])
				}
				_ = s.Close(p.ctx)
			})
		})
	}
}

// A table taken out of a publication that the connector may extend is not put back without a word.
func TestTakenOutTableIsNotPutBack(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw["publication.autocreate.mode"], p.raw["table.include.list"] = "filtered", `public\.(a|b)`
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)", "CREATE TABLE c(id int PRIMARY KEY)")
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1)")
		p.until(s, 1)
		_ = s.Close(p.ctx)
		p.sql("ALTER PUBLICATION tidemark DROP TABLE a", "INSERT INTO a VALUES (2)")
		p.openError(connectors.ClassRefused, "table public.a was taken out of publication tidemark")
		p.sql(`ALTER PUBLICATION tidemark ADD TABLE a`)
		p.raw["table.include.list"] = `public\.(a|b|c)` // one that was never published is added
		s = p.open(Options{})
		p.sql("INSERT INTO c VALUES (3)")
		p.until(s, 2)
		_ = s.Close(p.ctx)
	})
}

func TestDropAndAddColumns(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int, c varchar(10))")
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1, 1, 'x')", "ALTER TABLE a ADD extra text", "INSERT INTO a VALUES (2, 2, 'x', 'e')",
			"ALTER TABLE a DROP n, ALTER c TYPE varchar(20)", "INSERT INTO a VALUES (3, 'x', 'e')", "CREATE TABLE b(id int PRIMARY KEY)", "INSERT INTO b VALUES (1)")
		p.until(s, 4)
		got := strings.Join(p.lines, "\n")
		// The first version is the catalogue's at the start; the one in the log may be older than that.
		want := "0 c public.a v1 after(1,1,x)\n0 c public.a v2 after(2,2,x,e)\n0 c public.a v3 after(3,x,e)\n0 c public.b v1 after(1)"
		if got != want {
			p.Errorf("got\n%s\nwant\n%s", got, want)
		}
		_ = s.Close(p.ctx)
	})
}

// A publication that is younger than the slot: 14 to 17 report an error, 18 only warns; both are lost changes.
func TestPublicationYoungerThanSlot(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)")
		p.sql("SELECT pg_create_logical_replication_slot('"+p.slot+"', 'pgoutput')", "INSERT INTO a VALUES (1)",
			"CREATE PUBLICATION tidemark FOR ALL TABLES", "INSERT INTO a VALUES (2)")
		s := p.open(Options{})
		err := p.consume(s, func(connectors.Batch, bool) error { return nil })
		p.wantError(err, connectors.ClassBlock, "publication tidemark did not exist yet")
		if len(p.lines) > 0 {
			p.Errorf("published %v", p.lines)
		}
		_ = s.Close(p.ctx)
	})
}

func TestLostConnections(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)")
		for name, query := range map[string]string{
			"replication": "SELECT pg_terminate_backend(active_pid)::text FROM pg_replication_slots WHERE slot_name = $1",
			"catalogue":   "SELECT bool_and(pg_terminate_backend(pid))::text FROM pg_stat_activity WHERE datname = $1 AND application_name = 'tidemark' AND backend_type = 'client backend'",
		} {
			s := p.open(Options{})
			done := make(chan error, 1)
			go func() { done <- p.consume(s, func(connectors.Batch, bool) error { return nil }) }()
			p.text(query, p.slot)
			err := <-done
			if err == nil || connectors.ClassOf(err) != connectors.ClassWait || len(err.Error()) < 20 {
				p.Errorf("%s: got %v (%s), want a reason to wait", name, err, connectors.ClassOf(err))
			}
			_ = s.Close(p.ctx)
		}
	})
}

// What the log does not show until a row follows is found by looking at the catalogue.
func TestDriftWithoutRows(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int NOT NULL)", "CREATE TABLE unused(id int PRIMARY KEY)")
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1, 1)")
		p.until(s, 1)
		st := s.current()
		p.sql("ALTER TABLE unused REPLICA IDENTITY FULL, DROP CONSTRAINT unused_pkey, ADD k int PRIMARY KEY") // nothing of it was published
		for range 2 {
			if err := st.checkCatalogue(p.ctx); err != nil {
				p.Fatal(err)
			}
			p.sql("INSERT INTO unused VALUES (1, 1)", "DELETE FROM unused")
			p.lines = nil
			p.until(s, 2)
			if want := "0 d public.unused v2 before(1,1)"; p.lines[1] != want {
				p.Fatalf("got %v, want %s", p.lines, want)
			}
		}
		p.sql("ALTER TABLE a REPLICA IDENTITY FULL")
		st.wake(&st.checkDue) // as the timer does
		err := p.consume(s, func(connectors.Batch, bool) error { return nil })
		p.wantError(err, connectors.ClassBlock, "replica identity")
		_ = s.Close(p.ctx)
	})
}

// A publication that stops to publish something leaves no trace in the log.
func TestPublicationShrinks(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY)", "CREATE TABLE c(id int PRIMARY KEY)",
			"CREATE PUBLICATION tidemark FOR TABLE a, b, c")
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1)")
		p.until(s, 1)
		st := s.current()
		p.sql("DROP TABLE c") // nothing more will come of it
		if err := st.checkCatalogue(p.ctx); err != nil {
			p.Fatal(err)
		}
		p.sql("ALTER PUBLICATION tidemark SET (publish = 'insert, delete, truncate')")
		p.wantError(st.checkCatalogue(p.ctx), connectors.ClassBlock, "does not publish update")
		p.sql("ALTER PUBLICATION tidemark SET (publish = 'insert, update, delete, truncate')", "ALTER PUBLICATION tidemark DROP TABLE b")
		p.wantError(st.checkCatalogue(p.ctx), connectors.ClassBlock, "does not publish table public.b")
		p.sql("ALTER PUBLICATION tidemark ADD TABLE b")
		p.wantError(st.checkCatalogue(p.ctx), connectors.ClassBlock, "put back since the last look")
		_ = s.Close(p.ctx)
	})
}
