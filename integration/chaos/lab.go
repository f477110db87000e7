package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
	"github.com/tidemark-cdc/tidemark/integration/harness"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// roundsPerStream is how long a stream lives: its topics and schemas grow, and a new one starts from nothing.
const roundsPerStream = 10

// lab is servers of its own, with a proxy before each, and one stream at a time.
type lab struct {
	ctx    context.Context
	o      Options
	sc     *scope
	report *Report

	pg       *env.Postgres
	kafka    *env.Kafka
	registry *env.Registry

	pgProxy, kafkaProxy, registryProxy *proxy.Proxy

	adm    *kadm.Client
	st     *stream
	struck int // faults in turn

	settled time.Duration // how long the stream took to get there after the last faults
}

// start starts the servers.
func (l *lab) start(e *env.Env) {
	l.pg = e.NewPostgres(l.sc, 18, env.PostgresOptions{Settings: map[string]string{"deadlock_timeout": "30ms"}})
	l.kafka = e.NewKafka(l.sc, env.KafkaOptions{Settings: map[string]string{"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}})
	l.registry = e.Registry(l.sc)
	l.pgProxy = l.proxy(fmt.Sprintf("%s:%d", l.pg.Host(), l.pg.Port()))
	l.registryProxy = l.proxy(l.registry.Addr())
	l.kafkaProxy = l.kafka.Proxy(l.sc)
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.kafka.Bootstrap()), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		l.sc.Fatal(err)
	}
	l.sc.Cleanup(cl.Close)
	l.adm = kadm.NewClient(cl)
}

func (l *lab) proxy(target string) *proxy.Proxy {
	p, err := proxy.New("127.0.0.1:0", target)
	if err != nil {
		l.sc.Fatal(err)
	}
	l.sc.Cleanup(p.Close)
	return p
}

// close ends everything of the lab, also where a part of it no longer does as it is told.
func (l *lab) close() {
	defer l.sc.end()
	l.drop()
}

// stream is one connector, its worker, and what was seen of it so far.
type stream struct {
	*harness.Stream
	sc     *scope
	w      *harness.Worker
	rounds int
	column atomic.Int64

	sampler  *check.Sampler
	boundary *check.Boundary
	follower *check.Follower

	order       verify.Order
	chain       verify.Chain
	fingerprint verify.Fingerprint
	replayed    replayed
	snapshots   *snapshots
	judged      uint64 // the truth's last commit

	first  bool   // it begins with its tables' rows, and nothing of it was judged yet
	begins uint64 // where the log is streamed from: what is before it is in those rows
}

// stream returns the stream at hand, or makes one, which may begin with rows that are there before it.
func (l *lab) stream(seed uint64, of reads) *stream {
	if l.st != nil && l.st.rounds < roundsPerStream {
		return l.st
	}
	l.drop()
	s := &stream{sc: newScope(l.ctx, l.report.say)}
	l.st = s
	options := harness.Options{
		Binary: l.o.Binary, PG: l.pg, Kafka: l.kafka, Registry: l.registry, Setup: setup, Publication: published, Within: 24 * time.Hour,
		PGAddr: l.pgProxy.Addr(), KafkaAddr: l.kafka.ProxyBootstrap(), RegistryURL: l.registry.URLAt(l.registryProxy.Addr()),
		Connector: map[string]string{
			"provide.transaction.metadata": "true", "skipped.operations": "none", "transaction.timeout.ms": "20000",
			"heartbeat.interval.ms": "300", "retry.backoff.max.ms": "300",
		},
	}
	maps.Copy(options.Connector, reading)
	if of.first {
		options.NoSlot, options.Setup = true, slices.Concat(setup, rowsBefore)
		options.Connector["snapshot.mode"] = "initial"
	}
	s.Stream = harness.New(s.sc, options)
	// The rows that were there before a stream that does not begin with them are not in it.
	s.fingerprint.Decode = s.Decoder.Images(s.full)
	s.replayed.Fingerprint = &s.fingerprint
	s.chain.Decode = s.fingerprint.Decode
	s.follower, s.snapshots = check.NewFollower(l.kafka.Bootstrap()), newSnapshots(l.kafka.Bootstrap())
	s.sc.Cleanup(s.follower.Close)
	s.sc.Cleanup(s.snapshots.f.Close)
	l.report.stream(of.first)
	start := s.Confirmed() // 0: the worker makes the slot
	s.boundary = check.NewBoundary([]string{l.kafka.Bootstrap()}, s.OffsetsTopic(), start)
	s.sc.Cleanup(s.boundary.Close)
	if of.first {
		s.first, s.begins = true, math.MaxUint64
		l.begin(s, of.kills, seed)
		return s
	}
	l.sql("UPDATE hot SET n = 0") // so that its rows are
	s.w = s.Run()
	l.sample()
	return s
}

// sample begins to sample the slot. Until a stream that begins with its tables' rows has committed an offset, its worker may make
// the slot anew.
func (l *lab) sample() {
	s := l.st
	if s == nil || s.sampler != nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	if err := s.boundary.Read(ctx, l.adm); err != nil || s.boundary.At == 0 {
		return // the topic may not be there yet
	}
	var err error
	s.sampler, err = check.StartSampler(l.ctx, check.Sampling{
		Database: s.DB.URL(), Slot: s.Name, Seeds: []string{l.kafka.Bootstrap()}, Offsets: s.OffsetsTopic(),
		TransactionalID: s.transactionalID(), Every: 40 * time.Millisecond, Start: s.boundary.At,
	})
	if err != nil {
		s.sc.Fatal(err)
	}
}

// full tells the topics whose deletes carry the whole row.
func (s *stream) full(topic string) bool {
	return strings.HasSuffix(topic, ".wholly") || strings.HasSuffix(topic, ".keyless")
}

// drop ends the stream; what the sampler saw counts. The worker goes first.
func (l *lab) drop() {
	s := l.st
	l.st = nil
	if s == nil {
		return
	}
	defer s.sc.end()
	if s.w != nil {
		s.w.Kill()
	}
	l.endSampling(s)
	l.heal()
	l.forget(s)
}

// forget removes a stream's topics, so that disk does not fill.
func (l *lab) forget(s *stream) {
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	listed, err := l.adm.ListTopics(ctx)
	if err != nil {
		return
	}
	names := slices.DeleteFunc(listed.Names(), func(topic string) bool {
		return !s.owns(topic)
	})
	if _, err := l.adm.DeleteTopics(ctx, names...); err != nil && l.ctx.Err() == nil {
		l.report.say("remove a stream's topics: " + err.Error())
	}
}

func (l *lab) endSampling(s *stream) {
	if s.sampler == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 10*time.Second)
	defer cancel()
	if err := s.boundary.Read(ctx, l.adm); err != nil {
		l.report.say("last read of the offsets: " + err.Error())
	}
	samples, found := s.sampler.Stop(s.boundary.At)
	s.sampler = nil
	l.report.sampled(samples)
	for _, f := range found {
		l.report.violation(f)
	}
}

