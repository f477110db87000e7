// Package kafkasignal is the channel of signals in a Kafka topic, and the way to write one there.
package kafkasignal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

// Config says where the signals are.
type Config struct {
	Opts        []kgo.Opt // of the consumer
	Admin       []kgo.Opt // to create the topic with
	Topic       string
	Key         string // topic.prefix: records with other keys are others' signals
	Create      bool   // create the topic where it is missing
	Replication int16  // of a topic that is created; -1: the brokers' default
	Log         *slog.Logger
}

// Channel reads signals from the topic's one partition. The cursor is the offset after the signal; without one it
// reads from the topic's start: a signal that was sent while nobody ran must not be lost, and ids are executed once.
type Channel struct{ cfg Config }

// New returns the channel; nothing is connected.
func New(cfg Config) *Channel { return &Channel{cfg} }

// Name returns the channel's name.
func (c *Channel) Name() string { return signal.ChannelKafka }

// Run reads until ctx ends or the topic cannot be read.
func (c *Channel) Run(ctx context.Context, cursor string, deliver func(signal.Signal)) error {
	if err := c.ensure(ctx); err != nil {
		return err
	}
	cl, err := kgo.NewClient(append(c.cfg.Opts[:len(c.cfg.Opts):len(c.cfg.Opts)], kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	from, err := c.start(ctx, kadm.NewClient(cl), cursor)
	if err != nil {
		return err
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{c.cfg.Topic: {0: kgo.NewOffset().At(from)}})
	for {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, fe := range fetches.Errors() {
			if k := new(kerr.Error); errors.As(fe.Err, &k) && (!k.Retriable || errors.Is(k, kerr.UnknownTopicOrPartition)) {
				return fmt.Errorf("read topic %s: %w", c.cfg.Topic, kafkastore.Explain(fe.Err, c.cfg.Topic, "READ"))
			}
		}
		fetches.EachRecord(func(r *kgo.Record) { c.take(r, deliver) })
	}
}

// start returns the offset to read from. A cursor beyond the topic's end is another topic's, of the same name.
func (c *Channel) start(ctx context.Context, adm *kadm.Client, cursor string) (int64, error) {
	ranges, err := kafkastore.Ranges(ctx, adm, c.cfg.Topic)
	if err != nil {
		return 0, err
	}
	if n := len(ranges[c.cfg.Topic]); n > 1 {
		c.cfg.Log.Warn("signals are read from partition 0 alone, as their order counts; give the topic one partition", "topic", c.cfg.Topic, "partitions", n)
	}
	r := ranges[c.cfg.Topic][0]
	from, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || from < r.From || from > r.To {
		if cursor != "" {
			c.cfg.Log.Warn("the topic of signals does not have the place that was reached; it is read from its start, and no id is executed twice", "topic", c.cfg.Topic, "reached", cursor, "start", r.From, "end", r.To)
		}
		return r.From, nil
	}
	return from, nil
}

// take delivers one record. One of another key is another connector's, one without a value a deleted one.
func (c *Channel) take(r *kgo.Record, deliver func(signal.Signal)) {
	if string(r.Key) != c.cfg.Key || len(r.Value) == 0 {
		return
	}
	s, err := signal.ParseMessage(r.Value, fmt.Sprintf("%s-%d-%d", c.cfg.Topic, r.Offset, r.Timestamp.UnixMilli()))
	if err != nil {
		c.cfg.Log.Warn("a record is not a signal and was passed", "topic", r.Topic, "offset", r.Offset, "reason", err.Error())
		return
	}
	s.Channel, s.Cursor = signal.ChannelKafka, strconv.FormatInt(r.Offset+1, 10)
	deliver(s)
}

// ensure creates the topic with its one partition where it is missing.
func (c *Channel) ensure(ctx context.Context) error {
	if !c.cfg.Create {
		return nil
	}
	return Ensure(ctx, c.cfg.Admin, c.cfg.Topic, c.cfg.Replication)
}

// Ensure creates a topic of signals: one partition, and the brokers' retention. A topic that is there is left as it is.
func Ensure(ctx context.Context, opts []kgo.Opt, topic string, replication int16) error {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	listed, err := adm.ListTopics(ctx, topic) // who may only read is not asked for more
	if err == nil && listed.Has(topic) && listed[topic].Err == nil {
		return nil
	}
	policy := "delete"
	resp, err := adm.CreateTopic(ctx, 1, replication, map[string]*string{"cleanup.policy": &policy}, topic)
	if err == nil {
		err = resp.Err
	}
	if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return fmt.Errorf("create topic %s: %w", topic, kafkastore.Explain(err, topic, "CREATE"))
}

// Send writes one signal and waits until it is durable.
func Send(ctx context.Context, opts []kgo.Opt, topic, key string, s signal.Signal) (offset int64, err error) {
	data := json.RawMessage(s.Data)
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	value, err := json.Marshal(struct {
		ID   string          `json:"id"`
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}{s.ID, s.Type, data})
	if err != nil {
		return 0, fmt.Errorf("write the signal: %w", err)
	}
	cl, err := kgo.NewClient(append(opts[:len(opts):len(opts)], kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordDeliveryTimeout(sendTimeout))...)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	r, err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte(key), Value: value}).First()
	if err != nil {
		return 0, fmt.Errorf("write to topic %s: %w", topic, kafkastore.Explain(err, topic, "WRITE"))
	}
	return r.Offset, nil
}

const sendTimeout = 30 * time.Second
