package badinput

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

// mistake is one thing a user gets wrong.
type mistake struct {
	name  string
	major []int // versions; 18 where empty
	// offsets: a good run comes first, so that the stream has offsets.
	offsets bool
	// fresh: slot and publication are not made by hand before the mistake.
	fresh bool
	// late: the row is written after the repair; before, nothing could have kept it.
	late bool
	make func(s *stage)
	exit int // 0: the connector waits
	// words of the one sentence: what, where, what to do.
	words []string
	// validate shows the same words, others, or, where unchecked is set, does not see it.
	validate  []string
	unchecked bool
	repair    func(s *stage)
}

func mistakesTest(t *testing.T, own *env.Postgres) {
	for _, m := range mistakes() {
		if len(m.major) == 0 {
			m.major = []int{18}
		}
		for _, major := range m.major {
			t.Run(fmt.Sprintf("%s/%d", m.name, major), func(t *testing.T) {
				t.Parallel()
				pg := own
				if major != own.Major {
					pg = servers.Postgres(t, major)
				}
				m.play(newStage(t, pg))
			})
		}
	}
}

// play makes the mistake, wants its sentence, repairs it, and wants the row.
func (m mistake) play(s *stage) {
	s.Helper()
	if m.offsets {
		p := s.run()
		p.line(0, "state=RUNNING")
		s.sql("INSERT INTO public.t VALUES (0, 'before')")
		s.published("t", 0)
		p.stop()
	} else if !m.fresh {
		s.prepare()
	}
	if !m.late {
		s.sql("INSERT INTO public.t VALUES (1, 'kept')")
	}
	m.make(s)
	before := s.confirmed()
	p := s.run()
	if m.exit == 0 {
		p.line(0, append([]string{"state=WAITING"}, m.words...)...)
	} else {
		sentence := p.exit(m.exit)
		s.wants(sentence, m.words...)
		s.wants(sentence, "connectctl: connector "+s.name+": ")
	}
	m.validated(s)
	want := []int{1}
	if m.offsets {
		want = []int{0, 1}
	}
	if n := len(s.rows("t")); n != len(want)-1 {
		s.Errorf("%d records were published in spite of it", n)
	}
	if after := s.confirmed(); before != "" && after != "" && after != before {
		s.Errorf("the slot was moved from %s to %s in spite of it", before, after)
	}
	m.repair(s)
	if m.exit == 0 && len(p.cmd.Args) > 0 && !m.restarts() {
		p.line(0, "state=RUNNING")
	} else {
		if m.exit == 0 {
			p.stop()
		}
		p = s.run()
		p.line(0, "state=RUNNING")
	}
	if m.late {
		s.sql("INSERT INTO public.t VALUES (1, 'late')")
	}
	s.published("t", want...)
	p.stop()
}

// restarts tells whether the repair is one of a file, which a running connector does not read again.
func (m mistake) restarts() bool { return strings.HasPrefix(m.name, "file ") }

func (m mistake) validated(s *stage) {
	s.Helper()
	w, c := s.files()
	if m.unchecked {
		return
	}
	words := m.validate
	if words == nil {
		words = m.words
	}
	out, _ := s.ctl(1, "validate", "--worker", w, c)
	for _, l := range strings.Split(out, "\n") {
		if holds(l, words) {
			return
		}
	}
	s.Errorf("validate has no line with %q:\n%s", words, out)
}

func set(name, bad string) func(*stage) { return func(s *stage) { s.connector[name] = bad } }

func setWorker(name, bad string) func(*stage) { return func(s *stage) { s.worker[name] = bad } }

func mistakes() []mistake {
	var all []mistake
	for _, group := range [][]mistake{reaching(), publications(), slots(), rights(), tables(), kafkas()} {
		all = append(all, group...)
	}
	return all
}

func reaching() []mistake {
	return []mistake{
		{name: "file host", make: set("database.hostname", "no-such-host.invalid"), words: []string{"cannot reach PostgreSQL at no-such-host.invalid", `host \"no-such-host.invalid\"`},
			validate: []string{"cannot reach PostgreSQL at no-such-host.invalid"}, repair: func(s *stage) { s.connector["database.hostname"] = s.pg.Host() }},
		{name: "file port", make: set("database.port", "1"), words: []string{"cannot reach PostgreSQL at 127.0.0.1:1: the connection was refused", "database.port"},
			repair: func(s *stage) { s.connector["database.port"] = fmt.Sprint(s.pg.Port()) }},
		{name: "password", make: set("database.password", secret+"x"), exit: 5, words: []string{"PostgreSQL at ", "does not accept the password of user", "check database.user and database.password"},
			repair: set("database.password", secret)},
		{name: "user", make: set("database.user", "nobody_such"), exit: 5, words: []string{`user "nobody_such"`, "check database.user"},
			repair: func(s *stage) { s.connector["database.user"] = s.name }},
		{name: "database", make: set("database.dbname", "no_such"), exit: 5, words: []string{`has no database "no_such"; check database.dbname`},
			repair: func(s *stage) { s.connector["database.dbname"] = s.name }},
		{name: "tls", make: set("database.sslmode", "require"), exit: 5, words: []string{"sslmode require", "the server does not offer TLS", "database.sslmode"},
			repair: set("database.sslmode", "prefer")},
	}
}

