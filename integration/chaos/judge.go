package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// quiesce waits until all that was committed is published and visible.
func (l *lab) quiesce() error {
	s := l.st
	l.heal()
	if s.w.Ended() {
		l.unexpectedEnd()
		s.w = s.Start()
	}
	var text string
	l.query(&text, "SELECT pg_current_wal_insert_lsn()::text")
	l.sql("SELECT pg_logical_emit_message(true, 'e2e', 'end')")
	end, err := check.ParseLSN(text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.ctx, 90*time.Second)
	defer cancel()
	look := time.Now().Add(15 * time.Second)
	published := l.eventually(60*time.Second, func() bool {
		if s.w.Ended() {
			l.unexpectedEnd()
			s.w = s.Start()
		}
		if time.Now().After(look) {
			l.markForgotten()
			look = time.Now().Add(15 * time.Second)
		}
		err = s.boundary.Read(ctx, l.adm)
		return err == nil && s.boundary.At >= end
	})
	l.sample()
	if !published {
		if err != nil {
			return fmt.Errorf("after 60 s without faults the offsets cannot be read: %w", err)
		}
		return fmt.Errorf("after 60 s without faults the committed offset is %s, not %s; %s; the worker is in state %v; its log:\n  %s",
			check.FormatLSN(s.boundary.At), check.FormatLSN(end), l.hanging(), s.w.State(), strings.Join(s.w.Log(15), "\n  "))
	}
	return nil
}

// unexpectedEnd tells of a worker that ended though nothing called for it.
func (l *lab) unexpectedEnd() {
	w := l.st.w
	l.report.violation(fmt.Sprintf("the worker ended by itself, code %d: %s; its log:\n  %s", w.Wait(time.Second), w.Message(), strings.Join(w.Log(12), "\n  ")))
}

// topics lists the stream's data topics with their partitions, and whether the transaction topic is there.
func (l *lab) topics(ctx context.Context) (partitions map[string]int, all []string, err error) {
	listed, err := l.adm.ListTopics(ctx)
	if err != nil {
		return nil, nil, err
	}
	partitions = map[string]int{}
	for _, t := range listed {
		if strings.HasPrefix(t.Topic, l.st.Name+".") && t.Topic != l.st.GenerationsTopic() {
			all = append(all, t.Topic)
			if t.Topic != l.transactions() {
				partitions[t.Topic] = len(t.Partitions)
			}
		}
	}
	slices.Sort(all)
	return partitions, all, nil
}

func (l *lab) transactions() string { return l.st.Name + ".transaction" }

// judge judges what came since it was called last; all of it must be visible or become so in a moment.
func (l *lab) judge() error {
	s := l.st
	ctx, cancel := context.WithTimeout(l.ctx, 60*time.Second)
	defer cancel()
	partitions, topics, err := l.topics(ctx)
	if err != nil {
		return err
	}
	// A commit's markers reach the partitions one after another.
	visible := func() bool { return l.visible(ctx, topics) }
	if !l.eventually(10*time.Second, visible) && !(l.markForgotten() && l.eventually(10*time.Second, visible)) {
		return fmt.Errorf("10 s after the end a partition still has an open transaction: %s", l.hanging())
	}
	truth, err := l.truth(ctx)
	if err != nil {
		return err
	}
	gaps := &verify.Gaps{Whole: true}
	of := verify.All{&s.order, &verify.Tombstones{}, &verify.Snapshots{}, &verify.Once{Partitions: partitions}, &s.chain, &s.replayed, gaps}
	records, err := l.read(ctx, topics, of, gaps)
	if err != nil {
		return fmt.Errorf("read the topics: %w", err)
	}
	if s.first {
		s.first = false
		truth.Changes = slices.DeleteFunc(truth.Changes, func(c check.Change) bool { return c.LSN < s.begins })
	}
	if err := l.contents(ctx); err != nil {
		return err
	}
	for _, v := range of.End() {
		l.report.violation(v.String())
	}
	res := check.Compare(truth, records, check.Expectation{Decoder: s.Decoder, Topic: func(schema, table string) string {
		switch _, ours := tables[table]; {
		case schema == "" && table == check.Messages:
			return s.MessageTopic()
		case ours:
			return s.Name + ".public." + table
		}
		return ""
	}})
	if res.Bad() {
		l.report.violation("the topics are not what the log says: " + res.String() + l.history(ctx, s.transactionalID()) + l.brokerSaid(6, s.transactionalID()))
	}
	l.report.compared(res.Changes, res.Transactions)
	return nil
}

