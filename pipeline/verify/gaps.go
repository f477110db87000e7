package verify

// End is what the transaction topic says of a transaction's end.
type End struct {
	Generation int64
	Commit     [3]uint64
	Events     int64            // records of the transaction, tombstones aside, a truncate once
	Tables     map[string]int64 // likewise, by topic
}

// Gaps judges that of every transaction as many records are in the topics as its END says, and that none has two ENDs or
// none. Ends are given with Ended; a message outside of a transaction has none.
type Gaps struct {
	Whole bool // the topics are read from their beginning, and all of them: a transaction without END is one too

	ends  map[commit][]End
	seen  map[commit]*transaction
	found list
}

type transaction struct {
	events int64
	tables map[string]int64
	plain  bool // has a record that belongs to a transaction for sure
	truncs map[truncate]bool
	pos    string
	topic  string
}

// Ended takes an END record.
func (v *Gaps) Ended(e End) {
	if v.ends == nil {
		v.ends = map[commit][]End{}
	}
	c := commit{e.Generation, e.Commit}
	v.ends[c] = append(v.ends[c], e)
}

// Record takes a record.
func (v *Gaps) Record(r *Record) {
	if r.Tombstone || r.Op == 'r' {
		return
	}
	if v.seen == nil {
		v.seen = map[commit]*transaction{}
	}
	c := commit{r.Generation, r.Commit}
	t := v.seen[c]
	if t == nil {
		t = &transaction{tables: map[string]int64{}, truncs: map[truncate]bool{}, pos: r.Pos, topic: r.Topic}
		v.seen[c] = t
	}
	if r.Op == 't' {
		one := truncate{r.Topic, r.Position}
		if t.truncs[one] {
			return
		}
		t.truncs[one] = true
	}
	t.plain = t.plain || r.Op != 'm'
	t.events++
	t.tables[r.Topic]++
}

// End compares.
func (v *Gaps) End() []Violation {
	for c, ends := range v.ends {
		t := v.seen[c]
		if t == nil {
			t = &transaction{}
		}
		if len(ends) > 1 {
			v.found.add(t.topic, 0, -1, "the transaction at %s has %d ENDs", t.pos, len(ends))
		}
		if e := ends[0]; e.Events != t.events {
			v.found.add(t.topic, 0, -1, "the transaction at (%d,%s) has %d records, its END says %d", c.generation, t.pos, t.events, e.Events)
		} else {
			for topic, n := range e.Tables {
				if t.tables[topic] != n {
					v.found.add(topic, 0, -1, "the transaction at (%d,%s) has %d records, its END says %d", c.generation, t.pos, t.tables[topic], n)
				}
			}
		}
	}
	for c, t := range v.seen {
		if v.Whole && t.plain && v.ends[c] == nil {
			v.found.add(t.topic, 0, -1, "the transaction at (%d,%s) has no END", c.generation, t.pos)
		}
	}
	return v.found.kept
}
