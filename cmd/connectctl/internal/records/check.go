package records

import (
	"bytes"
	"fmt"
	"slices"

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

// Violation is one place where a stream is not what a consumer may rely on.
type Violation struct {
	Topic     string
	Partition int32
	Offset    int64
	What      string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s[%d]@%d: %s", v.Topic, v.Partition, v.Offset, v.What)
}

// TopicRules says what holds in one topic.
type TopicRules struct {
	// Compacted topics may lack any record but the last of its key: a delete may be gone while its tombstone stays.
	Compacted bool
	// NoTombstones is set where the connector writes none (tombstones.on.delete=false).
	NoTombstones bool
	// NoDeletes is set where a tombstone stands alone for its delete (deletes.on.delete=false).
	NoDeletes bool
}

// Checker takes the records of a stream's topics, in order within a partition, and collects
// violations: positions that do not strictly increase, a pair seen twice, a tombstone that is not where it
// belongs, a record that cannot be read. It keeps 24 bytes per record to find a pair that is in two partitions.
// It is not safe for concurrent use.
type Checker struct {
	Rules map[string]TopicRules
	// Active reports whether a generation counts; nil: all do.
	Active func(generation int64) bool

	Counts     Counts
	Violations []Violation // the first maxViolations
	Total      int64       // of violations

	partitions map[string]map[int32]*partition
	commits    map[commit]struct{}
	truncates  map[truncate]struct{}
}

// truncate is a TRUNCATE of a topic's table: a record in each partition with one pair.
type truncate struct {
	topic string
	Position
}

type commit struct {
	generation int64
	pos        [3]uint64
}

const maxViolations = 1000

type partition struct {
	seen      []Position
	last      Meta
	any       bool
	awaits    bool // the last record was a keyed delete, whose tombstone has not come
	key       []byte
	lastAt    int64
	tombstone bool // a tombstone was seen
}

// Take checks the next record of its partition.
func (c *Checker) Take(r *kgo.Record) {
	m, ours, err := MetaOf(r)
	if err != nil {
		c.violate(r.Topic, r.Partition, r.Offset, err.Error())
		return
	}
	if !ours {
		c.violate(r.Topic, r.Partition, r.Offset, "record without __pos, __seq and __gen headers")
		return
	}
	if c.Active != nil && !c.Active(m.Generation) {
		c.Counts.Ignored++
		return
	}
	p := c.partition(r.Topic, r.Partition)
	if m.Tombstone {
		c.tombstone(p, m, r)
	} else {
		c.data(p, m, r)
	}
	p.last, p.any, p.lastAt = m, true, r.Offset
	p.key = append(p.key[:0], r.Key...)
}

func (c *Checker) tombstone(p *partition, m Meta, r *kgo.Record) {
	c.Counts.Tombstones++
	p.tombstone = true
	rules := c.Rules[r.Topic]
	switch {
	case p.awaits && p.last.Compare(m.Position) == 0 && bytes.Equal(p.key, r.Key):
	case (rules.Compacted || rules.NoDeletes) && (!p.any || p.last.Compare(m.Position) < 0):
	default:
		c.violate(r.Topic, r.Partition, r.Offset, fmt.Sprintf("tombstone at %s does not follow its delete", at(m)))
	}
	p.awaits = false
}

func (c *Checker) data(p *partition, m Meta, r *kgo.Record) {
	c.missing(r.Topic, r.Partition, p)
	c.Counts.Records++
	switch m.Op {
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
	if p.any && p.last.Compare(m.Position) >= 0 {
		how := "is before"
		if p.last.Compare(m.Position) == 0 {
			how = "repeats"
		}
		c.violate(r.Topic, r.Partition, r.Offset, fmt.Sprintf("%s %s %s of offset %d", at(m), how, at(p.last), p.lastAt))
	}
	if m.Op == 't' {
		if c.truncates == nil {
			c.truncates = map[truncate]struct{}{}
		}
		c.truncates[truncate{r.Topic, m.Position}] = struct{}{}
	} else {
		p.seen = append(p.seen, m.Position)
	}
	if c.commits == nil {
		c.commits = map[commit]struct{}{}
	}
	c.commits[commit{m.Generation, m.Commit}] = struct{}{}
	p.awaits = m.Op == 'd' && r.Key != nil
}

// missing tells of a delete whose tombstone did not come.
func (c *Checker) missing(topic string, n int32, p *partition) {
	rules := c.Rules[topic]
	if p.awaits && !rules.NoTombstones && !rules.Compacted {
		c.violate(topic, n, p.lastAt, fmt.Sprintf("delete at %s is not followed by its tombstone", at(p.last)))
	}
	p.awaits = false
}

func at(m Meta) string { return fmt.Sprintf("(%d,%s,%d)", m.Generation, m.Pos, m.Seq) }

func (c *Checker) partition(topic string, n int32) *partition {
	if c.partitions == nil {
		c.partitions = map[string]map[int32]*partition{}
	}
	if c.partitions[topic] == nil {
		c.partitions[topic] = map[int32]*partition{}
	}
	if c.partitions[topic][n] == nil {
		c.partitions[topic][n] = &partition{}
	}
	return c.partitions[topic][n]
}

// Finish checks what needs all records. The checker takes none after it.
func (c *Checker) Finish() {
	type place struct {
		Position
		topic string
		n     int32
	}
	var all []place
	for topic, ps := range c.partitions {
		for n, p := range ps {
			c.missing(topic, n, p)
			for _, pos := range p.seen {
				all = append(all, place{pos, topic, n})
			}
			p.seen = nil
		}
	}
	for t := range c.truncates {
		all = append(all, place{t.Position, t.topic, -1})
	}
	slices.SortFunc(all, func(a, b place) int { return a.Compare(b.Position) })
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.Compare(b.Position) == 0 && (a.topic != b.topic || a.n != b.n) {
			c.violate(b.topic, b.n, -1, fmt.Sprintf("(%d,…,%d) is also in %s[%d]", b.Generation, b.Seq, a.topic, a.n))
		}
	}
	c.Counts.Transactions = int64(len(c.commits))
}

func (c *Checker) violate(topic string, n int32, offset int64, what string) {
	c.Total++
	if len(c.Violations) < maxViolations {
		c.Violations = append(c.Violations, Violation{topic, n, offset, what})
	}
}