// seen is a record with whom it is from.
type seen struct {
	check.Record
	producer int64
	epoch    int16
	end      *verify.End // of the transaction topic, whose record has but a place
}

// read reads what became visible, for the validators, and returns the changes among it.
func (l *lab) read(ctx context.Context, topics []string, of verify.Validator, gaps *verify.Gaps) (changes []check.Record, err error) {
	s := l.st
	var bad error
	var all []seen
	err = s.follower.Read(ctx, l.adm, func(k *kgo.Record) {
		if k.Topic == l.transactions() {
			e, err := s.Decoder.End(k.Value, func(name string) string { return s.Name + "." + name })
			if err != nil {
				bad = err
			}
			at := check.Position{Gen: e.Generation, LSN: e.Commit[2], Seq: -1}
			all = append(all, seen{check.Record{Topic: k.Topic, Partition: k.Partition, Position: at, Value: k.Value}, k.ProducerID, k.ProducerEpoch, &e})
			return
		}
		r, err := check.Parse(k)
		if err != nil {
			bad = err
		}
		all = append(all, seen{r, k.ProducerID, k.ProducerEpoch, nil})
	}, topics...)
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, err
	}
	for _, r := range l.withoutAborted(ctx, all) {
		if r.end != nil {
			gaps.Ended(*r.end)
			continue
		}
		if r.Op == 'r' { // the log has none
			s.begins = min(s.begins, r.LSN+1)
		} else {
			s.begins = min(s.begins, r.LSN)
			changes = append(changes, r.Record)
		}
		of.Record(r.Verified())
	}
	return changes, nil
}

func (l *lab) visible(ctx context.Context, topics []string) bool {
	high, err := l.adm.ListEndOffsets(ctx, topics...)
	if err != nil || high.Error() != nil {
		return false
	}
	stable, err := l.adm.ListCommittedOffsets(ctx, topics...)
	if err != nil || stable.Error() != nil {
		return false
	}
	same := true
	high.Each(func(o kadm.ListedOffset) {
		s, ok := stable.Lookup(o.Topic, o.Partition)
		same = same && ok && s.Offset == o.Offset
	})
	return same
}

// truth reads the log since it was read last, from the judge's slot; after a crash of the server the slot may stand further back.
func (l *lab) truth(ctx context.Context) (truth *check.Truth, err error) {
	s := l.st
	l.asked(func(conn *pgx.Conn) error {
		truth, err = check.ReadTruth(ctx, conn, s.Judge, s.Name, func(_, table string) []string { return tables[table] })
		return nil
	})
	if err != nil {
		return nil, err
	}
	last := s.judged
	truth.Changes = slices.DeleteFunc(truth.Changes, func(c check.Change) bool {
		s.judged = max(s.judged, c.LSN)
		return c.LSN <= last || c.Op == 'm' && (*c.Row[0].Text == "e2e" || *c.Row[0].Text == "tidemark")
	})
	return truth, nil
}

// contents reads the tables, for the fingerprint.
func (l *lab) contents(ctx context.Context) (err error) {
	s := l.st
	s.fingerprint.Tables = map[string]verify.Table{}
	s.fingerprint.AtLeastOnce = func(topic string) bool { return s.snapshots.keyless && topic == s.Name+".public.keyless" }
	l.asked(func(conn *pgx.Conn) error {
		for table := range tables {
			var t verify.Table
			if t, err = readTable(ctx, conn, table); err != nil {
				err = fmt.Errorf("read table %s: %w", table, err)
				return nil
			}
			s.fingerprint.Tables[s.Name+".public."+table] = t
		}
		return nil
	})
	return err
}

func readTable(ctx context.Context, conn *pgx.Conn, table string) (t verify.Table, err error) {
	rows, err := conn.Query(ctx, `SELECT attname::text FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table)
	if err != nil {
		return t, err
	}
	if t.Columns, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return t, err
	}
	rows, err = conn.Query(ctx, "SELECT ARRAY["+strings.Join(t.Columns, "::text,")+"::text] FROM "+table)
	if err != nil {
		return t, err
	}
	t.Rows, err = pgx.CollectRows(rows, pgx.RowTo[[]verify.Text])
	return t, err
}
