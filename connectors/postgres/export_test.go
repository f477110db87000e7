package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// openExport opens a stream that begins with the tables' rows, a page or a few at a time. before is called between
// the export and the first row.
func (p *pgtest) openExport(opts Options, before func()) (*Source, connectors.Opened) {
	p.Helper()
	if p.raw[propSnapshotMode] == "no_data" {
		p.raw[propSnapshotMode] = "initial"
	}
	s := p.newSource(opts)
	s.set.snapshot.pages = 4
	if opts.MaxBatchChanges < 0 { // pages of a range
		s.set.snapshot.pages = int64(-opts.MaxBatchChanges)
	}
	opened, err := s.Open(p.ctx, p.entries())
	if err != nil {
		p.Fatal(err)
	}
	p.stored = opened.Boundary
	p.Cleanup(func() {
		if opened.Exported != nil {
			_ = opened.Exported.Close(p.ctx)
		}
		_ = s.Close(context.Background())
	})
	if before != nil {
		before()
	}
	return s, opened
}

// content is what an export handed out, by table.
type content struct {
	rows   map[string][]string
	last   map[string]bool
	errs   map[string]error
	tables map[string]*schema.Table
}

// readExport reads an export to its end and checks what holds of every one.
func (p *pgtest) readExport(x connectors.Exported) content {
	p.Helper()
	c := content{rows: map[string][]string{}, last: map[string]bool{}, errs: map[string]error{}, tables: map[string]*schema.Table{}}
	for {
		rows, err := x.Next(p.ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.Fatal(err)
		}
		name := rows.Table.Name
		if c.last[name] || c.errs[name] != nil {
			p.Fatalf("rows of table %s after its end", name)
		}
		for _, row := range rows.Rows {
			c.rows[name] = append(c.rows[name], renderRow(row))
		}
		c.tables[name] = rows.Table
		c.last[name], c.errs[name] = rows.Last, rows.Err
		if rows.Err == nil {
			delete(c.errs, name)
		}
		if age := time.Since(time.UnixMicro(rows.ReadTime)); rows.Err == nil && (age < -time.Minute || age > 2*time.Minute) {
			p.Errorf("read time is %s ago", age)
		}
	}
	for _, t := range x.Tables() {
		if name := t.Table.Name; !c.last[name] && c.errs[name] == nil {
			p.Errorf("table %s has neither an end nor an error", name)
		}
	}
	for _, rows := range c.rows {
		slices.Sort(rows)
	}
	return c
}

func (c content) want(p *pgtest, table string, want ...string) {
	p.Helper()
	if !c.last[table] || !slices.Equal(c.rows[table], want) {
		p.Errorf("table %s: %q, complete %t, error %v; want %q", table, c.rows[table], c.last[table], c.errs[table], want)
	}
}

func (c content) wantErr(p *pgtest, table, want string) {
	p.Helper()
	if err := c.errs[table]; err == nil || !strings.Contains(err.Error(), want) {
		p.Errorf("table %s: error %v, want …%s…", table, err, want)
	}
}

func TestExportedRows(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql(`CREATE TABLE a(id int PRIMARY KEY, t text, "odd ""name" varchar(8))`, `INSERT INTO a VALUES (1, E'tab\tnew\nline\\ \\N', 1.50), (2, NULL, NULL), (3, '', -0.01), (4, '\N', 7)`,
			"CREATE TABLE empty(id int PRIMARY KEY)",
			"CREATE TABLE keyless(a int, b text)", "ALTER TABLE keyless REPLICA IDENTITY FULL", "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
			"CREATE TABLE parent(id int PRIMARY KEY)", "CREATE TABLE child(PRIMARY KEY (id)) INHERITS (parent)", "INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (2)",
			`CREATE SCHEMA "Odd.s"`, `CREATE TABLE "Odd.s"."O'k"(id int PRIMARY KEY)`, `INSERT INTO "Odd.s"."O'k" VALUES (7)`,
			"ANALYZE a")
		s, opened := p.openExport(Options{}, func() { p.sql("INSERT INTO a VALUES (5, 'after', 0)", "DELETE FROM keyless WHERE a = 1") })
		if opened.Exported == nil || !opened.Baseline || opened.Renew || opened.Exported.Position() == opened.Start {
			p.Fatalf("opened %+v", opened)
		}
		start, _ := catalog.ParsePos(opened.Start)
		if pos, err := catalog.ParsePos(opened.Exported.Position()); err != nil || pos != start-1 || start != p.boundaryOf() {
			p.Errorf("rows are at %v, the stream starts at %s", opened.Exported.Position(), opened.Start)
		}
		for _, x := range opened.Exported.Tables() {
			if x.Table.Name == "a" && x.Rows != 4 {
				p.Errorf("estimate of a is %d", x.Rows)
			}
		}
		c := p.readExport(opened.Exported)
		c.want(p, "a", `(1,tab	new`+"\n"+`line\ \N,1.50)`, "(2,-,-)", "(3,,-0.01)", `(4,\N,7)`)
		c.want(p, "empty")
		c.want(p, "keyless", "(-,-)", "(1,x)", "(1,x)")
		c.want(p, "parent", "(1)")
		c.want(p, "child", "(2)")
		c.want(p, "O'k", "(7)")
		p.until(s, 3)
		if got := fmt.Sprint(len(p.lines)); got != "3" || !strings.Contains(p.lines[0], "after") {
			p.Errorf("streamed %q", p.lines)
		}
		p.wantNoConnections()
	})
}

