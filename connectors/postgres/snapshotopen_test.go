package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

func TestSnapshotRefusals(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int)", "CREATE TABLE b(id int PRIMARY KEY, secret text)")
		p.raw[propSnapshotMode] = "Initial"
		p.raw[propSnapshotInclude] = "public.aa"
		p.openError(connectors.ClassRefused, `snapshot.include.collection.list: "public.aa" matches no captured table; captured are public.a, public.b`)
		delete(p.raw, propSnapshotInclude)
		p.raw[propSnapshotOverride] = "public.b"
		p.raw[propSnapshotOverride+".public.b"] = "SELECT id FROM public.b"
		p.openError(connectors.ClassRefused, "snapshot.select.statement.overrides.public.b: the statement does not give every captured column by its name")
		p.raw[propSnapshotOverride+".public.b"] = "SELEC"
		p.openError(connectors.ClassRefused, "the statement cannot be used: syntax error")
		p.raw[propSnapshotOverride+".public.b"] = "SELECT * FROM b"
		p.openError(connectors.ClassRefused, `relation "b" does not exist; names need their schema`)
		p.raw[propSnapshotOverride+".public.b"] = "SELECT * FROM public.b WHERE id = $1"
		p.openError(connectors.ClassRefused, "it has a parameter")
		for _, more := range []string{"SELECT * FROM public.b) AS o; DROP TABLE public.a; SELECT 1 FROM (SELECT 1", "SELECT * FROM public.b; DROP TABLE public.a"} {
			p.raw[propSnapshotOverride+".public.b"] = more
			p.wantProblem(propSnapshotOverride+".public.b", "the statement cannot be used")
			p.openError(connectors.ClassRefused, "the statement cannot be used")
			p.sql("SELECT FROM a")
		}
		p.raw[propSnapshotOverride] = "public.z"
		p.raw[propSnapshotOverride+".public.z"] = "SELECT"
		delete(p.raw, propSnapshotOverride+".public.b")
		p.openError(connectors.ClassRefused, `snapshot.select.statement.overrides: "public.z" is no captured table`)
		p.wantProblem(propSnapshotOverride, `"public.z" is no captured table`)
		delete(p.raw, propSnapshotOverride)
		delete(p.raw, propSnapshotOverride+".public.z")

		role := p.slot + "_role"
		p.sql("CREATE PUBLICATION tidemark FOR TABLE a, b")
		p.exec(p.admin, "CREATE ROLE "+role+" LOGIN REPLICATION PASSWORD 'x'")
		p.sql("GRANT SELECT ON a TO "+role, "GRANT SELECT (id) ON b TO "+role)
		p.raw[propUser], p.raw[propPassword], p.raw[propAutocreate] = role, "x", "disabled"
		p.openError(connectors.ClassRefused, "the role may not read column secret of table public.b; GRANT SELECT on that")
		p.wantProblem(propSnapshotMode, "the role may not read column secret of table public.b")
		if n := p.text("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = $1", p.slot); n != "0" {
			p.Errorf("a refused start left a slot")
		}
		p.raw[propColumnExclude] = "public.b.secret"
		p.sql("INSERT INTO b VALUES (1, 's')")
		_, opened := p.openExport(Options{}, nil)
		p.readExport(opened.Exported).want(p, "b", "(1)")
		p.sql("DROP OWNED BY " + role)
	})
}

// wantProblem expects one problem of a check of the tables.
func (p *pgtest) wantProblem(property, want string) {
	p.Helper()
	cfg, _ := Spec().Parse(p.raw)
	_, problems, err := Tables(p.ctx, cfg)
	if err != nil || len(problems) != 1 || problems[0].Property != property || !strings.Contains(problems[0].Message, want) {
		p.Errorf("problems %v, %v; want one of %s, …%s…", problems, err, property, want)
	}
}

// Row security would hide rows that the stream has.
func TestExportDoesNotObeyRowSecurity(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "INSERT INTO a VALUES (1)", "ALTER TABLE a ENABLE ROW LEVEL SECURITY", "CREATE PUBLICATION tidemark FOR TABLE a")
		role := p.slot + "_role"
		p.exec(p.admin, "CREATE ROLE "+role+" LOGIN REPLICATION PASSWORD 'x'")
		p.sql("GRANT SELECT ON a TO " + role)
		p.raw[propUser], p.raw[propPassword], p.raw[propAutocreate] = role, "x", "disabled"
		_, opened := p.openExport(Options{}, nil)
		p.readExport(opened.Exported).wantErr(p, "a", "row-level security")
		p.sql("DROP OWNED BY " + role)
	})
}

// While the slot waits for a transaction that is older, the state names it.
func TestExportWaitsForOldTransactions(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)")
		tx, err := p.conn.Begin(p.ctx)
		if err != nil {
			p.Fatal(err)
		}
		if _, err := tx.Exec(p.ctx, "INSERT INTO a VALUES (1)"); err != nil {
			p.Fatal(err)
		}
		done := make(chan struct{})
		p.raw[propSnapshotMode] = "initial"
		p.raw[propAutocreate] = "filtered"
		s := p.newSource(Options{})
		var opened connectors.Opened
		go func() {
			defer close(done)
			opened, err = s.Open(p.ctx, nil)
		}()
		pid := fmt.Sprint(p.conn.PgConn().PID())
		p.eventually("the state names the transaction", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return slices.ContainsFunc(p.states, func(s connectors.State) bool { return s.Name == "WAITING" && strings.Contains(s.Reason, "pid "+pid) })
		})
		if err := tx.Commit(p.ctx); err != nil {
			p.Fatal(err)
		}
		<-done
		if err != nil {
			p.Fatal(err)
		}
		defer func() { _, _ = s.Close(p.ctx), opened.Exported.Close(p.ctx) }()
		p.readExport(opened.Exported).want(p, "a", "(1)")
	})
}

