package catalog

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// envURLs names superuser URLs of real servers, comma-separated.
const envURLs = "TIDEMARK_TEST_PG_URLS"

var unique atomic.Int64

// database is a database of its own on one of the servers, dropped after the test.
type database struct {
	t    *testing.T
	ctx  context.Context
	cfg  ConnConfig
	conn *pgx.Conn
}

// onEach runs the test on every server, in a fresh database each.
func onEach(t *testing.T, test func(t *testing.T, d *database)) {
	t.Helper()
	urls := os.Getenv(envURLs)
	if urls == "" {
		t.Skip("set " + envURLs + " to superuser URLs of PostgreSQL servers, comma-separated")
	}
	for _, u := range strings.Split(urls, ",") {
		parsed, err := url.Parse(strings.TrimSpace(u))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(parsed.Host, func(t *testing.T) { test(t, newDatabase(t, parsed, "")) })
	}
}

func newDatabase(t *testing.T, u *url.URL, options string) *database {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	port, _ := strconv.Atoi(u.Port())
	password, _ := u.User.Password()
	cfg := ConnConfig{Host: u.Hostname(), Port: uint16(port), User: u.User.Username(), Password: password, Database: "postgres"}
	name := fmt.Sprintf("catalog_%d_%d", os.Getpid(), unique.Add(1))
	admin := connect(t, ctx, cfg)
	exec(t, admin, "CREATE DATABASE "+name+" "+options)
	t.Cleanup(func() { exec(t, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	cfg.Database = name
	d := &database{t: t, ctx: ctx, cfg: cfg}
	if options == "" {
		d.conn = connect(t, ctx, cfg)
	}
	return d
}

func connect(t *testing.T, ctx context.Context, cfg ConnConfig) *pgx.Conn {
	t.Helper()
	conn, err := Connect(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (d *database) exec(statements ...string) { d.t.Helper(); exec(d.t, d.conn, statements...) }

func (d *database) value(query string) string {
	d.t.Helper()
	var s string
	if err := d.conn.QueryRow(d.ctx, query).Scan(&s); err != nil {
		d.t.Fatalf("%s: %v", query, err)
	}
	return s
}

func (d *database) replication() *pgconn.PgConn {
	d.t.Helper()
	repl, err := ConnectReplication(d.ctx, d.cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = repl.Close(context.Background()) })
	return repl
}

// role creates a login role, dropped after the test.
func (d *database) role(options string) ConnConfig {
	d.t.Helper()
	cfg := d.cfg
	cfg.User, cfg.Password = fmt.Sprintf("%s_r%d", d.cfg.Database, unique.Add(1)), "other's\\secret"
	d.exec("CREATE ROLE " + cfg.User + " LOGIN PASSWORD " + quoteLiteral(cfg.Password) + " " + options)
	d.t.Cleanup(func() {
		exec(d.t, d.conn, "DROP OWNED BY "+cfg.User+" CASCADE", "DROP ROLE "+cfg.User)
	})
	return cfg
}

// slotName returns a name no other test has; the slot is dropped after the test if it is there.
func (d *database) slotName() string {
	d.t.Helper()
	name := fmt.Sprintf("%s_s%d", d.cfg.Database, unique.Add(1))
	d.t.Cleanup(func() {
		_, _ = d.conn.Exec(context.Background(), "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", name)
	})
	return name
}

func (d *database) refs(viaRoot bool) []TableRef {
	d.t.Helper()
	refs, err := ListTables(d.ctx, d.conn, viaRoot)
	if err != nil {
		d.t.Fatal(err)
	}
	return refs
}

func (d *database) tables(viaRoot bool) map[string]*Table {
	d.t.Helper()
	var oids []uint32
	for _, r := range d.refs(viaRoot) {
		oids = append(oids, r.OID)
	}
	tables, err := ReadTables(d.ctx, d.conn, oids...)
	if err != nil {
		d.t.Fatal(err)
	}
	byName := map[string]*Table{}
	for _, t := range tables {
		byName[t.QualifiedName()] = t
	}
	return byName
}

func wantError(t *testing.T, err error, class connectors.Class, says ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v", says)
		return
	}
	if connectors.ClassOf(err) != class {
		t.Errorf("class %s, want %s: %v", connectors.ClassOf(err), class, err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q lacks %q", err, s)
		}
	}
}

// states collects reported states.
type states struct {
	mu  sync.Mutex
	all []string
	got chan string
}

func newStates() *states { return &states{got: make(chan string, 100)} }

func (s *states) report(st connectors.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, st.Name+" "+st.Reason)
	select {
	case s.got <- st.Reason:
	default:
	}
}

// wait waits until a reason with all of says is reported.
func (s *states) wait(t *testing.T, says ...string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
next:
	for {
		select {
		case reason := <-s.got:
			for _, w := range says {
				if !strings.Contains(reason, w) {
					continue next
				}
			}
			return
		case <-deadline:
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Fatalf("no state with %q in %q", says, s.all)
		}
	}
}

func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