func (p *pgtest) wantNoConnections() {
	p.Helper()
	p.eventually("the export's connections are closed", func() bool {
		return p.text("SELECT count(*)::text FROM pg_stat_activity WHERE datname = $1 AND application_name = 'tidemark' AND backend_type = 'client backend'", p.slot) == "1"
	})
}

// What was committed before the snapshot is exported, what was committed after it is streamed: together they are the table.
func TestExportedRowsAndStreamAreTheTable(t *testing.T) {
	onEach(t, func(p *pgtest) {
		seed := uint64(time.Now().UnixNano())
		p.Logf("seed %d", seed)
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int, pad text)", "ALTER TABLE a ALTER pad SET STORAGE PLAIN",
			"INSERT INTO a SELECT g, 0, repeat('x', 200) FROM generate_series(1, 4000) g", "DELETE FROM a WHERE id % 3 = 0", "VACUUM a")
		ctx, stop := context.WithCancel(p.ctx)
		var writers sync.WaitGroup
		for w := range 3 {
			conn := p.connect(p.url)
			writers.Go(func() {
				defer func() { _ = conn.Close(context.Background()) }()
				r := rand.New(rand.NewPCG(seed, uint64(w)))
				for ctx.Err() == nil {
					id, n := r.IntN(4500), r.IntN(1000)
					statement := []string{"INSERT INTO a VALUES (%d, %d, 'y') ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n", "UPDATE a SET id = id + 5000, n = %[2]d WHERE id = %[1]d", "DELETE FROM a WHERE id = %d AND n <> %d", "UPDATE a SET n = n + 1, pad = repeat('z', 300) WHERE id BETWEEN %d AND %[1]d + 20 -- %d"}[r.IntN(4)]
					_, _ = conn.Exec(p.ctx, fmt.Sprintf(statement, id, n)) // deadlocks and duplicates may fail
				}
			})
		}
		s, opened := p.openExport(Options{}, nil)
		got := map[string]string{}
		rows := 0
		for {
			x, err := opened.Exported.Next(p.ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || x.Err != nil {
				p.Fatal(err, x.Err)
			}
			for _, row := range x.Rows {
				id := fmt.Sprint(row[0].Num)
				if _, twice := got[id]; twice {
					p.Fatalf("row %s twice", id)
				}
				got[id] = renderRow(row)
				rows++
			}
		}
		stop()
		writers.Wait()
		p.sql("INSERT INTO a VALUES (-1, 0, 'end')")
		for {
			b, err := s.Next(p.ctx)
			if err != nil {
				p.Fatal(err)
			}
			for _, c := range b.Changes {
				if c.Op == connectors.OpDelete {
					delete(got, fmt.Sprint(c.Before[0].Num))
					continue
				}
				got[fmt.Sprint(c.After[0].Num)] = renderRow(c.After)
			}
			if got["-1"] != "" && b.Last {
				break
			}
		}
		want := map[string]string{}
		newReading(p).read(p, "a", func(_ *schema.Table, row schema.Row) error {
			want[fmt.Sprint(row[0].Num)] = renderRow(row)
			return nil
		})
		if rows < 2000 || !maps.Equal(got, want) {
			p.Errorf("%d rows exported; exported and streamed are %d rows, the table has %d", rows, len(got), len(want))
			for id, row := range want {
				if got[id] != row {
					p.Fatalf("row %s is %.60s, want %.60s", id, got[id], row)
				}
			}
		}
	})
}

func (p *pgtest) tableText(query string) (s string) {
	p.Helper()
	if err := p.conn.QueryRow(p.ctx, query).Scan(&s); err != nil {
		p.Fatal(err)
	}
	return s
}