func publications() []mistake {
	disabled := func(s *stage) { s.connector["publication.autocreate.mode"] = "disabled" }
	return []mistake{
		{name: "publication missing", major: []int{14, 18}, fresh: true, late: true, make: disabled, exit: 5,
			words:  []string{"publication p does not exist and publication.autocreate.mode=disabled does not create it; run CREATE PUBLICATION"},
			repair: func(s *stage) { s.sql("CREATE PUBLICATION p FOR TABLE public.t") }},
		{name: "publication without the table", major: []int{14, 18}, fresh: true, late: true, exit: 5, make: func(s *stage) {
			disabled(s)
			s.connector["table.include.list"] = "public.t"
			s.sql("CREATE TABLE public.other (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE public.other")
		}, words: []string{"publication p does not publish table public.t; run ALTER PUBLICATION \"p\" ADD TABLE"},
			repair: func(s *stage) { s.sql("ALTER PUBLICATION p ADD TABLE public.t") }},
		{name: "publication without operations", exit: 5, make: func(s *stage) {
			disabled(s)
			s.sql("ALTER PUBLICATION p SET (publish = 'insert')")
		}, words: []string{"publication p does not publish update, delete, truncate of captured tables; run ALTER PUBLICATION"},
			repair: func(s *stage) { s.sql("ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')") }},
		{name: "publication without the key", exit: 5, late: true, make: func(s *stage) {
			disabled(s)
			s.sql("ALTER PUBLICATION p SET TABLE public.t (v)")
		}, words: []string{`publication p does not publish key column "id" of table public.t`, "publish it or choose other columns in message.key.columns"},
			repair: func(s *stage) { s.sql("ALTER PUBLICATION p SET TABLE public.t") }},
		{name: "key column excluded", exit: 5, make: set("column.exclude.list", "public.t.id"), words: []string{`key column "id" is left out by`, "column.exclude.list", "a key must be published whole"},
			repair: func(s *stage) { delete(s.connector, "column.exclude.list") }},
		{name: "table list matches nothing", exit: 5, make: set("table.include.list", "public.tt"), words: []string{"table.include.list: no table of database ", "matches public.tt; create the table first, or correct the list"},
			validate: []string{`table.include.list: "public.tt" matches no table; did you mean public.t?`},
			repair:   func(s *stage) { delete(s.connector, "table.include.list") }},
	}
}

func slots() []mistake {
	return []mistake{
		{name: "slot missing although offsets exist", offsets: true, late: true, exit: 5,
			make:     (*stage).dropSlot,
			words:    []string{"slot bad_", "does not exist, but the stream has offsets (processed up to ", "connectctl offsets reset WORKER CONNECTOR starts a new generation"},
			validate: []string{"slot.name: slot bad_", "does not exist, but the stream has offsets", "connectctl offsets reset"}, repair: reset},
		{name: "slot made again by hand", offsets: true, late: true, exit: 5, make: func(s *stage) {
			s.dropSlot()
			s.sql("INSERT INTO public.t VALUES (100, 'gone')",
				"SELECT pg_create_logical_replication_slot('"+s.name+"', 'pgoutput')")
		}, words: []string{"slot bad_", "bytes of WAL between them are lost to it", "connectctl offsets reset"}, unchecked: true, repair: reset},
		{name: "physical slot", fresh: true, late: true, exit: 5,
			make:   func(s *stage) { s.sql("SELECT pg_create_physical_replication_slot('" + s.name + "')") },
			words:  []string{"slot bad_", "is a physical slot; choose another slot.name"},
			repair: func(s *stage) { s.connector["slot.name"] = s.name + "_2" }},
		{name: "slot of another plugin", fresh: true, late: true, exit: 5,
			make:   func(s *stage) { s.sql("SELECT pg_create_logical_replication_slot('" + s.name + "', 'test_decoding')") },
			words:  []string{"slot bad_", "is of plugin test_decoding, pgoutput is needed; choose another slot.name"},
			repair: func(s *stage) { s.connector["slot.name"] = s.name + "_2" }},
		{name: "slot of another database", fresh: true, late: true, exit: 5, make: func(s *stage) {
			s.super("CREATE DATABASE " + s.name + "_2")
			s.must(s.pg.Exec(context.Background(), s.name+"_2", "SELECT pg_create_logical_replication_slot('"+s.name+"', 'pgoutput')"))
		}, words: []string{"slot bad_", "is of database", "choose another slot.name"},
			repair: func(s *stage) { s.connector["slot.name"] = s.name + "_2" }},
	}
}

