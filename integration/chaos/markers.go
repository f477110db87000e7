package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-cdc/tidemark/integration/check"
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

// place is a partition with records of a producer's epoch. Kafka raises the epoch with every end of a transaction.
type place struct {
	topic     string
	partition int32
	producer  int64
	epoch     int16
}

// decided finds how the transaction that a place's records belong to was decided, where it is completed.
func decided(states []coordinated, p place) (by coordinated, ok bool) {
	began := -1
	for i, s := range states {
		if s.State == kmsg.TransactionStateOngoing && s.ProducerID == p.producer && s.ProducerEpoch == p.epoch {
			began = i
		}
	}
	if began < 0 {
		return by, false
	}
	for i, s := range states[began:] {
		complete := kmsg.TransactionStateCompleteCommit
		switch s.State {
		case kmsg.TransactionStatePrepareCommit:
		case kmsg.TransactionStatePrepareAbort:
			complete = kmsg.TransactionStateCompleteAbort
		default:
			continue
		}
		next := states[began+i+1:]
		return s, s.ProducerID == p.producer && s.has(p.topic, p.partition) && len(next) > 0 && next[0].State == complete
	}
	return by, false
}

// withoutAborted leaves out records of transactions that the coordinator has aborted: where Kafka forgets to mark that, the next
// transaction's marker commits them with its own. Its log is only asked where something is there twice.
func (l *lab) withoutAborted(ctx context.Context, all []seen) []seen {
	type at struct {
		topic     string
		partition int32
		check.Position
		tombstone bool
	}
	once := make(map[at]bool, len(all))
	twice := false
	for i := range all {
		here := at{all[i].Topic, all[i].Partition, all[i].Position, all[i].Value == nil}
		twice = twice || once[here]
		once[here] = true
	}
	if !twice {
		return all
	}
	states := l.coordinatorLog(ctx, l.st.transactionalID())
	aborted := map[place]coordinated{}
	left := slices.DeleteFunc(slices.Clone(all), func(s seen) bool {
		p := place{s.Topic, s.Partition, s.producer, s.epoch}
		if by, ok := decided(states, p); ok && by.State == kmsg.TransactionStatePrepareAbort {
			aborted[p] = by
			return true
		}
		return false
	})
	if len(aborted) == 0 {
		return all
	}
	l.report.forgot()
	text := fmt.Sprintf("Kafka forgot a transaction's abort, and committed %d records with another's marker, which are left out:", len(all)-len(left))
	for p, by := range aborted {
		text += fmt.Sprintf("\n  %s[%d], producer %d epoch %d; coordinator's log, %s", p.topic, p.partition, p.producer, p.epoch, by.String())
	}
	l.report.say(text)
	return left
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
		by, ok := decided(states, place{p.Topic, p.Partition, p.ProducerID, p.ProducerEpoch})
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
