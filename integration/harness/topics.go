package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/check"
)

// Isolation of a read.
type Isolation bool

// The isolations.
const (
	Committed   Isolation = true
	Uncommitted Isolation = false
)

// OffsetsTopic is the stream's own offsets topic.
func (s *Stream) OffsetsTopic() string { return s.Name + "-offsets" }

// GenerationsTopic holds the activation records.
func (s *Stream) GenerationsTopic() string { return s.Name + ".__generations" }

// MessageTopic holds the logical messages.
func (s *Stream) MessageTopic() string { return s.Name + ".message" }

// Topics are the stream's data topics, sorted.
func (s *Stream) Topics() (topics []string) {
	s.T.Helper()
	all, err := s.admin.ListTopics(s.Ctx)
	if err != nil {
		s.T.Fatal(err)
	}
	for _, t := range all.Names() {
		if strings.HasPrefix(t, s.Name+".") && t != s.GenerationsTopic() {
			topics = append(topics, t)
		}
	}
	slices.Sort(topics)
	return topics
}

// Topic is the topic of a table of plain name.
func (s *Stream) Topic(schema, table string) string {
	forbidden := func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)) {
			return r
		}
		return '_'
	}
	return s.Name + "." + strings.Map(forbidden, schema+"."+table)
}

// ends are the partitions' ends as a consumer of an isolation sees them.
func (s *Stream) ends(i Isolation, topics ...string) (kadm.ListedOffsets, error) {
	if i == Committed {
		return s.admin.ListCommittedOffsets(s.Ctx, topics...)
	}
	return s.admin.ListEndOffsets(s.Ctx, topics...)
}

// Raw reads topics from their start to their end as it is when called.
func (s *Stream) Raw(i Isolation, topics ...string) []*kgo.Record {
	s.T.Helper()
	if len(topics) == 0 {
		return nil
	}
	ends, err := s.ends(i, topics...)
	if err != nil {
		s.T.Fatal(err)
	}
	starts, err := s.admin.ListStartOffsets(s.Ctx, topics...)
	if err != nil {
		s.T.Fatal(err)
	}
	from := map[string]map[int32]kgo.Offset{}
	open := map[string]map[int32]int64{}
	n := 0
	ends.Each(func(o kadm.ListedOffset) {
		start, _ := starts.Lookup(o.Topic, o.Partition)
		if o.Offset <= start.Offset || o.Err != nil {
			return
		}
		if from[o.Topic] == nil {
			from[o.Topic], open[o.Topic] = map[int32]kgo.Offset{}, map[int32]int64{}
		}
		from[o.Topic][o.Partition] = kgo.NewOffset().At(start.Offset)
		open[o.Topic][o.Partition] = o.Offset
		n++
	})
	if n == 0 {
		return nil
	}
	level := kgo.ReadUncommitted()
	if i == Committed {
		level = kgo.ReadCommitted()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.o.Kafka.Bootstrap()), kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords(), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		s.T.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(s.Ctx, 60*time.Second)
	defer cancel()
	var out []*kgo.Record
	for n > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			s.T.Fatalf("read %v: %v; left: %v", topics, err, open)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, ok := open[r.Topic][r.Partition]
			if !ok {
				return
			}
			if r.Offset < end && !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if r.Offset >= end-1 {
				delete(open[r.Topic], r.Partition)
				n--
			}
		})
	}
	return out
}

// Records reads the stream's data topics.
func (s *Stream) Records(i Isolation) []check.Record {
	s.T.Helper()
	return s.Parse(s.Raw(i, s.Topics()...))
}

