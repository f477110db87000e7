package judge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// Topics says where the records are.
type Topics struct {
	Seeds    []string // brokers
	Prefix   string   // topic names up to the table's: "shop.public."
	Registry *registry.Client
	Hot      string // table of the hot row
	HotID    int64  // its key
}

// ReadTopics reads every data topic from its beginning to the end it has now, as a read_committed
// consumer sees it, into the tally.
func ReadTopics(ctx context.Context, cfg Topics, tables []string, t *Tally) error {
	ends, start, err := ends(ctx, cfg, tables)
	if err != nil || len(ends) == 0 {
		return err
	}
	// A partition is done when a record, control records included, shows that its end was reached.
	cl, err := kgo.NewClient(kgo.SeedBrokers(cfg.Seeds...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(start), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return fmt.Errorf("read the topics: %w", err)
	}
	defer cl.Close()
	hot := hotReader{cfg: cfg, codecs: map[int]*avro.Codec{}}
	for len(ends) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err0()); err != nil {
			return fmt.Errorf("read the topics: %w", err)
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read topic %s: %w", e.Topic, e.Err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			here := partition{p.Topic, p.Partition}
			for _, r := range p.Records {
				end, ok := ends[here]
				if !ok || err != nil {
					return
				}
				if r.Offset < end && !r.Attrs.IsControl() {
					err = take(ctx, cfg, &hot, r, t)
				}
				if r.Offset >= end-1 {
					delete(ends, here)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ends lists the partitions that hold anything, with their high watermarks and where reading begins.
func ends(ctx context.Context, cfg Topics, tables []string) (map[partition]int64, map[string]map[int32]kgo.Offset, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(cfg.Seeds...))
	if err != nil {
		return nil, nil, fmt.Errorf("read the topics: %w", err)
	}
	defer cl.Close()
	names := make([]string, len(tables))
	for i, name := range tables {
		names[i] = cfg.Prefix + name
	}
	adm := kadm.NewClient(cl)
	first, err := adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, nil, fmt.Errorf("list the topics' beginnings: %w", err)
	}
	last, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, nil, fmt.Errorf("list the topics' ends: %w", err)
	}
	ends, from := map[partition]int64{}, map[string]map[int32]kgo.Offset{}
	for topic, ps := range last {
		for n, p := range ps {
			if errors.Is(p.Err, kerr.UnknownTopicOrPartition) {
				continue // nothing was ever published there: all of it counts as lost
			}
			begin, _ := first.Lookup(topic, n)
			if p.Err != nil || begin.Err != nil {
				return nil, nil, fmt.Errorf("list the end of topic %s: %w", topic, errors.Join(p.Err, begin.Err))
			}
			if begin.Offset >= p.Offset {
				continue
			}
			ends[partition{topic, n}] = p.Offset
			if from[topic] == nil {
				from[topic] = map[int32]kgo.Offset{}
			}
			from[topic][n] = kgo.NewOffset().At(begin.Offset)
		}
	}
	return ends, from, nil
}

func take(ctx context.Context, cfg Topics, hot *hotReader, r *kgo.Record, t *Tally) error {
	rec := Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Tombstone: r.Value == nil}
	rec.Change.Table = strings.TrimPrefix(r.Topic, cfg.Prefix)
	var h headers
	for i := range r.Headers {
		h.add(r.Headers[i].Key, r.Headers[i].Value)
	}
	if err := h.parse(&rec); err != nil {
		return fmt.Errorf("record %s [%d] at %d cannot be judged: %w", r.Topic, r.Partition, r.Offset, err)
	}
	t.Add(rec)
	if rec.Tombstone || rec.Change.Table != cfg.Hot {
		return nil
	}
	v, ok, err := hot.value(ctx, r.Value)
	if err != nil {
		return fmt.Errorf("record %s [%d] at %d cannot be decoded: %w", r.Topic, r.Partition, r.Offset, err)
	}
	if ok {
		t.AddHot(rec, v)
	}
	return nil
}

// hotReader decodes values of the hot row's table.
type hotReader struct {
	cfg    Topics
	codecs map[int]*avro.Codec
}

// value returns v; ok is false for another row.
func (h *hotReader) value(ctx context.Context, value []byte) (v int64, ok bool, err error) {
	id, body, err := registry.ParseHeader(value)
	if err != nil {
		return 0, false, err
	}
	c := h.codecs[id]
	if c == nil {
		text, err := h.cfg.Registry.SchemaByID(ctx, id)
		if err != nil {
			return 0, false, err
		}
		if c, err = avro.NewCodec(text); err != nil {
			return 0, false, err
		}
		h.codecs[id] = c
	}
	key, _, err := c.Long(body, "id")
	if err != nil || key != h.cfg.HotID {
		return 0, false, err
	}
	v, _, err = c.Long(body, "v")
	return v, true, err
}
