package chaos

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// transactionalID is the stream's.
func (s *stream) transactionalID() string { return "group-" + s.Name + "-" + s.Name + "-0" }

// owns tells whether a topic is the stream's.
func (s *stream) owns(topic string) bool {
	return strings.HasPrefix(topic, s.Name+".") || strings.HasPrefix(topic, s.Name+"-")
}

// hanging says what Kafka knows of the stream's transaction, how it came to that, and what the partitions hold that have an open
// one: for a violation's text.
func (l *lab) hanging() string {
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	defer cancel()
	id := l.st.transactionalID()
	described, err := l.adm.DescribeTransactions(ctx, id)
	t := described[id]
	text := fmt.Sprintf("transaction of %s: state %s, producer %d epoch %d, began %d, timeout %d ms, partitions %v, %v %v",
		id, t.State, t.ProducerID, t.ProducerEpoch, t.StartTimestamp, t.TimeoutMillis, t.Topics.Sorted(), t.Err, err)
	open := l.openIn(ctx)
	for i, p := range open {
		text += fmt.Sprintf("\n  %s[%d] has an open transaction of producer %d epoch %d from offset %d, last write %d ms, coordinator epoch %d",
			p.Topic, p.Partition, p.ProducerID, p.ProducerEpoch, p.CurrentTxnStartOffset, p.LastTimestamp, p.CoordinatorEpoch)
		if i == 0 {
			text += l.held(ctx, p)
		}
	}
	if len(open) > 0 {
		text += l.history(ctx, id)
	}
	return text + l.brokerSaid(4, id)
}

// openIn are the partitions of the stream's topics, its own ones too, with an open transaction.
func (l *lab) openIn(ctx context.Context) (open []kadm.DescribedProducer) {
	listed, err := l.adm.ListTopics(ctx)
	if err != nil {
		return nil
	}
	set := kadm.TopicsSet{}
	for _, t := range listed {
		if !l.st.owns(t.Topic) {
			continue
		}
		for partition := range t.Partitions {
			set.Add(t.Topic, partition)
		}
	}
	producers, err := l.adm.DescribeProducers(ctx, set)
	if err != nil {
		return nil
	}
	for _, p := range producers.SortedProducers() {
		if p.CurrentTxnStartOffset >= 0 {
			open = append(open, p)
		}
	}
	return open
}

// held is what a partition holds from its open transaction on.
func (l *lab) held(ctx context.Context, p kadm.DescribedProducer) (text string) {
	l.raw(ctx, p.Topic, p.Partition, p.CurrentTxnStartOffset-2, func(r *kgo.Record) {
		what := "record"
		if r.Attrs.IsControl() && len(r.Key) == 4 {
			what = []string{"ABORT", "COMMIT"}[min(1, int(binary.BigEndian.Uint16(r.Key[2:])))]
		}
		text += fmt.Sprintf("\n    offset %d at %s: %s of producer %d epoch %d", r.Offset, r.Timestamp.Format(clock), what, r.ProducerID, r.ProducerEpoch)
	})
	return text
}

const clock = "15:04:05.000"

// history is the last states of a transactional id in the coordinator's log.
func (l *lab) history(ctx context.Context, id string) (text string) {
	states := l.coordinatorLog(ctx, id)
	for _, s := range states[max(0, len(states)-12):] {
		text += "\n  coordinator's log, " + s.String()
	}
	return text
}

// raw reads a partition from an offset to its end, whatever is committed.
func (l *lab) raw(ctx context.Context, topic string, partition int32, from int64, each func(*kgo.Record)) {
	ends, err := l.adm.ListEndOffsets(ctx, topic)
	end, ok := ends.Lookup(topic, partition)
	if err != nil || !ok || end.Offset == 0 {
		return
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.kafka.Bootstrap()), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(max(0, from))}}))
	if err != nil {
		return
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	for last := int64(-1); last < end.Offset-1 && ctx.Err() == nil; {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			last = r.Offset
			each(r)
		})
	}
}

// brokerSaid is the last lines of the broker's log, before its last start and since, that contain one of some words.
func (l *lab) brokerSaid(most int, words ...string) string {
	text := ""
	for _, file := range []string{filepath.Join(l.kafka.Dir, "log.before"), l.kafka.Log()} {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var lines []string
		for line := range strings.Lines(string(b)) {
			for _, word := range words {
				if strings.Contains(line, word) {
					lines = append(lines, fmt.Sprintf("\n  broker (%s): %.400s", filepath.Base(file), strings.TrimSpace(line)))
					break
				}
			}
		}
		text += strings.Join(lines[max(0, len(lines)-most):], "")
	}
	return text
}
