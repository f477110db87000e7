package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// judge reads as a read_committed consumer does, over a network without faults.
type judge struct {
	d    *database
	plan *plan
	cl   *kgo.Client
	adm  *kadm.Client
	turn chan struct{} // one sample at a time; a mutex would stop the bubble's clock

	mu       sync.Mutex
	problems []string

	// with the turn
	next     map[string]map[int32]int64
	boundary int64 // as committed in the offsets topic
	seen     map[int64]int
	ends     map[int64]int
	whole    int64 // transactions before it are wholly there
	begun    int   // activation records
	checker  verify.Checker
	gaps     verify.Gaps
	print    verify.Fingerprint
	samples  int
	acks     int
}

func newJudge(p *plan, d *database, opts ...kgo.Opt) (*judge, error) {
	from := map[string]map[int32]kgo.Offset{}
	next := map[string]map[int32]int64{}
	for topic, n := range topics() {
		from[topic], next[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
		for i := range n {
			from[topic][i] = kgo.NewOffset().At(0)
		}
	}
	cl, err := kgo.NewClient(append(opts, kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(30*time.Second), kgo.MetadataMinAge(50*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	j := &judge{d: d, plan: p, cl: cl, adm: kadm.NewClient(cl), turn: make(chan struct{}, 1), next: next, seen: map[int64]int{}, ends: map[int64]int{}}
	j.gaps.Whole = true
	j.print.Decode = decode
	j.checker.Partitions = map[string]int{}
	j.checker.Further = []verify.Validator{&verify.Chain{Decode: decode}, &j.print, &j.gaps}
	return j, nil
}

func (j *judge) complain(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	j.problems = append(j.problems, fmt.Sprintf("%s: %s", time.Since(epoch).Round(time.Millisecond), what))
	j.plan.note("VIOLATION: %s", what)
}

// acknowledged is called before the source takes an acknowledgement: what it covers must be there for all to read.
func (j *judge) acknowledged(w *worker, n int64) {
	j.turn <- struct{}{}
	defer func() { <-j.turn }()
	j.acks++
	j.sample()
	if n > j.boundary {
		j.complain("w%d acknowledges %d, the committed boundary is %d", w.n, n, j.boundary)
	}
}

// look takes a sample at any time, and returns the boundary.
func (j *judge) look() int64 {
	j.turn <- struct{}{}
	defer func() { <-j.turn }()
	j.sample()
	return j.boundary
}

// sample reads the offsets and then the records: every transaction up to the boundary must be whole.
func (j *judge) sample() {
	j.samples++
	j.read(offsetsTopic)
	var rest []string
	for topic := range topics() {
		if topic != offsetsTopic {
			rest = append(rest, topic)
		}
	}
	j.read(rest...)
	for ; j.whole < j.boundary; j.whole++ {
		want := j.d.size(int(j.whole))
		if got := j.seen[j.whole]; got != want || j.ends[j.whole] != 1 {
			j.complain("the committed boundary is %d, of transaction %d there are %d of %d records and %d ENDs", j.boundary, j.whole, got, want, j.ends[j.whole])
		}
	}
}

// read reads what is committed now.
func (j *judge) read(topics ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var ends kadm.ListedOffsets
	for {
		var err error
		if ends, err = j.adm.ListCommittedOffsets(ctx, topics...); err == nil && ends.Error() == nil {
			break
		}
		if ctx.Err() != nil {
			j.complain("the judge cannot read: %v", err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	for {
		behind := false
		ends.Each(func(o kadm.ListedOffset) { behind = behind || j.next[o.Topic][o.Partition] < o.Offset })
		if !behind {
			return
		}
		fetches := j.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			j.complain("the judge does not come to the end of %v", topics)
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < j.next[r.Topic][r.Partition] {
				return // the client starts over where kfake moves a leader
			}
			j.next[r.Topic][r.Partition] = r.Offset + 1
			if !r.Attrs.IsControl() {
				j.take(r)
			}
		})
	}
}

func (j *judge) take(r *kgo.Record) {
	switch r.Topic {
	case offsetsTopic:
		_, partition, err := offsets.ParseKey(r.Key)
		if err != nil || !partition.Equal(offsets.StreamPartition(prefix)) {
			return
		}
		value, err := offsets.ParseObject(r.Value)
		n, ok := value.Int(sourcetest.FieldEnd)
		if err != nil || !ok || n < j.boundary {
			j.complain("the boundary goes from %d to %s", j.boundary, r.Value)
		}
		j.boundary = n
	case encode.GenerationsTopic(prefix):
		if j.begun++; j.begun > 1 {
			j.complain("a second generation begins: %s", r.Value)
		}
	case prefix + ".transaction":
		j.ended(r)
	default:
		if parsed, _, err := verify.Parse(r); err == nil && !parsed.Tombstone {
			j.seen[transactionAt(parsed.Commit)]++
		}
		j.checker.Take(r)
	}
}

func (j *judge) ended(r *kgo.Record) {
	var v struct {
		Status string `json:"status"`
		Events int64  `json:"event_count"`
		Tables []struct {
			Table string `json:"data_collection"`
			N     int64  `json:"event_count"`
		} `json:"data_collections"`
		Pos string `json:"__pos"`
		Gen int64  `json:"__gen"`
	}
	commit, err := [3]uint64{}, json.Unmarshal(r.Value, &v)
	if err == nil {
		commit, err = verify.ParsePos(v.Pos)
	}
	if err != nil || v.Status != "END" {
		j.complain("the record %s of the transaction topic: %v", r.Value, err)
		return
	}
	end := verify.End{Generation: v.Gen, Commit: commit, Events: v.Events, Tables: map[string]int64{}}
	for _, t := range v.Tables {
		end.Tables[prefix+"."+t.Table] = t.N
	}
	j.ends[transactionAt(commit)]++
	j.gaps.Ended(end)
}

// transactionAt is the ordinal of the transaction with a commit position; see sourcetest.Pos.
func transactionAt(commit [3]uint64) int64 { return int64(commit[2]/16) - 1 }

// finish judges the whole.
func (j *judge) finish() {
	j.look()
	j.print.Tables = j.d.content()
	j.checker.Finish()
	for _, v := range j.checker.Violations {
		j.complain("%s", v)
	}
	for n, got := range j.seen {
		if want := j.d.size(int(n)); got != want {
			j.complain("of transaction %d there are %d of %d records", n, got, want)
		}
	}
	if want := int64(len(j.d.written)); j.boundary != want || j.d.log.Acked() != want {
		j.complain("of %d transactions %d are committed and %d acknowledged", want, j.boundary, j.d.log.Acked())
	}
}

func (j *judge) verdict() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.problems[:min(len(j.problems), 20)], "\n")
}

// decode reads a flat value in JSON.
func decode(r *verify.Record) (verify.Row, error) {
	var v struct {
		ID json.Number `json:"id"`
		V  *string     `json:"v"`
	}
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return verify.Row{}, err
	}
	id := v.ID.String()
	return verify.Row{After: map[string]verify.Text{"id": &id, "v": v.V}}, nil
}