// Parse parses records' headers.
func (s *Stream) Parse(raw []*kgo.Record) []check.Record {
	s.T.Helper()
	out := make([]check.Record, 0, len(raw))
	for _, k := range raw {
		r, err := check.Parse(k)
		if err != nil {
			s.T.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// OpenTransaction tells whether the stream's topics hold records of an open Kafka transaction.
func (s *Stream) OpenTransaction(topics ...string) bool {
	s.T.Helper()
	high, err := s.admin.ListEndOffsets(s.Ctx, topics...)
	if err != nil {
		return false
	}
	stable, err := s.admin.ListCommittedOffsets(s.Ctx, topics...)
	if err != nil {
		return false
	}
	open := false
	high.Each(func(o kadm.ListedOffset) {
		if l, ok := stable.Lookup(o.Topic, o.Partition); ok && o.Err == nil && l.Err == nil && o.Offset > l.Offset {
			open = true
		}
	})
	return open
}

// CommittedEnd is the sum of the ends of a topic's partitions as a read_committed consumer sees them.
func (s *Stream) CommittedEnd(topic string) (sum int64) {
	stable, err := s.admin.ListCommittedOffsets(s.Ctx, topic)
	if err != nil {
		return 0
	}
	stable.Each(func(o kadm.ListedOffset) { sum += o.Offset })
	return sum
}

// Offsets are the committed entries of the offsets topic by their partition's JSON.
func (s *Stream) Offsets() map[string]map[string]any {
	s.T.Helper()
	out := map[string]map[string]any{}
	listed, err := s.admin.ListTopics(s.Ctx, s.OffsetsTopic())
	if err != nil || !listed.Has(s.OffsetsTopic()) {
		return out
	}
	for _, r := range s.Raw(Committed, s.OffsetsTopic()) {
		var key []json.RawMessage
		if err := json.Unmarshal(r.Key, &key); err != nil || len(key) != 2 || string(key[0]) != `"`+s.Name+`"` {
			s.T.Fatalf("key of the offsets topic: %s", r.Key)
		}
		if r.Value == nil {
			delete(out, string(key[1]))
			continue
		}
		var value map[string]any
		if err := json.Unmarshal(r.Value, &value); err != nil {
			s.T.Fatalf("value of the offsets topic: %s", r.Value)
		}
		out[string(key[1])] = value
	}
	return out
}

// Boundary is the committed boundary, 0 where there is none.
func (s *Stream) Boundary() uint64 {
	s.T.Helper()
	for _, v := range s.Offsets() {
		if text, ok := v["boundary_lsn"].(string); ok {
			lsn, err := check.ParseLSN(text)
			if err != nil {
				s.T.Fatal(err)
			}
			return lsn
		}
	}
	return 0
}

// SlotNotAhead checks that what the slot has confirmed now is committed in Kafka. A commit is decided a moment before
// its markers make it visible, so visibility is waited for.
func (s *Stream) SlotNotAhead() {
	s.T.Helper()
	confirmed := s.Confirmed()
	if s.Boundary() == 0 {
		return // nothing stored yet: the slot stands where it was made
	}
	if !Eventually(3*time.Second, func() bool { return s.Boundary() >= confirmed }) {
		s.T.Errorf("the slot is confirmed up to %s, the committed offset is %s", check.FormatLSN(confirmed), check.FormatLSN(s.Boundary()))
	}
}

// Verify runs connectctl verify over all data topics.
func (s *Stream) Verify() {
	s.T.Helper()
	topics := s.Topics()
	if len(topics) == 0 {
		return
	}
	code, out, errs := s.Ctl(append([]string{"verify", "--bootstrap-servers", s.o.Kafka.Bootstrap()}, topics...)...)
	if code != 0 {
		s.T.Errorf("connectctl verify: code %d\n%s%s", code, out, errs)
	}
}

// schema reads a schema's text from the registry.
func (s *Stream) schema(id int) (string, error) {
	return get(s.Ctx, fmt.Sprintf("%s/schemas/ids/%d", s.o.Registry.URL(), id), "schema")
}

func get(ctx context.Context, url, member string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		return "", err
	}
	text, _ := m[member].(string)
	return text, nil
}
