package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
)

const offsetsTopic = "bench-offsets"

// watcher sees what a connector has committed.
type watcher struct {
	*kgo.Client
	connector string
}

// watchOffsets begins to follow the offsets topic from where it ends now.
func (b *bench) watchOffsets(ctx context.Context, connector string) (*watcher, error) {
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(b.kafka.Bootstrap()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumeTopics(offsetsTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(50*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	compact := "compact"
	_, err = kadm.NewClient(cl).CreateTopic(ctx, 1, 1, map[string]*string{"cleanup.policy": &compact}, offsetsTopic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		cl.Close()
		return nil, fmt.Errorf("create %s: %w", offsetsTopic, err)
	}
	return &watcher{cl, connector}, nil
}

// until waits for a committed boundary after an LSN.
func (w *watcher) until(ctx context.Context, before string) error {
	after, err := pgoutput.ParseLSN(before)
	if err != nil {
		return err
	}
	stream := offsets.StreamPartition(w.connector)
	for {
		fetches := w.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for the offset of the last transaction: %w", err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			name, partition, err := offsets.ParseKey(r.Key)
			if err != nil || name != w.connector || !partition.Equal(stream) {
				continue
			}
			entry, err := offsets.ParseObject(r.Value)
			if err != nil {
				return err
			}
			text, _ := entry.Text("boundary_lsn")
			if lsn, err := pgoutput.ParseLSN(text); err == nil && lsn > after {
				return nil
			}
		}
	}
}

// written is how a run's records lie in their topic.
type written struct{ batches, transactions int }

// OnFetchBatchRead implements kgo.HookFetchBatchRead: a transaction ends with a batch of one control record.
func (w *written) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	w.batches++
}

// checkTopics reads a connector's topics and wants every row once, those of each table in order.
func (d *drain) checkTopics(ctx context.Context, slot string) (w written, err error) {
	topics := d.topics(slot)
	next := map[string]int64{} // id of the next row
	for i, t := range topics {
		next[t] = d.firstID(i)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.kafka.Bootstrap()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.WithHooks(&w), kgo.MaxConcurrentFetches(1))
	if err != nil {
		return w, err
	}
	defer func() {
		cl.Close()
		w.batches -= w.transactions
	}()
	left, err := lengths(ctx, cl, topics)
	if err != nil {
		return w, err
	}
	seen := 0
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return w, fmt.Errorf("read the topics of %s after %d records: %w", slot, seen, err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			if r.Offset+1 >= left[r.Topic] {
				delete(left, r.Topic)
			}
			if r.Attrs.IsControl() {
				w.transactions++
				continue
			}
			seen++
			if id := rowID(r); id != next[r.Topic] {
				return w, fmt.Errorf("%s holds row %d where row %d belongs", r.Topic, id, next[r.Topic])
			}
			next[r.Topic] += int64(d.tables)
		}
	}
	if seen != d.rows {
		return w, fmt.Errorf("the topics of %s hold %d records, not %d", slot, seen, d.rows)
	}
	return w, nil
}

// lengths are the ends of topics of one partition as a committed reader sees them; those that are empty are left out.
func lengths(ctx context.Context, cl *kgo.Client, topics []string) (map[string]int64, error) {
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	if err := ends.Error(); err != nil {
		return nil, err
	}
	all := map[string]int64{}
	for _, t := range topics {
		if n := len(ends[t]); n != 1 {
			return nil, fmt.Errorf("topic %s has %d partitions, not 1", t, n)
		}
		if end := ends[t][0].Offset; end > 0 {
			all[t] = end
		}
	}
	return all, nil
}

func (b *bench) deleteTopics(ctx context.Context, topics []string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Bootstrap()))
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).DeleteTopics(ctx, topics...)
	return err
}

// rowID is the id of a record's row: the key is a schema id of 5 bytes and the id as an Avro long.
func rowID(r *kgo.Record) int64 {
	var u uint64
	for i, c := range r.Key[5:] {
		u |= uint64(c&0x7f) << (7 * i)
	}
	return int64(u>>1) ^ -int64(u&1)
}
