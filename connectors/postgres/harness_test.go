package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// envURLs names superuser URLs of real servers, comma-separated.
const envURLs = "TIDEMARK_TEST_PG_URLS"

var unique atomic.Int64

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world of one test: a database, a slot, and what a pipeline would have stored.
type pgtest struct {
	testing.TB
	ctx   context.Context
	url   *url.URL
	conn  *pgx.Conn
	admin *pgx.Conn
	slot  string
	raw   map[string]string

	mu     sync.Mutex
	states []connectors.State
	stored offsets.Object
	tables map[string]offsets.Object
	set    offsets.Object // the table set
	lines  []string       // published changes, committed
}

// onEach runs a test on every server, in a database of its own.
func onEach(t *testing.T, test func(p *pgtest)) {
	t.Helper()
	list := os.Getenv(envURLs)
	if list == "" {
		t.Skip("set " + envURLs + " to superuser URLs of PostgreSQL servers, comma-separated")
	}
	for _, one := range strings.Split(list, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(u.Port(), func(t *testing.T) { test(newPgtest(t, u)) })
	}
}

func newPgtest(t testing.TB, u *url.URL) *pgtest {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	name := fmt.Sprintf("source_%d_%d", os.Getpid(), unique.Add(1))
	p := &pgtest{TB: t, ctx: ctx, slot: name, tables: map[string]offsets.Object{}}
	base := *u
	base.Path = "/postgres"
	p.admin = p.connect(&base)
	p.exec(p.admin, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'")
	db := *u
	db.Path = "/" + name
	p.url = &db
	p.conn = p.connect(&db)
	password, _ := u.User.Password()
	p.raw = map[string]string{
		propHost: u.Hostname(), propPort: u.Port(), propUser: u.User.Username(), propPassword: password, propDatabase: name,
		propSlot: name, propSnapshotMode: "no_data", propSSLMode: "disable",
	}
	t.Cleanup(func() {
		defer cancel()
		_ = p.conn.Close(ctx)
		p.eventually("slot dropped", func() bool {
			_, err := p.admin.Exec(ctx, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE $1`, name+"%")
			return err == nil
		})
		p.exec(p.admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)", "DROP ROLE IF EXISTS "+name+"_role")
		_ = p.admin.Close(ctx)
	})
	return p
}

// asRole has the source connect as a role of its own, with settings of its own.
func (p *pgtest) asRole(settings ...string) {
	p.Helper()
	role := p.slot + "_role" // dropped with the database
	p.exec(p.admin, "CREATE ROLE "+role+" LOGIN SUPERUSER REPLICATION PASSWORD 'x'")
	for _, s := range settings {
		p.exec(p.admin, "ALTER ROLE "+role+" SET "+s)
	}
	p.raw[propUser], p.raw[propPassword] = role, "x"
}

func (p *pgtest) connect(u *url.URL) *pgx.Conn {
	p.Helper()
	conn, err := pgx.Connect(p.ctx, u.String())
	if err != nil {
		p.Fatal(err)
	}
	return conn
}

func (p *pgtest) exec(conn *pgx.Conn, statements ...string) {
	p.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(p.ctx, s); err != nil {
			p.Fatalf("%s: %v", s, err)
		}
	}
}

func (p *pgtest) sql(statements ...string) { p.Helper(); p.exec(p.conn, statements...) }

func (p *pgtest) text(query string, args ...any) (s string) {
	p.Helper()
	if err := p.admin.QueryRow(p.ctx, query, args...).Scan(&s); err != nil {
		p.Fatalf("%s: %v", query, err)
	}
	return s
}

func (p *pgtest) lsn(query string, args ...any) pgoutput.LSN {
	p.Helper()
	lsn, err := pgoutput.ParseLSN(p.text(query, args...))
	if err != nil {
		p.Fatal(err)
	}
	return lsn
}

func (p *pgtest) confirmed() pgoutput.LSN {
	p.Helper()
	return p.lsn("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", p.slot)
}

func (p *pgtest) eventually(what string, ok func() bool) {
	p.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			p.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *pgtest) newSource(opts Options) *Source {
	p.Helper()
	cfg, problems := Spec().Parse(p.raw)
	if len(problems) > 0 {
		p.Fatal(problems)
	}
	opts.Server, opts.Group, opts.Connector = "shop", "g", "c"
	opts.Report = func(s connectors.State) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.states = append(p.states, s)
	}
	s, err := New(cfg, opts)
	if err != nil {
		p.Fatal(err)
	}
	return s
}

func (p *pgtest) entries() []offsets.Entry {
	var out []offsets.Entry
	if p.stored != nil {
		out = append(out, offsets.Entry{Partition: offsets.StreamPartition("shop"), Offset: p.stored})
	}
	if p.set != nil {
		out = append(out, offsets.Entry{Partition: offsets.SetPartition("shop"), Offset: p.set})
	}
	for name, o := range p.tables {
		out = append(out, offsets.Entry{Partition: offsets.TablePartition("shop", name), Offset: o})
	}
	return out
}

// open starts a source and stores what it reconciled, as the pipeline does.
func (p *pgtest) open(opts Options) *Source {
	p.Helper()
	s := p.newSource(opts)
	opened, err := s.Open(p.ctx, p.entries())
	if err != nil {
		p.Fatal(err)
	}
	p.stored = opened.Boundary
	p.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// openError expects a start to fail.
func (p *pgtest) openError(class connectors.Class, want string) {
	p.Helper()
	s := p.newSource(Options{})
	_, err := s.Open(p.ctx, p.entries())
	_ = s.Close(p.ctx)
	p.wantError(err, class, want)
}

func (p *pgtest) wantError(err error, class connectors.Class, want string) {
	p.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || connectors.ClassOf(err) != class {
		p.Fatalf("got %v (%s), want …%s… (%s)", err, connectors.ClassOf(err), want, class)
	}
}

var errEnough = errors.New("enough")

// consume plays the pipeline: a transaction's changes count once its boundary is stored. step is called before
// a boundary is stored and again between storing and acknowledging; its error ends the run as a crash does.
func (p *pgtest) consume(s *Source, step func(b connectors.Batch, stored bool) error) error {
	var open []string
	for {
		b, err := s.Next(p.ctx)
		if err != nil {
			return err
		}
		open = append(open, changeLines(b)...)
		if err := step(b, false); err != nil {
			return err
		}
		if !b.Last {
			continue
		}
		p.stored = b.Boundary
		for _, e := range b.Entries {
			p.set = e.Offset
		}
		for _, c := range b.Changes {
			if c.Table == nil {
				continue
			}
			p.tables[c.Table.QualifiedName()] = offsets.TableState{
				ID: c.Table.ID, Name: c.Table.QualifiedName(), KeyColumns: jsonNames(c.Table.KeyColumns()),
				KeyTypes: c.Table.KeyTypes(), Identity: c.Table.Identity,
			}.Object()
		}
		p.lines = append(p.lines, open...)
		open = open[:0]
		if err := step(b, true); err != nil {
			return err
		}
		if err := s.Ack(p.ctx, b.Boundary); err != nil {
			return err
		}
	}
}

// until consumes until n changes were published in all.
func (p *pgtest) until(s *Source, n int) {
	p.Helper()
	err := p.consume(s, func(_ connectors.Batch, stored bool) error {
		if stored && len(p.lines) >= n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		p.Fatalf("after %d of %d changes: %v", len(p.lines), n, err)
	}
	if err := s.Ack(p.ctx, p.stored); err != nil {
		p.Fatal(err)
	}
}

func jsonNames(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = `"` + n + `"`
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

func changeLines(b connectors.Batch) []string {
	last := b.Last
	b.Last = false
	lines := render(b)
	b.Last = last
	for i, l := range lines {
		_, lines[i], _ = strings.Cut(l, " ") // positions differ from run to run
	}
	return lines
}

// boundaryOf is the stored boundary.
func (p *pgtest) boundaryOf() pgoutput.LSN {
	text, _ := p.stored.Text("boundary_lsn")
	lsn, err := pgoutput.ParseLSN(text)
	if err != nil {
		p.Fatal(err)
	}
	return lsn
}