func TestExportCountsNumbersThatBecomeNull(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n numeric(8,2))", "INSERT INTO a VALUES (1, 'NaN'), (2, 1), (3, 'NaN')")
		p.raw[propNonFinite] = "null"
		s, opened := p.openExport(Options{}, nil)
		p.readExport(opened.Exported)
		p.sql("INSERT INTO a VALUES (4, 'NaN')")
		p.until(s, 1)
		if n := s.NonFinite(); n != 3 {
			p.Errorf("%d numbers became null, want 3", n)
		}
	})
}

// A large table with dead rows and free pages is read in ranges, each row once.
func TestExportReadsRanges(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, pad text)", "INSERT INTO a SELECT g, repeat('x', 500) FROM generate_series(1, 3000) g",
			"DELETE FROM a WHERE id BETWEEN 500 AND 1500", "VACUUM a", "INSERT INTO a SELECT g, 'short' FROM generate_series(5000, 5400) g", "UPDATE a SET pad = repeat('y', 600) WHERE id % 7 = 0")
		var pages int // of a range, so that the last one would be short and is added to the one before
		_, err := fmt.Sscan(p.tableText("SELECT min(g)::text FROM generate_series(4, 50) g WHERE pg_relation_size('a') / 8192 % g BETWEEN 1 AND g / 2"), &pages)
		if err != nil {
			p.Fatal(err)
		}
		_, opened := p.openExport(Options{MaxBatchChanges: -pages}, func() {
			p.sql("DELETE FROM a", "VACUUM a")
		})
		c := p.readExport(opened.Exported)
		if n := len(c.rows["a"]); n != 3000-1001+401 || len(slices.Compact(c.rows["a"])) != n || !c.last["a"] {
			p.Errorf("%d rows, complete %t: %v", n, c.last["a"], c.errs)
		}
	})
}

// What was made of a table after the snapshot, and took its rows away from it, is an error of that table.
func TestExportFindsRewrittenTables(t *testing.T) {
	onEach(t, func(p *pgtest) {
		for _, table := range []string{"truncated", "rewritten", "dropped", "recreated", "renamed", "column_gone", "kept"} {
			p.sql("CREATE TABLE "+table+"(id int PRIMARY KEY, n int)", "INSERT INTO "+table+" VALUES (1, 1)")
		}
		_, opened := p.openExport(Options{}, func() {
			p.sql("TRUNCATE truncated", "ALTER TABLE rewritten ALTER n TYPE bigint", "DROP TABLE dropped", "DROP TABLE recreated; CREATE TABLE recreated(id int PRIMARY KEY, n int)",
				"ALTER TABLE renamed RENAME TO other", "ALTER TABLE column_gone DROP n", "ALTER TABLE kept ADD m int DEFAULT 5")
		})
		c := p.readExport(opened.Exported)
		c.wantErr(p, "truncated", "truncated, rewritten")
		c.wantErr(p, "rewritten", "truncated, rewritten")
		c.wantErr(p, "dropped", "does not exist")
		c.wantErr(p, "recreated", "truncated, rewritten")
		c.wantErr(p, "renamed", "does not exist")
		c.wantErr(p, "column_gone", `column "n" does not exist`)
		c.want(p, "kept", "(1,1)")
		p.wantNoConnections()
	})
}

// A connection that is killed fails the table it reads; the others are read over those that remain.
func TestExportSurvivesAKilledConnection(t *testing.T) {
	onEach(t, func(p *pgtest) {
		for i := range 6 {
			p.sql(fmt.Sprintf("CREATE TABLE t%d(id int PRIMARY KEY, pad text)", i), fmt.Sprintf("INSERT INTO t%d SELECT g, repeat('x', 1000) FROM generate_series(1, 12000) g", i))
		}
		_, opened := p.openExport(Options{}, nil)
		first, err := opened.Exported.Next(p.ctx)
		if err != nil || first.Err != nil {
			p.Fatal(err, first.Err)
		}
		p.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark' AND query LIKE 'COPY%' AND datname = current_database() LIMIT 1")
		c := p.readExport(opened.Exported)
		failed := 0
		for i := range 6 {
			name := fmt.Sprintf("t%d", i)
			if err := c.errs[name]; err != nil {
				failed++
				if connectors.ClassOf(err) != connectors.ClassWait {
					p.Errorf("%s: class %s", name, connectors.ClassOf(err))
				}
			}
		}
		if failed != 1 {
			p.Errorf("%d tables failed: %v", failed, c.errs)
		}
	})
}

