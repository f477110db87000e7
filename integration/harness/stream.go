package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/integration/env"
)

// Options of a stream. PG, Kafka and Registry are required.
type Options struct {
	Binary   string
	PG       *env.Postgres
	Kafka    *env.Kafka
	Registry *env.Registry

	Setup       []string // SQL before publication and slots
	Publication string   // what follows CREATE PUBLICATION name; "FOR ALL TABLES" where empty, "-" for none
	NoSlot      bool     // the worker creates the slot; there is no judge then
	Connector   map[string]string
	Worker      map[string]string
	PGAddr      string // host:port the worker connects to, where not the server's
	KafkaAddr   string // likewise
	RegistryURL string // likewise

	Within time.Duration // how long the stream may be used; 4 minutes where 0
}

// Stream is one connector with all that is its own: database, slots, publication, topics, group.
type Stream struct {
	T    testing.TB
	Ctx  context.Context
	Name string // slot, publication, prefix, connector
	DB   *env.Database
	Conn *pgx.Conn // of the test's own goroutine

	Judge      string // second slot, made where the stream's was
	WorkerFile string
	ConfigFile string
	Decoder    *check.Decoder

	o     Options
	kafka *kgo.Client
	admin *kadm.Client
}

// New makes a stream; no worker runs yet.
func New(t testing.TB, o Options) *Stream {
	t.Helper()
	within := o.Within
	if within == 0 {
		within = 4 * time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	name := strings.ReplaceAll(env.Unique("e2e_"), "-", "_")
	s := &Stream{T: t, Ctx: ctx, Name: name, Judge: name + "_judge", o: o}
	s.DB = o.PG.NewDatabase(t)
	s.Conn = s.Connect()
	s.SQL(o.Setup...)
	s.Decoder = &check.Decoder{Schema: s.schema}
	if o.Publication != "-" {
		s.SQL("CREATE PUBLICATION " + name + " " + or(o.Publication, "FOR ALL TABLES"))
	}
	if !o.NoSlot {
		s.SQL("SELECT pg_create_logical_replication_slot('"+name+"', 'pgoutput')",
			"SELECT pg_copy_logical_replication_slot('"+name+"', '"+s.Judge+"')")
	}
	s.kafka = s.Client()
	s.admin = kadm.NewClient(s.kafka)
	dir := t.TempDir()
	s.WorkerFile, s.ConfigFile = filepath.Join(dir, "worker.properties"), filepath.Join(dir, "connector.properties")
	s.Configure(nil)
	return s
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// KafkaAddr is the broker's own host:port.
func (s *Stream) KafkaAddr() string { return s.o.Kafka.Bootstrap() }

// RegistryURL is the registry's own root.
func (s *Stream) RegistryURL() string { return s.o.Registry.URL() }

// Client is a new Kafka client straight to the broker, closed when the test ends.
func (s *Stream) Client(opts ...kgo.Opt) *kgo.Client {
	s.T.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.o.Kafka.Bootstrap()), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(cl.Close)
	return cl
}

// Configure writes the files; over replaces properties of the connector.
func (s *Stream) Configure(over map[string]string) {
	s.T.Helper()
	host, port := s.o.PG.Host(), strconv.Itoa(s.o.PG.Port())
	if h, p, ok := strings.Cut(s.o.PGAddr, ":"); ok {
		host, port = h, p
	}
	worker := map[string]string{
		"bootstrap.servers": or(s.o.KafkaAddr, s.o.Kafka.Bootstrap()), "schema.registry.url": or(s.o.RegistryURL, s.o.Registry.URL()),
		"group.id": "group-" + s.Name, "offset.storage.topic": s.OffsetsTopic(), "offset.storage.partitions": "3",
	}
	maps.Copy(worker, s.o.Worker)
	connector := map[string]string{
		"name": s.Name, "connector.class": "postgres", "topic.prefix": s.Name, "topic.creation.default.partitions": "3",
		"database.hostname": host, "database.port": port, "database.user": env.Superuser, "database.password": env.SuperuserPassword,
		"database.dbname": s.DB.Name, "database.sslmode": "disable", "slot.name": s.Name, "publication.name": s.Name,
		"publication.autocreate.mode": "disabled", "snapshot.mode": "no_data", "message.prefix.exclude.list": markPrefix, "heartbeat.interval.ms": "500", "retry.backoff.max.ms": "500",
	}
	maps.Copy(connector, s.o.Connector)
	maps.Copy(connector, over)
	s.write(s.WorkerFile, worker)
	s.write(s.ConfigFile, connector)
}

func (s *Stream) write(file string, props map[string]string) {
	s.T.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(props)) {
		fmt.Fprintf(&b, "%s=%s\n", name, strings.ReplaceAll(props[name], `\`, `\\`))
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		s.T.Fatal(err)
	}
}

// Start starts a worker.
func (s *Stream) Start() *Worker {
	s.T.Helper()
	return s.StartWith()
}

// StartWith starts a worker with more flags.
func (s *Stream) StartWith(flags ...string) *Worker {
	s.T.Helper()
	return startWorker(s.T, s.o.Binary, append(flags, s.WorkerFile, s.ConfigFile)...)
}

// Run starts a worker and waits until it streams.
func (s *Stream) Run() *Worker {
	s.T.Helper()
	w := s.Start()
	w.WaitRunning()
	return w
}

// Ctl runs another command of connectctl and returns its exit code and output.
func (s *Stream) Ctl(args ...string) (code int, stdout, stderr string) {
	s.T.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(s.Ctx, s.o.Binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.T.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// Connect opens a session in the stream's database, closed when the test ends.
func (s *Stream) Connect() *pgx.Conn {
	s.T.Helper()
	cfg, err := pgx.ParseConfig(s.DB.URL())
	if err != nil {
		s.T.Fatal(err)
	}
	cfg.RuntimeParams["timezone"], cfg.RuntimeParams["bytea_output"], cfg.RuntimeParams["datestyle"] = "UTC", "hex", "ISO"
	conn, err := pgx.ConnectConfig(s.Ctx, cfg)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

// SQL runs statements; each may hold several.
func (s *Stream) SQL(statements ...string) {
	s.T.Helper()
	for _, text := range statements {
		if _, err := s.Conn.PgConn().Exec(s.Ctx, text).ReadAll(); err != nil {
			s.T.Fatalf("%s: %v", text, err)
		}
	}
}

// Query returns the first column of the first row as text, empty where there is none.
func (s *Stream) Query(query string, args ...any) string {
	s.T.Helper()
	var text *string
	if err := s.Conn.QueryRow(s.Ctx, query, args...).Scan(&text); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		s.T.Fatalf("%s: %v", query, err)
	}
	if text == nil {
		return ""
	}
	return *text
}

// LSN returns the LSN a query selects as text, 0 where it is null.
func (s *Stream) LSN(query string, args ...any) uint64 {
	s.T.Helper()
	text := s.Query(query, args...)
	if text == "" {
		return 0
	}
	lsn, err := check.ParseLSN(text)
	if err != nil {
		s.T.Fatal(err)
	}
	return lsn
}

// Confirmed is the slot's confirmed_flush_lsn, 0 where there is no slot.
func (s *Stream) Confirmed() uint64 {
	s.T.Helper()
	return s.LSN("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1", s.Name)
}

// SlotFree waits until no walsender holds the slot.
func (s *Stream) SlotFree() {
	s.T.Helper()
	if !Eventually(20*time.Second, func() bool {
		return s.Query("SELECT active::text FROM pg_replication_slots WHERE slot_name = $1", s.Name) != "true"
	}) {
		s.T.Fatal("the slot is still in use")
	}
}

// markPrefix is that of the messages that End writes; the worker does not publish them.
const markPrefix = "e2e"

// ownPrefix is that of the worker's own messages, which it does not publish either.
const ownPrefix = "tidemark"

// End is a place of the log after all that was committed, which a transactional message closes.
func (s *Stream) End() uint64 {
	s.T.Helper()
	lsn := s.LSN("SELECT pg_current_wal_insert_lsn()::text")
	s.SQL("SELECT pg_logical_emit_message(true, '" + markPrefix + "', 'end')")
	return lsn
}

// CaughtUp waits until everything committed so far is published.
func (s *Stream) CaughtUp(within time.Duration) {
	s.T.Helper()
	s.Published(s.End(), within)
	// The markers of a commit reach the partitions one after the other.
	Eventually(5*time.Second, func() bool { return !s.OpenTransaction(s.Topics()...) })
}

// Published waits until the committed offset reaches an LSN.
func (s *Stream) Published(lsn uint64, within time.Duration) {
	s.T.Helper()
	if !Eventually(within, func() bool { return s.Boundary() >= lsn }) {
		s.T.Fatalf("after %s the committed offset is %s, not %s; slot %s", within, check.FormatLSN(s.Boundary()), check.FormatLSN(lsn), check.FormatLSN(s.Confirmed()))
	}
}
