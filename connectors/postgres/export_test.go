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
