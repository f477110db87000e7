package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// hanging says what Kafka knows of the stream's transaction and of the partitions that have an open one: for a violation's text.
func (l *lab) hanging() string {
	ctx, cancel := context.WithTimeout(l.ctx, 10*time.Second)
	defer cancel()
	id := "group-" + l.st.Name + "-" + l.st.Name + "-0"
	described, err := l.adm.DescribeTransactions(ctx, id)
	t := described[id]
	text := fmt.Sprintf("transaction of %s: state %s, producer %d epoch %d, began %d, timeout %d ms, partitions %v, %v %v",
		id, t.State, t.ProducerID, t.ProducerEpoch, t.StartTimestamp, t.TimeoutMillis, t.Topics.Sorted(), t.Err, err)
	_, topics, err := l.topics(ctx)
	if err != nil {
		return text
	}
	topics = append(topics, l.st.OffsetsTopic())
	set := kadm.TopicsSet{}
	for _, topic := range topics {
		set.Add(topic, 0, 1, 2)
	}
	producers, err := l.adm.DescribeProducers(ctx, set)
	if err != nil {
		return text + "; " + err.Error()
	}
	for _, p := range producers.SortedProducers() {
		if p.CurrentTxnStartOffset >= 0 {
			text += fmt.Sprintf("; %s[%d] has an open transaction of producer %d epoch %d from offset %d, last write %d ms, coordinator epoch %d",
				p.Topic, p.Partition, p.ProducerID, p.ProducerEpoch, p.CurrentTxnStartOffset, p.LastTimestamp, p.CoordinatorEpoch)
		}
	}
	return text + l.brokerSaid("marker", 5)
}

// brokerSaid is the last lines of the broker's log since its start that contain a word.
func (l *lab) brokerSaid(word string, most int) string {
	b, err := os.ReadFile(l.kafka.Log())
	if err != nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, word) {
			lines = append(lines, "\n  broker: "+strings.TrimSpace(line))
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "")
}
