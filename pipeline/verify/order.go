package verify

import "bytes"

// SnapshotSeq is the first ordinal of snapshot rows; changes have smaller ones.
const SnapshotSeq = 1 << 50

// Order judges that in each partition (__gen, __pos, __seq) of data records strictly increases.
type Order struct {
	last  map[place]*Record
	found list
}

// Record takes a record.
func (v *Order) Record(r *Record) {
	if r.Tombstone {
		return
	}
	if v.last == nil {
		v.last = map[place]*Record{}
	}
	here := place{r.Topic, r.Partition}
	if last := v.last[here]; last != nil {
		switch c := last.Compare(r.Position); {
		case c == 0:
			v.found.at(r, "%s repeats %s of offset %d", at(r.Meta), at(last.Meta), last.Offset)
		case c > 0:
			v.found.at(r, "%s is before %s of offset %d", at(r.Meta), at(last.Meta), last.Offset)
		}
	}
	v.last[here] = &Record{Meta: r.Meta, Offset: r.Offset}
}

// End returns what was found.
func (v *Order) End() []Violation { return v.found.kept }

// Total is the number of violations, also beyond those that End returns.
func (v *Order) Total() int64 { return v.found.total }

// Rules says what holds in one topic.
type Rules struct {
	// Compacted topics may lack any record but the last of its key: a delete may be gone while its tombstone stays.
	Compacted bool
	// NoTombstones is set where the connector writes none (tombstones.on.delete=false).
	NoTombstones bool
	// NoDeletes is set where a tombstone stands alone for its delete (deletes.on.delete=false).
	NoDeletes bool
}

// Tombstones judges that every keyed delete is followed by its tombstone, which repeats its pair and key, and that
// there is no other tombstone.
type Tombstones struct {
	Rules map[string]Rules // by topic

	partitions map[place]*tombstones
	found      list
}

type tombstones struct {
	last   Record // value and old key aside
	awaits bool   // last is a keyed delete whose tombstone has not come
}

// Record takes a record.
func (v *Tombstones) Record(r *Record) {
	if v.partitions == nil {
		v.partitions = map[place]*tombstones{}
	}
	here := place{r.Topic, r.Partition}
	p, rules := v.partitions[here], v.Rules[r.Topic]
	first := p == nil
	if first {
		p = &tombstones{}
		v.partitions[here] = p
	}
	switch {
	case !r.Tombstone:
		v.missing(p)
	case p.awaits && p.last.Compare(r.Position) == 0 && bytes.Equal(p.last.Key, r.Key):
	case (rules.Compacted || rules.NoDeletes) && (first || p.last.Compare(r.Position) < 0):
	default:
		v.found.at(r, "tombstone at %s does not follow its delete", at(r.Meta))
	}
	p.awaits = !r.Tombstone && r.Op == 'd' && r.Key != nil
	key := append(p.last.Key[:0], r.Key...)
	p.last = Record{Meta: r.Meta, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: key}
}

// missing tells of a delete whose tombstone did not come.
func (v *Tombstones) missing(p *tombstones) {
	rules := v.Rules[p.last.Topic]
	if p.awaits && !rules.NoTombstones && !rules.Compacted {
		v.found.at(&p.last, "delete at %s is not followed by its tombstone", at(p.last.Meta))
	}
	p.awaits = false
}

// End returns what was found.
func (v *Tombstones) End() []Violation {
	for _, p := range v.partitions {
		v.missing(p)
	}
	return v.found.kept
}

// Snapshots judges the ordinals of snapshot rows: they, and nothing else, count from 2^50, so that they stand at the
// boundary after the transaction whose position they carry.
type Snapshots struct{ found list }

// Record takes a record.
func (v *Snapshots) Record(r *Record) {
	if r.Tombstone {
		return
	}
	switch {
	case r.Op == 'r' && r.Seq < SnapshotSeq:
		v.found.at(r, "snapshot row at %s has an ordinal of a change", at(r.Meta))
	case r.Op != 'r' && r.Seq >= SnapshotSeq:
		v.found.at(r, "%c at %s has an ordinal of a snapshot row", r.Op, at(r.Meta))
	}
}

// End returns what was found.
func (v *Snapshots) End() []Violation { return v.found.kept }
