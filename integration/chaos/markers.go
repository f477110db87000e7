package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka 4.4.0 forgets the markers of a transaction that was committed, and acknowledged as such, in the moment in which its broker
// shuts down in order (KAFKA-20734): partitions have no leader then, the coordinator takes them for deleted ("Couldn't find leader
// endpoint for partitions … these partitions are likely deleted already and hence can be skipped"), and its log says CompleteCommit
// though nothing was marked. After the restart the partitions have an open transaction that nobody ends; plain Kafka clients
// see the same. It takes partitions whose replicas all stop at once, as those of the lab's one broker do.
//
// So the judge looks at the coordinator's log. Only where that says how the very transaction was decided, and that it is completed,
// the missing markers are written in Kafka's place, counted, and all else is judged as ever: nothing may be lost or there twice.

// coordinated is one state of a transactional id in the coordinator's log.
type coordinated struct {
	kmsg.TxnMetadataValue
	offset      int64
	leaderEpoch int32
	at          time.Time
}

func (c *coordinated) String() string {
	n := 0
	for _, t := range c.Topics {
		n += len(t.Partitions)
	}
	return fmt.Sprintf("offset %d leader epoch %d at %s: %s, producer %d epoch %d, %d partitions, began %d",
		c.offset, c.leaderEpoch, c.at.Format(clock), c.State, c.ProducerID, c.ProducerEpoch, n, c.StartTimestamp)
}

// has tells whether a partition is part of the transaction.
func (c *coordinated) has(topic string, partition int32) bool {
	for _, t := range c.Topics {
		for _, p := range t.Partitions {
			if t.Topic == topic && p == partition {
				return true
			}
		}
	}
	return false
}

// coordinatorLog reads the states of a transactional id, oldest first.
func (l *lab) coordinatorLog(ctx context.Context, id string) (states []coordinated) {
	const topic = "__transaction_state"
	listed, err := l.adm.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return nil
	}
	for partition := range listed[topic].Partitions {
		l.raw(ctx, topic, partition, 0, func(r *kgo.Record) {
			var key kmsg.TxnMetadataKey
			c := coordinated{offset: r.Offset, leaderEpoch: r.LeaderEpoch, at: r.Timestamp}
			if key.ReadFrom(r.Key) == nil && key.TransactionalID == id && c.ReadFrom(r.Value) == nil {
				states = append(states, c)
			}
		})
	}
	return states
}

// decided finds the transaction that a partition still has open: how it was decided, by its epoch then, where it was completed.
// Its records carry one epoch less than its decision: Kafka raises the epoch with every end of a transaction.
func decided(states []coordinated, p kadm.DescribedProducer) (by coordinated, ok bool) {
	for i, s := range states {
		if s.ProducerID != p.ProducerID || s.ProducerEpoch != p.ProducerEpoch+1 || !s.has(p.Topic, p.Partition) {
			continue
		}
		complete := kmsg.TransactionStateCompleteCommit
		switch s.State {
		case kmsg.TransactionStatePrepareCommit:
		case kmsg.TransactionStatePrepareAbort:
			complete = kmsg.TransactionStateCompleteAbort
		default:
			continue
		}
		for _, later := range states[i+1:] {
			if later.State == complete && later.ProducerID == s.ProducerID && later.ProducerEpoch == s.ProducerEpoch {
				return s, true
			}
		}
	}
	return by, false
}

// markForgotten writes the markers that Kafka forgot; done where there were any.
func (l *lab) markForgotten() (done bool) {
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	defer cancel()
	open := l.openIn(ctx)
	if len(open) == 0 {
		return false
	}
	states := l.coordinatorLog(ctx, l.st.transactionalID())
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, p := range open {
		by, ok := decided(states, p)
		if !ok {
			continue
		}
		m := kmsg.NewWriteTxnMarkersRequestMarker()
		m.ProducerID, m.ProducerEpoch, m.Committed = by.ProducerID, by.ProducerEpoch, by.State == kmsg.TransactionStatePrepareCommit
		m.CoordinatorEpoch, m.TransactionVersion = states[len(states)-1].leaderEpoch, 2
		t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		t.Topic, t.Partitions = p.Topic, []int32{p.Partition}
		m.Topics = append(m.Topics, t)
		req.Markers = append(req.Markers, m)
	}
	if len(req.Markers) == 0 {
		return false
	}
	said := l.hanging()
	if err := l.write(ctx, req); err != nil {
		l.report.say("write the markers that Kafka forgot: " + err.Error())
		return false
	}
	l.report.forgot()
	l.report.say(fmt.Sprintf("Kafka forgot a completed transaction's markers in %d partitions; they are written in its place: %s", len(req.Markers), said))
	return true
}

func (l *lab) write(ctx context.Context, req *kmsg.WriteTxnMarkersRequest) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(l.kafka.Bootstrap()))
	if err != nil {
		return err
	}
	defer cl.Close()
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, m := range resp.Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("%s[%d]: %w", t.Topic, p.Partition, err)
				}
			}
		}
	}
	return nil
}
