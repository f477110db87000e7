package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Range is a run of offsets of one topic partition: From is read, To is not.
type Range struct{ From, To int64 }

// stallAfter is how long a read makes no progress before it looks for what it waits for.
const stallAfter = time.Second

// Ranges returns all partitions of the topics, from their start to their high watermark. The last
// stable offset would not do as an end: an open transaction of another producer would hide
// committed records of ours behind it.
func Ranges(ctx context.Context, adm *kadm.Client, topics ...string) (map[string]map[int32]Range, error) {
	name := strings.Join(topics, ", ")
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", Explain(err, name, "DESCRIBE"))
	}
	ends, err := adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", Explain(err, name, "DESCRIBE"))
	}
	out := map[string]map[int32]Range{}
	for _, topic := range topics {
		out[topic] = map[int32]Range{}
		if len(ends[topic]) == 0 {
			return nil, fmt.Errorf("list offsets: %w", Explain(kerr.UnknownTopicOrPartition, topic, ""))
		}
		for p, end := range ends[topic] {
			start, ok := starts.Lookup(topic, p)
			if err := errors.Join(end.Err, start.Err); err != nil {
				return nil, fmt.Errorf("list offsets of topic %s partition %d: %w", topic, p, Explain(err, topic, "DESCRIBE"))
			}
			if !ok {
				return nil, fmt.Errorf("list offsets: topic %s partition %d has no start", topic, p)
			}
			out[topic][p] = Range{From: start.Offset, To: end.Offset}
		}
	}
	return out, nil
}

// CommittedRanges returns the same, up to the last stable offset: what a read_committed reader can see now, without
// waiting for open transactions.
func CommittedRanges(ctx context.Context, adm *kadm.Client, topics ...string) (map[string]map[int32]Range, error) {
	ranges, err := Ranges(ctx, adm, topics...)
	if err != nil {
		return nil, err
	}
	stable, err := adm.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	for topic, ps := range ranges {
		for p, r := range ps {
			if end, ok := stable.Lookup(topic, p); ok && end.Err == nil {
				r.To = end.Offset
				ps[p] = r
			}
		}
	}
	return ranges, nil
}

// Read calls each for every committed data record of the ranges, in order within a partition, and
// returns when all were read; each must not keep the record. Where a range is held back by an open
// transaction, it calls stalled about every second with the ranges that are left; an error of
// stalled ends the read.
//
// The client tells no position, aborted records are not delivered, and the last offset may be a
// control record: a range is done when any record, control records included, at or after its
// last offset was seen.
func Read(ctx context.Context, opts []kgo.Opt, ranges map[string]map[int32]Range, each func(*kgo.Record), stalled func(context.Context, map[string]map[int32]Range) error) error {
	left, starts := map[string]map[int32]Range{}, map[string]map[int32]kgo.Offset{}
	for t, ps := range ranges {
		for p, r := range ps {
			if r.From < r.To {
				put(left, t, p, r)
				put(starts, t, p, kgo.NewOffset().At(r.From))
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(append(opts[:len(opts):len(opts)],
		kgo.ConsumePartitions(starts), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(250*time.Millisecond))...)
	if err != nil {
		return err
	}
	defer cl.Close()

	progress := time.Now()
	for len(left) > 0 {
		moved, err := poll(ctx, cl, left, each)
		if err != nil {
			return err
		}
		if moved {
			progress = time.Now()
		} else if time.Since(progress) >= stallAfter {
			if err := stalled(ctx, left); err != nil {
				return err
			}
		}
	}
	return nil
}

// poll takes what is there, for at most a second, and drops the finished ranges.
func poll(ctx context.Context, cl *kgo.Client, left map[string]map[int32]Range, each func(*kgo.Record)) (moved bool, err error) {
	pollCtx, cancel := context.WithTimeout(ctx, stallAfter)
	defer cancel()
	fetches := cl.PollFetches(pollCtx)
	if err := ctx.Err(); err != nil {
		return false, err
	}
	for _, fe := range fetches.Errors() {
		if fe.Err != nil && !kerr.IsRetriable(fe.Err) && !errors.Is(fe.Err, context.DeadlineExceeded) {
			if k := new(kerr.Error); errors.As(fe.Err, &k) {
				return false, fmt.Errorf("read topic %s partition %d: %w", fe.Topic, fe.Partition, fe.Err)
			}
		}
	}
	fetches.EachRecord(func(r *kgo.Record) {
		rg, ok := left[r.Topic][r.Partition]
		if !ok {
			return
		}
		moved = true
		if !r.Attrs.IsControl() && r.Offset < rg.To {
			each(r)
		}
		if r.Offset < rg.To-1 {
			rg.From = r.Offset + 1
			left[r.Topic][r.Partition] = rg
			return
		}
		delete(left[r.Topic], r.Partition)
		if len(left[r.Topic]) == 0 {
			delete(left, r.Topic)
		}
	})
	return moved, nil
}

func put[V any](m map[string]map[int32]V, topic string, partition int32, v V) {
	if m[topic] == nil {
		m[topic] = map[int32]V{}
	}
	m[topic][partition] = v
}

// fallbackTransactionTimeout is the broker's own default of transaction.max.timeout.ms.
const fallbackTransactionTimeout = 15 * time.Minute

// MaxTransactionTimeout returns the longest transaction the broker allows
// (transaction.max.timeout.ms); 15 min, the broker's default, where its configuration may not be read.
func MaxTransactionTimeout(ctx context.Context, adm *kadm.Client) time.Duration {
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil || len(meta.Brokers) == 0 {
		return fallbackTransactionTimeout
	}
	configs, err := adm.DescribeBrokerConfigs(ctx, meta.Brokers[0].NodeID)
	if err != nil || len(configs) == 0 || configs[0].Err != nil {
		return fallbackTransactionTimeout
	}
	for _, c := range configs[0].Configs {
		if c.Key == "transaction.max.timeout.ms" {
			if ms, err := strconv.ParseInt(c.MaybeValue(), 10, 64); err == nil && ms > 0 {
				return time.Duration(ms) * time.Millisecond
			}
		}
	}
	return fallbackTransactionTimeout
}