// sql runs statements in the stream's database, on a connection of their own, straight to the server.
func (l *lab) sql(statements ...string) {
	l.query(nil, statements...)
}

// query is sql that takes the first column of the last statement's row.
func (l *lab) query(into *string, statements ...string) {
	l.asked(func(conn *pgx.Conn) error {
		for i, text := range statements {
			if into == nil || i < len(statements)-1 {
				if _, err := conn.PgConn().Exec(l.ctx, text).ReadAll(); err != nil {
					return fmt.Errorf("%s: %w", text, err)
				}
				continue
			}
			var value *string
			if err := conn.QueryRow(l.ctx, text).Scan(&value); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
			if *into = ""; value != nil {
				*into = *value
			}
		}
		return nil
	})
}

// asked gives a connection to the stream's database; again where it fails by a deadlock with the load, or because the server is away.
func (l *lab) asked(f func(*pgx.Conn) error) {
	var err error
	ok := l.eventually(20*time.Second, func() bool {
		var conn *pgx.Conn
		if conn, err = connect(l.ctx, l.st.DB.URL()); err != nil {
			return false
		}
		defer closeConn(conn)
		err = f(conn)
		var pg *pgconn.PgError
		return err == nil || errors.As(err, &pg) && pg.Code != "40P01" && !strings.HasPrefix(pg.Code, "57")
	})
	if err != nil || !ok {
		l.sc.Fatalf("ask the database: %v", err)
	}
}

// heal lets everything through again.
func (l *lab) heal() {
	for _, p := range []*proxy.Proxy{l.pgProxy, l.kafkaProxy, l.registryProxy} {
		p.Throttle(0)
		p.Resume()
		if err := p.Restore(); err != nil {
			l.sc.Fatal(err)
		}
	}
}

// eventually waits until ok or the run's end.
func (l *lab) eventually(within time.Duration, ok func() bool) bool {
	return harness.Eventually(within, func() bool { return l.ctx.Err() != nil || ok() }) && l.ctx.Err() == nil
}
