// Package badinput gives real servers and the ordinary connectctl binary everything a user can get wrong, and holds
// the sentence each mistake is answered with, the state or exit code, and that after its repair nothing is lost.
package badinput

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

var (
	servers *env.Env
	program string // connectctl
)

// build compiles connectctl once, before the tests.
type build struct{ m *testing.M }

func (b build) Run() int {
	dir, err := os.MkdirTemp("", "badinput")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "connectctl")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/connectctl").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build connectctl: %v\n%s", err, out)
		return 1
	}
	if err := flag.Set("test.parallel", "10"); err != nil { // they mostly wait
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return b.m.Run()
}

func TestMain(m *testing.M) { env.Main(build{m}, &servers) }

// secret is every role's password; no output may hold it.
const secret = "Tq7-hush"

// stage is one connector, its database with the table public.t, and its files.
type stage struct {
	*testing.T
	name      string // of connector, topic prefix, group, slot, role and database
	pg        *env.Postgres
	kafka     *env.Kafka
	registry  *env.Registry
	conn      *pgx.Conn // as the connector's role
	worker    map[string]string
	connector map[string]string
}

// TestBadInput has a PostgreSQL 18 of its own: creating a slot waits for the transactions of others.
func TestBadInput(t *testing.T) {
	pg := servers.NewPostgres(t, 18, env.PostgresOptions{Settings: map[string]string{"max_connections": "200"}})
	for name, test := range map[string]func(*testing.T, *env.Postgres){
		"mistakes": mistakesTest, "record": recordOverTheLimit, "registry": registryAway, "encoding": asciiDatabase,
		"slot in use": slotInUse, "fenced": fenced, "younger": publicationYounger, "later": metadataColumnLater, "values": badValues, "all at once": allAtOnce,
		"tail": tail, "verify": verify, "offsets": offsetsCommands, "describe": describe,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, pg)
		})
	}
}

func newStage(t *testing.T, pg *env.Postgres) *stage {
	t.Helper()
	return newStageIn(t, pg, "UTF8")
}

func newStageIn(t *testing.T, pg *env.Postgres, encoding string) *stage {
	t.Helper()
	s := &stage{T: t, name: strings.ReplaceAll(env.Unique("bad_"), "-", "_"), pg: pg, kafka: servers.Kafka(t), registry: servers.Registry(t)}
	ctx := context.Background()
	s.must(pg.Exec(ctx, "postgres",
		fmt.Sprintf("CREATE ROLE %s LOGIN REPLICATION PASSWORD '%s'", s.name, secret),
		fmt.Sprintf("CREATE DATABASE %s OWNER %s TEMPLATE template0 ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C'", s.name, s.name, encoding)))
	t.Cleanup(func() { s.clear(ctx) })
	s.worker = map[string]string{
		"bootstrap.servers": s.kafka.Bootstrap(), "schema.registry.url": s.registry.URL(), "group.id": s.name,
		"offset.storage.topic": s.name + "-offsets", "offset.storage.partitions": "1",
	}
	s.connector = map[string]string{
		"name": s.name, "connector.class": "postgres", "topic.prefix": s.name,
		"database.hostname": pg.Host(), "database.port": fmt.Sprint(pg.Port()), "database.user": s.name, "database.password": secret,
		"database.dbname": s.name, "database.sslmode": "disable", "slot.name": s.name, "publication.name": "p",
		"publication.autocreate.mode": "filtered", "snapshot.mode": "no_data", "heartbeat.interval.ms": "500",
		"retry.backoff.max.ms": "200",
	}
	s.conn = s.connect(s.name, secret)
	s.sql("CREATE SCHEMA IF NOT EXISTS public", "CREATE TABLE public.t (id int PRIMARY KEY, v text)")
	return s
}

func (s *stage) connect(user, password string) *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(context.Background(), fmt.Sprintf("host=%s port=%d user=%s password=%s dbname=%s", s.pg.Host(), s.pg.Port(), user, password, s.name))
	s.must(err)
	s.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// clear drops what the shared servers hold of this stage.
func (s *stage) clear(ctx context.Context) {
	_ = s.pg.Exec(ctx, "postgres",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+s.name+"' OR datname = '"+s.name+"'")
	s.until("the slot is dropped", func() bool {
		return s.pg.Exec(ctx, "postgres", "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE '"+s.name+"%'") == nil
	})
	if err := s.pg.Exec(ctx, "postgres", "DROP DATABASE IF EXISTS "+s.name+" WITH (FORCE)", "DROP DATABASE IF EXISTS "+s.name+"_2 WITH (FORCE)", "DROP ROLE "+s.name); err != nil {
		s.Logf("clear: %v", err)
	}
	adm := s.admin()
	if topics, err := adm.ListTopics(ctx); err == nil {
		var mine []string
		for _, t := range topics.Names() {
			if strings.HasPrefix(t, s.name) {
				mine = append(mine, t)
			}
		}
		_, _ = adm.DeleteTopics(ctx, mine...)
	}
	adm.Close()
}

