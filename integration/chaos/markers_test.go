package chaos

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Markers are only written in Kafka's place where the coordinator's log says how this very transaction ended.
func TestDecided(t *testing.T) {
	state := func(epoch int16, s kmsg.TransactionState, topics ...string) (c coordinated) {
		c.ProducerID, c.ProducerEpoch, c.State = 7, epoch, s
		for _, topic := range topics {
			c.Topics = append(c.Topics, kmsg.TxnMetadataValueTopic{Topic: topic, Partitions: []int32{0, 1}})
		}
		return c
	}
	const (
		ongoing, commit, abort = kmsg.TransactionStateOngoing, kmsg.TransactionStatePrepareCommit, kmsg.TransactionStatePrepareAbort
		committed, aborted     = kmsg.TransactionStateCompleteCommit, kmsg.TransactionStateCompleteAbort
	)
	open := place{"t", 1, 7, 4}
	for name, c := range map[string]struct {
		states []coordinated
		want   kmsg.TransactionState // 0: not decided
	}{
		"committed":                {[]coordinated{state(4, ongoing, "t"), state(5, commit, "t"), state(5, committed), state(6, kmsg.TransactionStateEmpty)}, commit},
		"aborted":                  {[]coordinated{state(4, ongoing, "t"), state(5, abort, "t"), state(5, aborted)}, abort},
		"with more on the way":     {[]coordinated{state(4, ongoing, "u"), state(4, ongoing, "u", "t"), state(5, commit, "u", "t"), state(5, committed)}, commit},
		"still to be marked":       {[]coordinated{state(4, ongoing, "t"), state(5, commit, "t")}, 0},
		"still open":               {[]coordinated{state(4, ongoing, "t")}, 0},
		"of other partitions":      {[]coordinated{state(4, ongoing, "u"), state(5, commit, "u"), state(5, committed)}, 0},
		"the transaction before":   {[]coordinated{state(3, ongoing, "t"), state(4, commit, "t"), state(4, committed), state(4, ongoing, "t")}, 0},
		"the transaction after it": {[]coordinated{state(5, ongoing, "t"), state(6, commit, "t"), state(6, committed)}, 0},
		"completed the other way":  {[]coordinated{state(4, ongoing, "t"), state(5, commit, "t"), state(5, aborted)}, 0},
		"completed long before":    {[]coordinated{state(5, committed), state(4, ongoing, "t"), state(5, commit, "t")}, 0},
		"nothing is known":         {nil, 0},
	} {
		by, ok := decided(c.states, open)
		if ok != (c.want != 0) || ok && by.State != c.want {
			t.Errorf("%s: %v %s, want %s", name, ok, by.State, c.want)
		}
	}
}
