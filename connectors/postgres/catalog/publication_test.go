package catalog

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
)

func names(p Publication) string {
	var out []string
	for _, t := range p.Tables {
		out = append(out, t.QualifiedName())
	}
	return strings.Join(out, " ")
}

func TestFilteredPublicationGrows(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE public.a (id int PRIMARY KEY)", `CREATE TABLE public."B" (id int PRIMARY KEY)`,
			"CREATE TABLE public.child () INHERITS (public.a)", "CREATE TABLE public.keyless (id int)")
		refs := d.refs(false) // B, a, child, keyless
		cfg := PublicationConfig{Name: `P "1"`, Mode: Filtered, Tables: refs[1:2]}
		pub, err := EnsurePublication(d.ctx, d.conn, cfg, nil)
		if err != nil || names(pub) != "public.a" || pub.Ops != AllOperations || pub.AllTables || pub.ViaRoot || !pub.Owned {
			t.Fatalf("%+v, %v", pub, err)
		}
		cfg.Tables = refs[:2]
		for range 2 { // the second changes nothing
			pub, err = EnsurePublication(d.ctx, d.conn, cfg, nil)
			if err != nil || names(pub) != "public.B public.a" {
				t.Fatalf("%+v, %v", pub, err)
			}
		}
		cfg.Tables = refs[:1] // never shrinks
		if pub, err = EnsurePublication(d.ctx, d.conn, cfg, nil); err != nil || len(pub.Tables) != 2 {
			t.Fatalf("%+v, %v", pub, err)
		}
		cfg.Tables = refs
		_, err = EnsurePublication(d.ctx, d.conn, cfg, nil)
		wantError(t, err, connectors.ClassRefused, "public.child", "no primary key")
		d.exec("UPDATE public.keyless SET id = 2") // still works: it was refused rather than added
		cfg.ViaPartitionRoot = true
		_, err = EnsurePublication(d.ctx, d.conn, cfg, nil)
		wantError(t, err, connectors.ClassRefused, "publish_via_partition_root = true")
	})
}

func TestPublicationModes(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE public.a (id int PRIMARY KEY)", "CREATE TABLE public.keyless (id int)")
		refs := d.refs(false)
		ensure := func(name string, mode PublicationMode, tables ...TableRef) (Publication, error) {
			return EnsurePublication(d.ctx, d.conn, PublicationConfig{Name: name, Mode: mode, Tables: tables}, nil)
		}
		_, err := ensure("p", Disabled, refs[0])
		wantError(t, err, connectors.ClassRefused, "publication p does not exist", "publication.autocreate.mode=disabled", "CREATE PUBLICATION")
		_, err = ensure("p", Filtered)
		wantError(t, err, connectors.ClassRefused, "no captured table")
		_, err = ensure("p", AllTables, refs[0])
		wantError(t, err, connectors.ClassRefused, "public.keyless") // not captured, but its updates would fail
		if pub, err := ensure("empty", NoTables, refs[0]); err != nil || !pub.Exists || len(pub.Tables) != 0 {
			t.Errorf("%+v, %v", pub, err)
		}
		d.exec("ALTER TABLE public.keyless REPLICA IDENTITY FULL")
		if pub, err := ensure("p", AllTables, refs[0]); err != nil || !pub.AllTables || names(pub) != "public.a public.keyless" {
			t.Errorf("%+v, %v", pub, err)
		}
		if pub, err := ensure("p", Filtered, refs...); err != nil || !pub.AllTables {
			t.Errorf("%+v, %v", pub, err)
		}
		cfg := d.role("REPLICATION")
		_, err = EnsurePublication(d.ctx, connect(t, d.ctx, cfg), PublicationConfig{Name: "q", Mode: Filtered, Tables: refs}, nil)
		wantError(t, err, connectors.ClassRefused, "publication q", "permission denied", "disabled")
	})
}