func (s *stage) admin() *kadm.Client {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()))
	s.must(err)
	return kadm.NewClient(cl)
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// sql runs statements as the connector's role.
func (s *stage) sql(statements ...string) {
	s.Helper()
	for _, q := range statements {
		if _, err := s.conn.Exec(context.Background(), q); err != nil {
			s.Fatalf("%s: %v", q, err)
		}
	}
}

// super runs statements as superuser in the stage's database.
func (s *stage) super(statements ...string) {
	s.Helper()
	s.must(s.pg.Exec(context.Background(), s.name, statements...))
}

func (s *stage) createTopic(topic string, configs map[string]string) {
	s.Helper()
	adm := s.admin()
	defer adm.Close()
	set := map[string]*string{}
	for k, v := range configs {
		set[k] = &v
	}
	_, err := adm.CreateTopic(context.Background(), 1, 1, set, topic)
	s.must(err)
	for k, v := range configs {
		s.holds(adm, topic, k, v)
	}
}

// holds waits until the broker says that a topic's setting is a value: it learns of it a little later.
func (s *stage) holds(adm *kadm.Client, topic, name, value string) {
	s.Helper()
	s.until("the topic's setting holds", func() bool {
		configs, err := adm.DescribeTopicConfigs(context.Background(), topic)
		if err != nil || len(configs) == 0 {
			return false
		}
		for _, c := range configs[0].Configs {
			if c.Key == name && c.MaybeValue() == value {
				return true
			}
		}
		return false
	})
}

func (s *stage) setTopic(topic, name, value string) {
	s.Helper()
	adm := s.admin()
	defer adm.Close()
	r, err := adm.AlterTopicConfigs(context.Background(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	s.must(err)
	for _, one := range r {
		s.must(one.Err)
	}
	s.holds(adm, topic, name, value)
}

func (s *stage) topic(table string) string { return s.name + ".public." + table }

// prepare makes publication and slot by hand, so that every row written from now on has to be published.
func (s *stage) prepare() {
	s.Helper()
	s.sql("CREATE PUBLICATION p FOR TABLE public.t", "SELECT pg_create_logical_replication_slot('"+s.name+"', 'pgoutput')")
}

func (s *stage) confirmed() (lsn string) {
	s.Helper()
	err := s.conn.QueryRow(context.Background(), "SELECT coalesce(confirmed_flush_lsn::text, '') FROM pg_replication_slots WHERE slot_name = $1", s.name).Scan(&lsn)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		s.Fatal(err)
	}
	return lsn
}

// files writes the worker's and the connector's file.
func (s *stage) files() (worker, connector string) {
	s.Helper()
	dir := s.TempDir()
	write := func(name string, props map[string]string) string {
		b, err := json.Marshal(props)
		s.must(err)
		path := filepath.Join(dir, name)
		s.must(os.WriteFile(path, b, 0o600))
		return path
	}
	return write("worker.json", s.worker), write("connector.json", s.connector)
}

// row is a record as tail prints it.
type row struct {
	Partition int32
	Offset    int64
	Gen, Seq  int64
	Pos       struct{ LSN string }
	Op        string
	Key       map[string]any
	Value     map[string]any
}

// rows reads what a read_committed consumer sees of a table's topic.
func (s *stage) rows(table string) (rows []row) {
	s.Helper()
	adm := s.admin()
	defer adm.Close()
	topics, err := adm.ListTopics(context.Background(), s.topic(table))
	s.must(err)
	if !topics.Has(s.topic(table)) {
		return nil
	}
	out, _ := s.ctl(0, "tail", s.topic(table), "--until-end", "--bootstrap-servers", s.kafka.Bootstrap(), "--schema-registry-url", s.registry.URL())
	for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
		if l == "" {
			continue
		}
		var r row
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			s.Fatalf("%s: %v", l, err)
		}
		rows = append(rows, r)
	}
	return rows
}

// published waits until a table's topic holds so many records and compares their ids.
func (s *stage) published(table string, ids ...int) []row {
	s.Helper()
	var rows []row
	s.until(fmt.Sprintf("%d records in %s", len(ids), s.topic(table)), func() bool {
		rows = s.rows(table)
		return len(rows) >= len(ids)
	})
	for i, r := range rows {
		if i >= len(ids) || r.Value["id"] != float64(ids[i]) {
			s.Fatalf("record %d is %v, want the ids %v", i, r, ids)
		}
	}
	return rows
}
