package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
	"github.com/tidemark-cdc/tidemark/pipeline/sink"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// parts are the clients of one connector.
type parts struct {
	c        *Connector
	produce  []kgo.Opt
	admin    []kgo.Opt
	consume  []kgo.Opt
	topics   *sink.Topics
	registry *registry.Client // nil where both converters are JSON
	store    *kafkastore.Store
	before   sink.Incarnation
	report   connectors.Reporter
	log      *slog.Logger
}

func (c *Connector) open(log *slog.Logger, report connectors.Reporter) (*parts, error) {
	p := &parts{c: c, report: report, log: log}
	var err error
	for _, use := range []struct {
		opts             *[]kgo.Opt
		worker, override string
	}{
		{&p.produce, kafkaconf.Producer, "producer.override."},
		{&p.consume, kafkaconf.Consumer, "consumer.override."},
		{&p.admin, kafkaconf.Admin, "admin.override."},
	} {
		if *use.opts, err = kafkaconf.Options(c.kafkaProperties(use.worker, use.override)); err != nil {
			return nil, connectors.Refuse(err)
		}
	}
	if c.needsRegistry() {
		if p.registry, err = registryClient(c.worker.Config, c.Config); err != nil {
			return nil, connectors.Refuse(err)
		}
	}
	creation := c.creation
	if !c.worker.Config.Bool("topic.creation.enable") {
		creation = sink.Creation{}
	}
	if p.topics, err = sink.NewTopics(sink.TopicsConfig{Opts: p.admin, Creation: creation}); err != nil {
		p.closeRegistry()
		return nil, err
	}
	p.store = p.offsetsStore("")
	return p, nil
}

// offsetsStore reads the connector's offsets; with a server it refuses a stream that another connector holds, which
// only a start must: each of two that have come to share one can still be looked at and reset.
func (p *parts) offsetsStore(server string) *kafkastore.Store {
	c := p.c
	return kafkastore.New(kafkastore.Config{
		Topic: c.offsetsTopic(), Connector: c.Name(), Server: server, Opts: p.consume,
		Replication:        int16(c.worker.Config.Int("offset.storage.replication.factor")),
		Partitions:         int32(c.worker.Config.Int("offset.storage.partitions")),
		TransactionTimeout: c.Config.Millis("transaction.timeout.ms"),
		Report:             p.report,
		Warn:               func(s string) { p.log.Warn(s) },
	})
}

func (p *parts) close() {
	p.topics.Close()
	p.closeRegistry()
}

func (p *parts) closeRegistry() {
	if p.registry != nil {
		p.registry.Close()
	}
}

// kafkaProperties are the worker's for a use, overridden by the connector's.
func (c *Connector) kafkaProperties(use, override string) map[string]string {
	props := kafkaconf.Properties(c.worker.Config, use)
	for name, value := range c.Config.WithPrefix(override) {
		if c.Config.IsSet(override + name) {
			props[name] = value
		}
	}
	return props
}

func (p *parts) newSink() (pipeline.Sink, error) {
	cfg := p.c.Config
	s, err := sink.New(sink.Config{
		Opts: p.produce, Mode: sink.Mode(cfg.String("delivery.mode")),
		TransactionalID:    p.c.TransactionalID(),
		Before:             &p.before,
		TransactionTimeout: cfg.Millis("transaction.timeout.ms"),
		OffsetsTopic:       p.c.offsetsTopic(), Connector: p.c.Name(),
		Compression: cfg.String("compression.type"), MaxRequestSize: int32(cfg.Int("max.request.size")),
		MaxMessageBytes: p.topics.MaxMessageBytes, MaxBufferedBytes: int(cfg.Int("memory.budget.bytes")),
		Pause:  linger(cfg),
		Report: p.report,
	})
	if err != nil {
		return nil, err
	}
	return preparedSink{Sink: s, reach: p.produce, prepare: p.prepare}, nil
}

func linger(cfg connectors.Config) time.Duration {
	if d := cfg.Millis("transaction.linger.ms"); d > 0 {
		return d
	}
	return -1
}

// preparedSink checks that Kafka answers, and the internal topics, before it fences: a transaction needs them.
type preparedSink struct {
	pipeline.Sink
	reach   []kgo.Opt
	prepare func(context.Context) error
}

func (s preparedSink) Fence(ctx context.Context) error {
	if err := kafkaconf.Reach(ctx, s.reach); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	return s.Sink.Fence(ctx)
}

func (p *parts) prepare(ctx context.Context) error {
	warnings, err := p.store.Ensure(ctx)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		p.log.Warn(w)
	}
	return p.ensureGenerations(ctx)
}

// ensureGenerations creates the topic of activation records: one partition, compacted, kept for ever.
func (p *parts) ensureGenerations(ctx context.Context) error {
	cl, err := kgo.NewClient(p.admin...)
	if err != nil {
		return connectors.Refuse(err)
	}
	defer cl.Close()
	topic := p.c.generationsTopic()
	compact, forever := "compact", "-1"
	resp, err := kadm.NewClient(cl).CreateTopic(ctx, 1, p.replication(), map[string]*string{"cleanup.policy": &compact, "retention.ms": &forever}, topic)
	if err == nil {
		err = resp.Err
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return checkCompacted(ctx, kadm.NewClient(cl), topic)
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) {
		listed, lerr := kadm.NewClient(cl).ListTopics(ctx, topic)
		if lerr == nil && listed.Has(topic) && listed[topic].Err == nil {
			return nil
		}
	}
	if errors.Is(err, kerr.InvalidReplicationFactor) {
		return kafkastore.Sentence(err, "topic %s cannot be created with replication factor %d; set topic.creation.default.replication.factor to at most the number of brokers", topic, p.replication())
	}
	return fmt.Errorf("create topic %s: %w", topic, kafkastore.Explain(err, topic, "CREATE"))
}

