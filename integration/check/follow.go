package check

import (
	"context"
	"encoding/json"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Follower reads topics as a read_committed reader, each time from where it stopped to where committed transactions end.
// It is not safe for concurrent use.
type Follower struct {
	seeds []string
	cl    *kgo.Client
	next  map[string]map[int32]int64
}

// NewFollower reads from the topics' beginnings. The caller closes it.
func NewFollower(seeds ...string) *Follower {
	return &Follower{seeds: seeds, next: map[string]map[int32]int64{}}
}

// Close ends the follower.
func (f *Follower) Close() {
	if f.cl != nil {
		f.cl.Close()
	}
}

// Read calls each for what was committed in the topics since the last read, in order within a partition.
func (f *Follower) Read(ctx context.Context, adm *kadm.Client, each func(*kgo.Record), topics ...string) error {
	ends, err := adm.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	if err := f.open(ends); err != nil {
		return err
	}
	for {
		behind := false
		ends.Each(func(o kadm.ListedOffset) { behind = behind || f.next[o.Topic][o.Partition] < o.Offset })
		if !behind {
			return nil
		}
		fetches := f.cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			f.next[r.Topic][r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				each(r)
			}
		})
	}
}

// open adds the partitions that are new.
func (f *Follower) open(ends kadm.ListedOffsets) (err error) {
	from := map[string]map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		if _, known := f.next[o.Topic][o.Partition]; known {
			return
		}
		if f.next[o.Topic] == nil {
			f.next[o.Topic] = map[int32]int64{}
		}
		if from[o.Topic] == nil {
			from[o.Topic] = map[int32]kgo.Offset{}
		}
		f.next[o.Topic][o.Partition], from[o.Topic][o.Partition] = 0, kgo.NewOffset().AtStart()
	})
	if f.cl != nil {
		f.cl.AddConsumePartitions(from)
		return nil
	}
	f.cl, err = kgo.NewClient(kgo.SeedBrokers(f.seeds...), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond))
	return err
}

// Boundary follows a stream's committed boundary in its offsets topic.
type Boundary struct {
	At uint64 // as it was last read

	topic string
	f     *Follower
}

// NewBoundary starts with a position that stands where there is no offset yet. The caller closes it.
func NewBoundary(seeds []string, topic string, start uint64) *Boundary {
	return &Boundary{At: start, topic: topic, f: NewFollower(seeds...)}
}

// Close ends the reading.
func (b *Boundary) Close() { b.f.Close() }

// Read reads up to where committed transactions end now.
func (b *Boundary) Read(ctx context.Context, adm *kadm.Client) error {
	return b.f.Read(ctx, adm, func(r *kgo.Record) {
		var v struct {
			LSN string `json:"boundary_lsn"`
		}
		if json.Unmarshal(r.Value, &v) != nil || v.LSN == "" {
			return
		}
		if lsn, err := ParseLSN(v.LSN); err == nil {
			b.At = max(b.At, lsn)
		}
	}, b.topic)
}
