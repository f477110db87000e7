package kafkastore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// waiting reports what holds a read back, and ends it after limit.
type waiting struct {
	adm    *kadm.Client
	topic  string
	report connectors.Reporter
	limit  time.Duration

	since  time.Time
	reason string
}

// stalled is called about every second while the read stands still.
func (w *waiting) stalled(ctx context.Context, left map[string]map[int32]Range) error {
	if w.since.IsZero() {
		w.since = time.Now()
	}
	reason := w.describe(ctx, left)
	if time.Since(w.since) > w.limit {
		if strings.Contains(reason, orphaned) {
			return fmt.Errorf("gave up after %s %s: a broker that stopped forgot its markers (KAFKA-20734); where it was committed, kafka-transactions.sh abort loses what it holds, and the tables are to be read anew (snapshot.mode=when_needed)", w.limit.Round(time.Second), reason)
		}
		return fmt.Errorf("gave up after %s %s; end that transaction (kafka-transactions.sh abort) or wait until the broker does", w.limit.Round(time.Second), reason)
	}
	if reason != w.reason {
		w.reason = reason
		w.report(connectors.State{Name: "WAITING", Reason: reason})
	}
	return nil
}

// done takes the waiting state back, if one was reported.
func (w *waiting) done() {
	if w.reason != "" {
		w.report(connectors.State{Name: "STARTING"})
	}
}

// describe names the transactions that are open before the ends of what is left to read. What may
// not be looked up (DESCRIBE on the transactional ids) is named by its producer id.
func (w *waiting) describe(ctx context.Context, left map[string]map[int32]Range) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	partitions := partitionsOf(left[w.topic])
	general := fmt.Sprintf("waiting for the end of an open transaction in partition %s of offsets topic %s", partitions, w.topic)

	var set kadm.TopicsSet
	for p := range left[w.topic] {
		set.Add(w.topic, p)
	}
	described, err := w.adm.DescribeProducers(ctx, set)
	if err != nil {
		return general
	}
	var ids []int64
	described.EachProducer(func(d kadm.DescribedProducer) {
		if d.CurrentTxnStartOffset >= 0 && d.CurrentTxnStartOffset < left[w.topic][d.Partition].To && !slices.Contains(ids, d.ProducerID) {
			ids = append(ids, d.ProducerID)
		}
	})
	if len(ids) == 0 {
		return general
	}
	slices.Sort(ids)
	return fmt.Sprintf("waiting for the end of %s in partition %s of offsets topic %s", w.names(ctx, ids), partitions, w.topic)
}

// orphaned marks a transaction that a partition has open though its coordinator is through with it: nobody will end it.
const orphaned = ", which its coordinator takes for ended,"

func (w *waiting) names(ctx context.Context, ids []int64) string {
	byID := map[int64]string{}
	listed, _ := w.adm.ListTransactions(ctx, ids, nil) // a partial answer is still worth showing
	for _, t := range listed {
		byID[t.ProducerID] = t.TxnID
	}
	started, ended := map[string]int64{}, map[string]bool{}
	if txns := listed.TransactionalIDs(); len(txns) > 0 {
		described, _ := w.adm.DescribeTransactions(ctx, txns...)
		for _, d := range described {
			started[d.TxnID] = d.StartTimestamp
			ended[d.TxnID] = d.Err == nil && (d.State == "Empty" || strings.HasPrefix(d.State, "Complete"))
		}
	}
	var names []string
	for _, id := range ids {
		txn, ok := byID[id]
		switch ms := started[txn]; {
		case !ok:
			names = append(names, fmt.Sprintf("the open transaction of producer id %d", id))
		case ended[txn]:
			names = append(names, fmt.Sprintf("the open transaction of transactional id %s%s", txn, orphaned))
		case ms > 0:
			names = append(names, fmt.Sprintf("the open transaction of transactional id %s (since %s)", txn, time.UnixMilli(ms).UTC().Format(time.RFC3339)))
		default:
			names = append(names, fmt.Sprintf("the open transaction of transactional id %s", txn))
		}
	}
	return strings.Join(names, " and ")
}

func partitionsOf(left map[int32]Range) string {
	var ps []int32
	for p := range left {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ps), " ", ", "), "[]")
}