// checkCompacted refuses a topic of activation records that deletes: without them every generation would count.
// A policy that may not be read passes.
func checkCompacted(ctx context.Context, adm *kadm.Client, topic string) error {
	configs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil //nolint:nilerr // the right to read settings is not required
	}
	for _, rc := range configs {
		for _, kv := range rc.Configs {
			if kv.Key == "cleanup.policy" && kv.Value != nil && *kv.Value != "compact" {
				return connectors.Refuse(fmt.Errorf("topic %s has cleanup.policy=%s, which would delete activation records; set it to compact (kafka-configs.sh --alter --topic %s --add-config cleanup.policy=compact)", topic, *kv.Value, topic))
			}
		}
	}
	return nil
}

func (p *parts) replication() int16 {
	if n, err := strconv.ParseInt(p.c.Config.String("topic.creation.default.replication.factor"), 10, 16); err == nil && n != 0 {
		return int16(n)
	}
	return -1
}

func (p *parts) encoder() (*encode.Encoder, error) {
	if p.registry == nil {
		return p.c.encoder(nobody{}, p.topics)
	}
	return p.c.encoder(p.registry, p.topics)
}

// Run streams until the context ends or an error stops the connector for good. The hooks are the pipeline's.
func (c *Connector) Run(ctx context.Context, log *slog.Logger, report connectors.Reporter, hooks ...any) error {
	p, err := c.open(log, report)
	if err != nil {
		return err
	}
	defer p.close()
	enc, err := p.encoder()
	if err != nil {
		return connectors.Refuse(err)
	}
	who := c.identity()
	log.Info("connector", "class", c.engine.name, "topics", who.server+".*", "offsets", c.offsetsTopic(), "delivery", c.Config.String("delivery.mode"))
	p.store = p.offsetsStore(who.server)
	return pipeline.Run(ctx, pipeline.Config{
		NewSource:        p.sources(hooks),
		NewSink:          p.newSink,
		Encoder:          enc,
		Store:            p.store,
		Generations:      sink.NewGenerations(p.consume, enc.Topic, c.generationsTopic()).Report(report),
		Server:           who.server,
		Connector:        who.connector,
		Group:            who.group,
		GenerationsTopic: c.generationsTopic(),
		MemoryBudget:     int(c.Config.Int("memory.budget.bytes")),
		GroupRecords:     int(c.Config.Int("transaction.max.records")),
		GroupBytes:       int(c.Config.Int("transaction.max.bytes")),
		Linger:           linger(c.Config),
		LazyInterval:     10 * time.Second,
		BackoffMin:       min(200*time.Millisecond, c.Config.Millis("retry.backoff.max.ms")),
		BackoffMax:       c.Config.Millis("retry.backoff.max.ms"),
		Report:           report,
		Hooks:            hooks,
		Log:              log,
	})
}

// Stored reads the stored offsets without fencing a worker that may run.
func (c *Connector) Stored(ctx context.Context) ([]offsets.Entry, error) {
	p, err := c.open(slog.New(slog.DiscardHandler), func(connectors.State) {})
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := kafkaconf.Reach(ctx, p.consume); err != nil {
		return nil, err
	}
	return p.load(ctx)
}

// load reads the stored offsets; before the first start there is no topic, and so there are none.
func (p *parts) load(ctx context.Context) ([]offsets.Entry, error) {
	stored, err := p.store.Load(ctx)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, nil
	}
	return stored, err
}

// admin runs an operation that fences first.
func (c *Connector) admin(ctx context.Context, run func(pipeline.Admin) error) error {
	p, err := c.open(slog.New(slog.DiscardHandler), func(connectors.State) {})
	if err != nil {
		return err
	}
	defer p.close()
	if err := kafkaconf.Reach(ctx, p.produce); err != nil {
		return err
	}
	s, err := p.newSink()
	if err != nil {
		return err
	}
	who := c.identity()
	err = run(pipeline.Admin{Sink: s, Store: p.store, Server: who.server, Connector: who.connector, Group: who.group, GenerationsTopic: c.generationsTopic()})
	return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

// ResetOffsets removes the stream's boundary and its tables' state and returns what was removed.
func (c *Connector) ResetOffsets(ctx context.Context) (removed []offsets.Entry, err error) {
	err = c.admin(ctx, func(a pipeline.Admin) error {
		removed, err = a.Reset(ctx)
		return err
	})
	return removed, err
}

// SetOffset sets the stream's boundary and begins the next generation at start; 0 where the next start numbers it.
func (c *Connector) SetOffset(ctx context.Context, boundary offsets.Object, start string) (generation int64, err error) {
	err = c.admin(ctx, func(a pipeline.Admin) error {
		generation, err = a.Set(ctx, boundary, start)
		return err
	})
	return generation, err
}
