package judge

import (
	"fmt"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// Counts is what the judge found. Only the first six fields are an outcome; Examples help to look for the cause.
type Counts struct {
	Changes         int64 // data records, tombstones aside
	Transactions    int64 // distinct __pos
	Lost            int64 // changes of the log without their record
	Duplicated      int64 // records beyond the first of a change, or of no change of the log
	OrderViolations int64 // data records that do not come strictly after the one before them in their partition
	Tombstones      int64
	HotPositions    int64 // distinct __pos of the hot row's updates
	DedupLatest     int64 // v of the hot row's record with the greatest (__gen, __pos, __seq)
	Examples        []string
}

// Clean reports whether nothing was lost, repeated or out of order.
func (c *Counts) Clean() bool { return c.Lost == 0 && c.Duplicated == 0 && c.OrderViolations == 0 }

const maxExamples = 5

type partition struct {
	topic  string
	number int32
}

// rank is the order over all records of a key.
type rank struct {
	gen int64
	at  Position
}

func (r rank) less(o rank) bool { return r.gen < o.gen || r.gen == o.gen && r.at.Less(o.at) }

// Tally takes records, partition by partition in their order, and gives the verdict at the end.
type Tally struct {
	log       *Log
	seen      map[Position]bool
	commits   map[pgoutput.LSN]bool
	order     verify.Order
	hot       map[pgoutput.LSN]bool
	hotLatest rank
	counts    Counts
}

// NewTally compares with what the database committed.
func NewTally(log *Log) *Tally {
	return &Tally{log: log, seen: make(map[Position]bool, len(log.Changes)), commits: map[pgoutput.LSN]bool{},
		hot: map[pgoutput.LSN]bool{}}
}

// Add takes the next record of a partition.
func (t *Tally) Add(r Record) {
	if r.Tombstone {
		t.counts.Tombstones++
		return
	}
	t.counts.Changes++
	t.commits[r.Position.LSN] = true
	t.order.Record(&verify.Record{
		Meta:  verify.Meta{Position: verify.Position{Generation: r.Gen, Commit: [3]uint64{0, 0, uint64(r.Position.LSN)}, Seq: r.Position.Seq}, Pos: r.Position.LSN.String()},
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
	})
	want, ok := t.log.Changes[r.Position]
	switch {
	case !ok || want != r.Change:
		t.counts.Duplicated++
		t.example("not in the log: %s %c at %s", r.Change.Table, r.Change.Op, r.Position)
	case t.seen[r.Position]:
		t.counts.Duplicated++
		t.example("duplicated: %s %c at %s", r.Change.Table, r.Change.Op, r.Position)
	default:
		t.seen[r.Position] = true
	}
}

// AddHot takes a record of the hot row, after Add: its v is what a reader that removes duplicates may keep.
func (t *Tally) AddHot(r Record, v int64) {
	if r.Change.Op == 'u' {
		t.hot[r.Position.LSN] = true
	}
	if now := (rank{r.Gen, r.Position}); t.hotLatest.less(now) {
		t.hotLatest, t.counts.DedupLatest = now, v
	}
}

// Verdict counts what is missing.
func (t *Tally) Verdict() Counts {
	c := t.counts
	c.Transactions, c.HotPositions = int64(len(t.commits)), int64(len(t.hot))
	for _, v := range t.order.End() {
		if len(c.Examples) < maxExamples {
			c.Examples = append(c.Examples, "out of order: "+v.String())
		}
	}
	c.OrderViolations = t.order.Total()
	for at, change := range t.log.Changes {
		if t.seen[at] {
			continue
		}
		c.Lost++
		if len(c.Examples) < maxExamples {
			c.Examples = append(c.Examples, fmt.Sprintf("lost: %s %c at %s", change.Table, change.Op, at))
		}
	}
	return c
}

func (t *Tally) example(format string, args ...any) {
	if len(t.counts.Examples) < maxExamples {
		t.counts.Examples = append(t.counts.Examples, fmt.Sprintf(format, args...))
	}
}
