package badinput

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

func asciiDatabase(t *testing.T, pg *env.Postgres) {
	s := newStageIn(t, pg, "SQL_ASCII")
	words := []string{`has encoding SQL_ASCII: its text has no known character set and cannot become UTF-8; move it to a database with ENCODING 'UTF8'`}
	s.wants(s.run().exit(5), words...)
	w, c := s.files()
	out, _ := s.ctl(1, "validate", "--worker", w, c)
	s.wants(out, words...)
}

// hold reads the slot as another process would, and acknowledges nothing.
func (s *stage) hold() (pid uint32, release func()) {
	s.Helper()
	ctx := context.Background()
	conn, err := pgconn.Connect(ctx, fmt.Sprintf("host=%s port=%d user=%s password=%s dbname=%s replication=database", s.pg.Host(), s.pg.Port(), s.name, secret, s.name))
	s.must(err)
	s.must(pglogrepl.StartReplication(ctx, conn, s.name, 0, pglogrepl.StartReplicationOptions{PluginArgs: []string{"proto_version '1'", "publication_names 'p'"}}))
	return conn.PID(), func() { _ = conn.Close(ctx) }
}

func slotInUse(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	s.prepare()
	pid, release := s.hold()
	defer release()
	s.sql("INSERT INTO public.t VALUES (1, 'kept')")
	words := []string{fmt.Sprintf("slot %s is in use by pid %d", s.name, pid)}
	w, c := s.files()
	out, _ := s.ctl(1, "validate", "--worker", w, c)
	s.wants(out, words[0]+"; stop that reader or choose another slot.name")
	_, sentence := s.ctl(1, "offsets", "reset", w, c)
	s.wants(sentence, "connector "+s.name+" is running (its slot is in use by pid ", "stop it first")
	out, _ = s.ctl(0, "describe", w, c)
	s.wants(out, s.name+": in use by pid ")
	p := s.run()
	p.line(0, append(words, "state=WAITING")...)
	release()
	p.line(0, "state=RUNNING")
	s.published("t", 1)
	p.stop()
}

// A second worker of the same connector takes over; the first stops with its own exit code and never comes back.
func fenced(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	s.prepare()
	first := s.run()
	first.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (1, 'first')")
	s.published("t", 1)
	second := s.run()
	s.sql("INSERT INTO public.t VALUES (2, 'second')")
	s.wants(first.exit(4), "connector "+s.name, "another worker has taken over transactional id "+s.name+"-"+s.name+"-0")
	second.line(0, "state=RUNNING")
	s.published("t", 1, 2)
	second.stop()
}

// Rows written after the slot but before the publication cannot be published: 14 says so with an error, 18 with a
// notice only. Both block; nothing is passed over in silence.
func publicationYounger(t *testing.T, own *env.Postgres) {
	for _, pg := range []*env.Postgres{own, servers.Postgres(t, 14)} {
		t.Run(fmt.Sprint(pg.Major), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, pg)
			s.sql("SELECT pg_create_logical_replication_slot('"+s.name+"', 'pgoutput')", "INSERT INTO public.t VALUES (1, 'unseen')",
				"CREATE PUBLICATION p FOR TABLE public.t", "INSERT INTO public.t VALUES (2, 'behind')")
			before := s.confirmed()
			for range 2 {
				s.wants(s.run().exit(3), "publication p did not exist yet at the slot's place in the log", "drop the slot and reset the stream")
			}
			if after := s.confirmed(); after != before {
				t.Errorf("the slot moved from %s to %s", before, after)
			}
			if n := len(s.rows("t")); n != 0 {
				t.Errorf("%d records", n)
			}
			s.dropSlot()
			reset(s)
			p := s.run()
			p.line(0, "state=RUNNING")
			s.sql("INSERT INTO public.t VALUES (3, 'anew')")
			s.published("t", 3)
			p.stop()
		})
	}
}

