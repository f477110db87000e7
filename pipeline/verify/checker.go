package verify

import (
	"github.com/twmb/franz-go/pkg/kgo"
)

// Counts is what a check has seen.
type Counts struct {
	Records      int64 `json:"records"` // data records, without tombstones
	Tombstones   int64 `json:"tombstones"`
	Transactions int64 `json:"transactions"` // distinct commit positions
	Ignored      int64 `json:"ignored"`      // records of generations that are not active
	Creates      int64 `json:"creates"`
	Updates      int64 `json:"updates"`
	Deletes      int64 `json:"deletes"`
	Snapshot     int64 `json:"snapshot"`
	Other        int64 `json:"other"`
}

// Checker runs the validators that need no columns over a stream's topics as they are consumed, and counts. It is not safe
// for concurrent use.
type Checker struct {
	// Rules of the topics.
	Rules map[string]Rules
	// Partitions of the topics; a truncate must be in all of them.
	Partitions map[string]int
	// Live is set where the topics are written to meanwhile, so that their ends are not of one moment.
	Live bool
	// Active reports whether a generation counts; nil: all do.
	Active func(generation int64) bool
	// Further validators, which see every record that counts.
	Further []Validator

	Counts     Counts
	Violations []Violation // the first thousand; complete after Finish
	Total      int64       // of violations

	order      Order
	tombstones Tombstones
	once       Once
	snapshots  Snapshots
	begun      bool
	unreadable list
}

// Take checks the next record of its partition.
func (c *Checker) Take(k *kgo.Record) {
	r, ours, err := Parse(k)
	if err != nil {
		c.unreadable.add(k.Topic, k.Partition, k.Offset, "%v", err)
		return
	}
	if !ours {
		c.unreadable.add(k.Topic, k.Partition, k.Offset, "record without __pos, __seq and __gen headers")
		return
	}
	c.Record(&r)
}

// Record is Take for a record whose headers are read.
func (c *Checker) Record(r *Record) {
	if c.Active != nil && !c.Active(r.Generation) {
		c.Counts.Ignored++
		return
	}
	if !c.begun {
		c.begun = true
		c.tombstones.Rules, c.once.Rules, c.once.Partitions, c.once.Live = c.Rules, c.Rules, c.Partitions, c.Live
	}
	c.count(r)
	for _, v := range c.all() {
		v.Record(r)
	}
}

func (c *Checker) all() All {
	return append(All{&c.order, &c.tombstones, &c.once, &c.snapshots}, c.Further...)
}

func (c *Checker) count(r *Record) {
	if r.Tombstone {
		c.Counts.Tombstones++
		return
	}
	c.Counts.Records++
	switch r.Op {
	case 'c':
		c.Counts.Creates++
	case 'u':
		c.Counts.Updates++
	case 'd':
		c.Counts.Deletes++
	case 'r':
		c.Counts.Snapshot++
	default:
		c.Counts.Other++
	}
}

// Finish ends the validators. The checker takes no record after it.
func (c *Checker) Finish() {
	found := append(c.unreadable.kept, c.all().End()...)
	c.Counts.Transactions = c.once.Transactions()
	c.Total = int64(len(found)) + c.beyond()
	c.Violations = found[:min(len(found), maxViolations)]
}

// beyond is how many violations were counted but not kept.
func (c *Checker) beyond() (n int64) {
	for _, l := range []*list{&c.unreadable, &c.order.found, &c.tombstones.found, &c.once.found, &c.snapshots.found} {
		n += l.total - int64(len(l.kept))
	}
	return n
}