// dropSlot drops the slot once the server has noticed that its reader is gone.
func (s *stage) dropSlot() {
	s.Helper()
	s.until("the slot is dropped", func() bool {
		_, err := s.conn.Exec(context.Background(), "SELECT pg_drop_replication_slot('"+s.name+"')")
		return err == nil
	})
}

// reset is the way out that sentences name.
func reset(s *stage) {
	w, c := s.files()
	out, _ := s.ctl(0, "offsets", "reset", w, c)
	s.wants(out, "removed ", "boundary_lsn")
}

func rights() []mistake {
	return []mistake{
		{name: "no replication right", major: []int{14, 18}, exit: 5, make: func(s *stage) { s.super("ALTER ROLE " + s.name + " NOREPLICATION") },
			words:  []string{"may not stream: it lacks REPLICATION; as a superuser run ALTER ROLE"},
			repair: func(s *stage) { s.super("ALTER ROLE " + s.name + " REPLICATION") }},
		{name: "publication of a table of somebody else", fresh: true, late: true, exit: 5,
			make:     func(s *stage) { s.super("CREATE TABLE public.theirs (id int PRIMARY KEY)") },
			words:    []string{"publication p cannot be created or changed", "grant it", "publication.autocreate.mode=disabled"},
			validate: []string{"publication.autocreate.mode: user ", "does not own public.theirs and cannot add that to publication p; make it"},
			repair:   set("table.include.list", "public.t")},
		{name: "all tables without superuser", fresh: true, late: true, exit: 5, make: set("publication.autocreate.mode", "all_tables"),
			words:    []string{"publication p cannot be created or changed", "FOR ALL TABLES needs a superuser"},
			validate: []string{"is no superuser and cannot create publication p FOR ALL TABLES; choose filtered"},
			repair:   set("publication.autocreate.mode", "filtered")},
		{name: "publication of somebody else", fresh: true, late: true, exit: 5,
			make:     func(s *stage) { s.super("CREATE PUBLICATION p") },
			words:    []string{"publication p cannot be created or changed", "grant it"},
			validate: []string{"does not own publication p and cannot add tables to it"},
			repair:   func(s *stage) { s.super("ALTER PUBLICATION p OWNER TO " + s.name) }},
	}
}

func tables() []mistake {
	return []mistake{
		{name: "replica identity nothing", exit: 5, make: func(s *stage) { s.sql("ALTER TABLE public.t REPLICA IDENTITY NOTHING") },
			words:  []string{"public.t", "REPLICA IDENTITY", "ALTER TABLE"},
			repair: func(s *stage) { s.sql("ALTER TABLE public.t REPLICA IDENTITY DEFAULT") }},
		{name: "keyless table", fresh: true, late: true, exit: 5, make: func(s *stage) { s.sql("CREATE TABLE public.keyless (v text)") },
			words:  []string{"public.keyless", "REPLICA IDENTITY FULL", "leave the table out"},
			repair: func(s *stage) { s.sql("ALTER TABLE public.keyless REPLICA IDENTITY FULL") }},
		{name: "two tables of one topic", fresh: true, late: true, exit: 5,
			make: func(s *stage) {
				s.sql(`CREATE TABLE public."a b" (id int PRIMARY KEY)`, `CREATE TABLE public.a_b (id int PRIMARY KEY)`)
			},
			words:  []string{"tables public.", " and public.", "would share the topic ", "topic.naming.overrides"},
			repair: func(s *stage) { s.connector["topic.naming.overrides"] = "public.a_b:" + s.name + ".other" }},
		{name: "topics that Kafka takes for one", fresh: true, late: true, exit: 5,
			make: func(s *stage) {
				s.sql(`CREATE TABLE public."a.b" (id int PRIMARY KEY)`, `CREATE TABLE public.a_b (id int PRIMARY KEY)`)
			},
			words:  []string{"tables public.", " and public.", "differ only in '.' and '_'", "topic.naming.overrides"},
			repair: func(s *stage) { s.connector["topic.naming.overrides"] = "public.a_b:" + s.name + ".other" }},
		{name: "metadata column", fresh: true, late: true, exit: 5, make: func(s *stage) { s.sql(`CREATE TABLE public.meta (id int PRIMARY KEY, __pos text)`) },
			words:  []string{"public.meta", `"__pos"`, "metadata.field.prefix"},
			repair: func(s *stage) { s.sql("ALTER TABLE public.meta RENAME COLUMN __pos TO pos") }},
		{name: "nullable key", exit: 5, late: true, make: func(s *stage) { s.connector["message.key.columns"] = "public.t:v" },
			words: []string{`public.t`, `key column "v"`, "may be NULL", "SET NOT NULL"}, repair: func(s *stage) { delete(s.connector, "message.key.columns") }},
	}
}