// Validate tells everything that is wrong, in one go, and changes nothing.
func allAtOnce(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	s.super("ALTER ROLE "+s.name+" NOREPLICATION", "SELECT pg_create_physical_replication_slot('"+s.name+"')", "CREATE TABLE public.theirs (id int PRIMARY KEY)")
	s.sql("CREATE TABLE public.keyless (v text)", "CREATE TABLE public.meta (id int PRIMARY KEY, __pos text)",
		`CREATE TABLE public."a b" (id int PRIMARY KEY)`, `CREATE TABLE public.a_b (id int PRIMARY KEY)`)
	s.createTopic(s.name+"-offsets", map[string]string{"cleanup.policy": "delete"})
	s.worker["topic.creation.enable"] = "false"
	s.worker["schema.registry.url"] = "http://127.0.0.1:1"
	s.connector["heartbeat.intervall.ms"] = "500"
	s.connector["tombstones.on.delete"], s.connector["deletes.on.delete"] = "false", "false"
	s.connector["table.include.list"] = `public\..*,public.tee`
	w, c := s.files()
	out, sentence := s.ctl(1, "validate", "--worker", w, c)
	s.wants(out, "heartbeat.intervall.ms: unknown property; did you mean heartbeat.interval.ms?", "deletes.on.delete: is off like tombstones.on.delete",
		"it lacks REPLICATION", "is a physical slot", "does not own public.theirs", "public.keyless", `"__pos"`, "would share the topic",
		`table.include.list: "public.tee" matches no table; did you mean public.t`, "cleanup.policy=delete", "schema registry http://127.0.0.1:1 cannot be reached",
		s.topic("t")+" does not exist and topic creation is off")
	s.wants(sentence, fmt.Sprintf("connector.json: %d problems", strings.Count(out, "\n")))
	var n int
	s.must(s.conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_publication").Scan(&n))
	if n != 0 {
		t.Error("validate made a publication")
	}
	out, _ = s.ctl(1, "validate", c)
	s.wants(out, "it lacks REPLICATION")
	if strings.Contains(out, "Kafka") || strings.Contains(out, "registry") {
		t.Errorf("validate without a worker asks Kafka:\n%s", out)
	}
}

// A server whose wal_level is not logical, repaired by a restart; then one whose limit on kept WAL takes the slot's away.
func TestServerSettings(t *testing.T) {
	t.Parallel()
	pg := servers.NewPostgres(t, 18, env.PostgresOptions{Settings: map[string]string{"wal_level": "replica"}})
	ctx := context.Background()
	s := newStage(t, pg)
	s.connector["publication.autocreate.mode"] = "filtered"
	words := "the server has wal_level replica; set wal_level = logical there and restart it"
	s.wants(s.run().exit(5), words)
	w, c := s.files()
	out, _ := s.ctl(1, "validate", "--worker", w, c)
	s.wants(out, words)
	pg.Configure(env.PostgresOptions{Settings: map[string]string{"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}})
	s.must(pg.Restart(ctx, env.Fast))
	s.conn = s.connect(s.name, secret)
	p := s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (1, 'before')")
	s.published("t", 1)
	p.stop()
	s.sql("CREATE TABLE public.filler (v text)", "ALTER TABLE public.filler REPLICA IDENTITY FULL")
	s.until("the slot is lost", func() bool {
		s.super("INSERT INTO public.filler SELECT repeat('x', 1000) FROM generate_series(1, 2000)", "SELECT pg_switch_wal()", "CHECKPOINT")
		var status string
		s.must(s.conn.QueryRow(ctx, "SELECT wal_status FROM pg_replication_slots").Scan(&status))
		return status == "lost"
	})
	s.wants(s.run().exit(5), "slot "+s.name, "was invalidated by the server (wal_removed): the WAL after it is gone", "the stream processed up to", "drop the slot, then connectctl offsets reset")
	out, _ = s.ctl(1, "validate", "--worker", w, c)
	s.wants(out, "was invalidated by the server (wal_removed)")
	out, _ = s.ctl(0, "describe", w, c)
	s.wants(out, "slot invalidated", "wal_removed")
	s.dropSlot()
	reset(s)
	p = s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (2, 'anew')")
	s.published("t", 1, 2)
	p.stop()
}

// A column named like a metadata field that comes while the connector runs blocks, with the way out, and the way out works.
func metadataColumnLater(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	p := s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (1, 'before')")
	s.published("t", 1)
	s.sql("ALTER TABLE public.t ADD COLUMN __seq text", "INSERT INTO public.t VALUES (2, 'with', 'mine')")
	words := []string{"public.t", `"__seq"`, "metadata.field.prefix"}
	s.wants(p.exit(3), words...)
	s.wants(s.run().exit(5), words...)
	if n := len(s.rows("t")); n != 1 {
		t.Errorf("%d records", n)
	}
	// Renamed fields are new fields: the registry has to be told that readers will follow.
	s.connector["metadata.field.prefix"] = "cdc_"
	s.wants(s.run().exit(3), "schema registry refuses the new schema of subject", s.topic("t")+"-value", "ways out")
	s.call(http.MethodPut, "/config/"+s.topic("t")+"-value", `{"compatibility":"NONE"}`)
	p = s.run()
	p.line(0, "state=RUNNING")
	rows := s.published("t", 1, 2)
	if rows[1].Value["__seq"] != "mine" || rows[1].Value["cdc_seq"] != float64(0) {
		t.Errorf("%v", rows[1].Value)
	}
	p.stop()
}