// A migration that is open while the slot is created ends before the snapshot, which has its rows as they are then: they are not read by
// what the catalogue said before it, and a table that it creates is not left out.
func TestExportHasWhatWasAlteredBeforeIt(t *testing.T) {
	onEach(t, func(p *pgtest) {
		for _, mode := range []string{"filtered", "disabled"} {
			p.sql("DROP TABLE IF EXISTS a, c", "DROP PUBLICATION IF EXISTS tidemark", "CREATE TABLE a(id int PRIMARY KEY, gone text)", "INSERT INTO a VALUES (1, 'x')")
			if mode == "disabled" {
				p.sql("CREATE PUBLICATION tidemark FOR ALL TABLES")
			}
			p.raw[propSnapshotMode], p.raw[propAutocreate], p.stored = "initial", mode, nil
			tx, err := p.conn.Begin(p.ctx)
			if err != nil {
				p.Fatal(err)
			}
			if _, err := tx.Exec(p.ctx, "ALTER TABLE a ADD n int; UPDATE a SET n = 7; ALTER TABLE a DROP gone; CREATE TABLE c(id int PRIMARY KEY); INSERT INTO c VALUES (1)"); err != nil {
				p.Fatal(err)
			}
			s := p.newSource(Options{})
			var opened connectors.Opened
			done := make(chan error)
			go func() {
				for {
					var err error
					if opened, err = s.Open(p.ctx, nil); err == nil || p.ctx.Err() != nil || connectors.ClassOf(err) != connectors.ClassWait {
						done <- err
						return
					}
					p.Logf("%s: %v", mode, err)
				}
			}()
			pid := fmt.Sprint(p.conn.PgConn().PID())
			p.eventually("the start waits for the transaction", func() bool {
				return p.text("SELECT count(*)::text FROM pg_stat_activity WHERE "+pid+" = ANY(pg_blocking_pids(pid))") != "0"
			})
			if err := tx.Commit(p.ctx); err != nil {
				p.Fatal(err)
			}
			if err := <-done; err != nil {
				p.Fatal(err)
			}
			if opened.Exported == nil {
				p.Fatalf("%s: nothing is exported", mode)
			}
			c := p.readExport(opened.Exported)
			c.want(p, "a", "(1,7)")
			c.want(p, "c", "(1)")
			_, _ = s.Close(p.ctx), opened.Exported.Close(p.ctx)
			p.eventually("the slot is dropped", func() bool {
				_, err := p.admin.Exec(p.ctx, "SELECT pg_drop_replication_slot($1)", p.slot)
				return err == nil
			})
		}
	})
}

func TestSnapshotModes(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
		run := func(mode string, use func(s *Source, opened connectors.Opened)) {
			p.Helper()
			p.raw[propSnapshotMode] = mode
			s, opened := p.openExport(Options{}, nil)
			use(s, opened)
			if opened.Exported != nil {
				_ = opened.Exported.Close(p.ctx)
			}
			_ = s.Close(p.ctx)
			p.eventually("slot is free", func() bool {
				return p.text("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = $1 AND active", p.slot) == "0"
			})
		}
		is := func(what string, baseline, exported, renew bool) func(*Source, connectors.Opened) {
			return func(_ *Source, o connectors.Opened) {
				p.Helper()
				if o.Baseline != baseline || (o.Exported != nil) != exported || o.Renew != renew {
					p.Errorf("%s: baseline %t, exported %t, renew %t", what, o.Baseline, o.Exported != nil, o.Renew)
				}
			}
		}
		drop := func() { p.exec(p.admin, "SELECT pg_drop_replication_slot('"+p.slot+"')") }
		for _, mode := range []string{"initial", "INITIAL_ONLY", "always", "when_needed"} {
			run(mode, is(mode+" at first", true, true, false))
			run(mode, is(mode+" with offsets", false, false, false))
			p.stored = nil
			run(mode, is(mode+" with a slot and no offsets", true, false, false))
			p.stored = nil
			drop()
		}
		p.raw[propSnapshotMode] = "never"
		s := p.open(Options{})
		_ = s.Close(p.ctx)

		p.eventually("slot is free", func() bool {
			return p.text("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = $1 AND active", p.slot) == "0"
		})
		p.tables["public.a"] = offsets.TableState{ID: 1, Name: "public.a", KeyColumns: `["x"]`, KeyTypes: "text", Identity: "full"}.Object() // of another table by now: no drift, the tables are read anew
		drop()
		p.raw[propSnapshotMode] = "initial"
		p.openError(connectors.ClassRefused, "does not exist, but the stream has offsets")
		run("when_needed", func(s *Source, o connectors.Opened) {
			is("when_needed without its slot", true, true, true)(s, o)
			p.readExport(o.Exported).want(p, "a", "(1)")
		})
		drop()
		p.sql("INSERT INTO a VALUES (2)", "SELECT pg_create_logical_replication_slot('"+p.slot+"', 'pgoutput')")
		run("when_needed", is("when_needed with a younger slot", true, false, true))
		p.stored = p.stored.With("system_id", "7")
		p.raw[propSnapshotMode] = "when_needed"
		p.openError(connectors.ClassRefused, "system identifier")
	})
}