func TestPublicationContents(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec("CREATE TABLE public.t (id int PRIMARY KEY, n int, g int GENERATED ALWAYS AS (n) STORED, v text)",
			"CREATE TABLE public.r (id int PRIMARY KEY) PARTITION BY LIST (id)", "CREATE TABLE public.r1 PARTITION OF public.r DEFAULT",
			"CREATE PUBLICATION roots FOR TABLE public.r, public.t WITH (publish_via_partition_root = true)",
			"CREATE PUBLICATION leaves FOR TABLE public.r WITH (publish = 'insert, truncate')",
			`CREATE SCHEMA "S.x"`, `CREATE TABLE "S.x"."a ""b"" é" (id int PRIMARY KEY)`, `CREATE TABLE "S.x".t (id int PRIMARY KEY)`,
			`CREATE PUBLICATION odd FOR TABLE public.t, "S.x".t, "S.x"."a ""b"" é"`)
		read := func(name string) Publication {
			p, err := ReadPublication(d.ctx, d.conn, name)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range p.Tables {
				one, err := ReadPublicationOf(d.ctx, d.conn, name, want.OID)
				whole := p
				whole.Tables = []PublishedTable{want}
				if err != nil || !reflect.DeepEqual(one, whole) {
					t.Errorf("%s alone: %+v, %v; want %+v", want.Name, one, err, whole)
				}
			}
			return p
		}
		roots, leaves := read("roots"), read("leaves")
		if names(roots) != "public.r public.t" || !roots.ViaRoot || !reflect.DeepEqual(roots.Tables[1].Columns, []string{"id", "n", "v"}) {
			t.Errorf("%+v", roots)
		}
		if odd := read("odd"); names(odd) != `S.x.a "b" é S.x.t public.t` {
			t.Errorf("%+v", odd)
		}
		if one, err := ReadPublicationOf(d.ctx, d.conn, "leaves", roots.Tables[1].OID); err != nil || !one.Exists || len(one.Tables) != 0 {
			t.Errorf("a table that is not in it: %+v, %v", one, err)
		}
		if names(leaves) != "public.r1" || leaves.Ops != (Operations{Insert: true, Truncate: true}) {
			t.Errorf("%+v", leaves)
		}
		tables := d.tables(true)
		keys := map[uint32][]string{tables["public.t"].OID: {"id"}}
		problems := leaves.Coverage([]*Table{tables["public.t"]}, keys)
		if len(problems) != 2 || !strings.Contains(problems[0].Message, "ADD TABLE") || !strings.Contains(problems[1].Message, "update, delete") {
			t.Errorf("%v", problems)
		}
		if got := roots.Coverage([]*Table{tables["public.t"]}, keys); got != nil {
			t.Errorf("%v", got)
		}
		keyless := *tables["public.r"]
		keyless.OID = d.tables(false)["public.r1"].OID
		if got := leaves.Coverage([]*Table{&keyless}, nil); got != nil {
			t.Errorf("keyless table of an insert-only publication: %v", got)
		}
		if got := read("nosuch").Coverage(nil, nil); len(got) != 1 || !strings.Contains(got[0].Message, "nosuch does not exist") {
			t.Errorf("%v", got)
		}
		if d.conn.PgConn().ParameterStatus("server_version") < "15" {
			return
		}
		d.exec("CREATE PUBLICATION narrow FOR TABLE public.t (id, v) WHERE (id > 10)")
		narrow := read("narrow")
		if len(narrow.Tables) != 1 || !reflect.DeepEqual(narrow.Tables[0].Columns, []string{"id", "v"}) || narrow.Tables[0].RowFilter != "(id > 10)" {
			t.Errorf("%+v", narrow)
		}
		keys[tables["public.t"].OID] = []string{"n"}
		if got := narrow.Coverage([]*Table{tables["public.t"]}, keys); len(got) != 1 || !strings.Contains(got[0].Message, `key column "n"`) {
			t.Errorf("%v", got)
		}
		if d.conn.PgConn().ParameterStatus("server_version") < "18" {
			return
		}
		d.exec("CREATE PUBLICATION gen FOR TABLE public.t WITH (publish_generated_columns = stored)")
		if gen := read("gen"); !gen.Generated || len(gen.Tables[0].Columns) != 4 {
			t.Errorf("%+v", gen)
		}
	})
}

func TestPublicationWaitsForLock(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		d.exec("CREATE TABLE public.a (id int PRIMARY KEY)")
		other := connect(t, d.ctx, d.cfg)
		exec(t, other, "BEGIN", "LOCK TABLE public.a IN ACCESS EXCLUSIVE MODE")
		pid := "pid " + itoa32(other.PgConn().PID())
		cfg := PublicationConfig{Name: "p", Mode: Filtered, Tables: d.refs(false), LockTimeout: 600 * time.Millisecond, Wait: time.Second}
		seen := newStates()
		_, err := EnsurePublication(d.ctx, d.conn, cfg, seen.report)
		wantError(t, err, connectors.ClassWait, "waiting for a lock held by "+pid, "open since 20")
		seen.wait(t, "waiting for a lock held by "+pid, "open since 20")
		// The connection is as before, and a lock given back in time is waited for.
		cfg.Wait = 30 * time.Second
		done := make(chan error, 1)
		seen = newStates()
		go func() { _, err := EnsurePublication(d.ctx, d.conn, cfg, seen.report); done <- err }()
		seen.wait(t, pid)
		exec(t, other, "COMMIT")
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := d.value("SELECT current_setting('lock_timeout')"); got != "0" {
			t.Errorf("lock_timeout is left at %s", got)
		}
	})
}

func TestPublicationWaitIsCancelled(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		d.exec("CREATE TABLE public.a (id int PRIMARY KEY)")
		other, conn := connect(t, d.ctx, d.cfg), connect(t, d.ctx, d.cfg)
		exec(t, other, "BEGIN", "LOCK TABLE public.a")
		ctx, cancel := context.WithCancel(d.ctx)
		seen := newStates()
		done := make(chan error, 1)
		cfg := PublicationConfig{Name: "p", Mode: Filtered, Tables: d.refs(false)}
		go func() { _, err := EnsurePublication(ctx, conn, cfg, seen.report); done <- err }()
		seen.wait(t, "waiting for a lock")
		cancel()
		if err := <-done; err == nil || ctx.Err() == nil {
			t.Errorf("got %v", err)
		}
		exec(t, other, "ROLLBACK")
	})
}