func TestExportWithoutConnectionsLeft(t *testing.T) {
	onEach(t, func(p *pgtest) {
		for i := range 4 {
			p.sql(fmt.Sprintf("CREATE TABLE t%d(id int PRIMARY KEY)", i), fmt.Sprintf("INSERT INTO t%d VALUES (1)", i))
		}
		_, opened := p.openExport(Options{}, func() {
			p.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark' AND state = 'idle in transaction' AND datname = current_database()")
		})
		c := p.readExport(opened.Exported)
		if len(c.errs) != 4 {
			p.Errorf("errors %v, want one of each table", c.errs)
		}
	})
}

// Close ends an export at any point, whatever its workers wait for.
func TestExportCloses(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE a(id int PRIMARY KEY, pad text)", "INSERT INTO a SELECT g, repeat('x', 1000) FROM generate_series(1, 20000) g")
		_, opened := p.openExport(Options{}, nil)
		if _, err := opened.Exported.Next(p.ctx); err != nil {
			p.Fatal(err)
		}
		if err := opened.Exported.Close(p.ctx); err != nil {
			p.Fatal(err)
		}
		if _, err := opened.Exported.Next(p.ctx); !errors.Is(err, errClosed) {
			p.Errorf("next after close: %v", err)
		}
		p.wantNoConnections()
	})
}

// Row filter, column list and partitions published as their root are the publication's.
func TestExportReadsWhatIsPublished(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE r(id int, v text, hidden text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
			"CREATE TABLE r1 PARTITION OF r FOR VALUES FROM (0) TO (10)", "CREATE TABLE r2(hidden text, v text, id int NOT NULL)", "ALTER TABLE r2 ADD PRIMARY KEY (id)", "ALTER TABLE r ATTACH PARTITION r2 FOR VALUES FROM (10) TO (20)",
			"INSERT INTO r VALUES (1, 'a', 'h'), (11, 'b', 'h')", "CREATE TABLE none(id int PRIMARY KEY) PARTITION BY RANGE (id)",
			"CREATE TABLE f(id int PRIMARY KEY, v text)", "INSERT INTO f VALUES (1, 'a'), (2, 'b'), (3, NULL)")
		filtered := p.text("SELECT (current_setting('server_version_num')::int >= 150000)::text") == "true"
		columns, where := "", ""
		if filtered {
			columns, where = "(id, v)", " WHERE (id <> 2)"
		}
		p.sql("CREATE PUBLICATION tidemark FOR TABLE r" + columns + ", f" + where + ", none WITH (publish_via_partition_root = true)")
		p.raw[propAutocreate], p.raw[propTableInclude], p.raw[propColumnExclude] = "disabled", "public.(r|f|none)", "public.r.hidden"
		_, opened := p.openExport(Options{}, func() {
			p.sql("CREATE TABLE r3 PARTITION OF r FOR VALUES FROM (20) TO (30)", "INSERT INTO r VALUES (21, 'late', 'h')", "ALTER TABLE r DETACH PARTITION r1")
		})
		c := p.readExport(opened.Exported)
		c.want(p, "r", "(1,a)", "(11,b)")
		c.want(p, "none")
		if filtered {
			c.want(p, "f", "(1,a)", "(3,-)")
		} else {
			c.want(p, "f", "(1,a)", "(2,b)", "(3,-)")
		}
		if len(opened.Exported.Tables()) != 3 {
			p.Errorf("tables %v", opened.Exported.Tables())
		}
	})
}

func TestExportHonoursListAndStatements(t *testing.T) {
	onEach(t, func(p *pgtest) {
		for _, table := range []string{"a", "b", "c"} {
			p.sql("CREATE TABLE "+table+"(id int PRIMARY KEY, n int)", "INSERT INTO "+table+" SELECT g, g FROM generate_series(1, 3) g")
		}
		p.raw[propSnapshotInclude] = "public.a, PUBLIC\\.B"
		p.raw[propSnapshotOverride] = "public.b"
		p.raw[propSnapshotOverride+".public.b"] = "SELECT n * 10 AS n, id FROM public.b WHERE id > 1 -- not the first\n;"
		_, opened := p.openExport(Options{}, nil)
		c := p.readExport(opened.Exported)
		c.want(p, "a", "(1,1)", "(2,2)", "(3,3)")
		c.want(p, "b", "(2,20)", "(3,30)")
		if len(opened.Tables) != 3 || len(opened.Exported.Tables()) != 2 {
			p.Errorf("%d tables are captured, %d read", len(opened.Tables), len(opened.Exported.Tables()))
		}
	})
}

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
