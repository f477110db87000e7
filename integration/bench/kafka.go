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

// checkTopic reads the topic and wants every row once, in order.
func (b *bench) checkTopic(ctx context.Context, topic string) (w written, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Bootstrap()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.WithHooks(&w), kgo.MaxConcurrentFetches(1))
	if err != nil {
		return w, err
	}
	defer func() {
		cl.Close()
		w.batches -= w.transactions
	}()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		return w, err
	}
	if n := len(ends[topic]); n != 1 {
		return w, fmt.Errorf("topic %s has %d partitions, not 1", topic, n)
	}
	seen := 0
	for at, end := int64(0), ends[topic][0].Offset; at < end; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return w, fmt.Errorf("read %s after %d records: %w", topic, seen, err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			at = r.Offset + 1
			if r.Attrs.IsControl() {
				w.transactions++
				continue
			}
			seen++
			// The key is a schema id of 5 bytes and the row's id as an Avro long.
			if id := zigzag(r.Key[5:]); id != int64(seen) {
				return w, fmt.Errorf("record %d of %s is of row %d", seen, topic, id)
			}
		}
	}
	if seen != b.rows {
		return w, fmt.Errorf("topic %s holds %d records, not %d", topic, seen, b.rows)
	}
	return w, nil
}

func zigzag(b []byte) int64 {
	var u uint64
	for i, c := range b {
		u |= uint64(c&0x7f) << (7 * i)
	}
	return int64(u>>1) ^ -int64(u&1)
}
