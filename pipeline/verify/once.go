package verify

import "slices"

// Once judges that no pair is in two partitions, and that a TRUNCATE, whose one pair is in every partition of its topic,
// is in all of them. Within a partition Order finds what is there twice. It keeps 48 bytes per record.
type Once struct {
	Partitions map[string]int   // of topics whose truncates are to be in all; absent: not judged
	Live       bool             // the ends are not of one moment: a truncate may lack where nothing later is
	Rules      map[string]Rules // by topic

	seen      map[place][]Position
	truncates map[truncate]map[int32]bool
	last      map[place]Position
	commits   map[commit]struct{}
	found     list
}

type truncate struct {
	topic string
	Position
}

type commit struct {
	generation int64
	pos        [3]uint64
}

// Record takes a record.
func (v *Once) Record(r *Record) {
	if r.Tombstone {
		return
	}
	if v.seen == nil {
		v.seen, v.truncates = map[place][]Position{}, map[truncate]map[int32]bool{}
		v.last, v.commits = map[place]Position{}, map[commit]struct{}{}
	}
	here := place{r.Topic, r.Partition}
	v.last[here] = r.Position
	v.commits[commit{r.Generation, r.Commit}] = struct{}{}
	if r.Op != 't' {
		v.seen[here] = append(v.seen[here], r.Position)
		return
	}
	t := truncate{r.Topic, r.Position}
	if v.truncates[t] == nil {
		v.truncates[t] = map[int32]bool{}
	}
	v.truncates[t][r.Partition] = true
}

// Transactions is the number of commit positions seen.
func (v *Once) Transactions() int64 { return int64(len(v.commits)) }

// End returns what was found.
func (v *Once) End() []Violation {
	type seen struct {
		Position
		place
	}
	var all []seen
	for where, ps := range v.seen {
		for _, pos := range ps {
			all = append(all, seen{pos, where})
		}
	}
	for t, in := range v.truncates {
		all = append(all, seen{t.Position, place{t.topic, -1}})
		v.everywhere(t, in)
	}
	slices.SortFunc(all, func(a, b seen) int { return a.Compare(b.Position) })
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.Compare(b.Position) == 0 && a.place != b.place {
			v.found.add(b.topic, b.n, -1, "(%d,…,%d) of partition %d is also in %s[%d]", b.Generation, b.Seq, b.n, a.topic, a.n)
		}
	}
	v.seen = nil
	return v.found.kept
}

// everywhere judges a truncate by the partitions that have it.
func (v *Once) everywhere(t truncate, in map[int32]bool) {
	if v.Rules[t.topic].Compacted {
		return
	}
	for n := range int32(v.Partitions[t.topic]) {
		last, any := v.last[place{t.topic, n}]
		if !in[n] && (!v.Live || any && last.Compare(t.Position) > 0) {
			v.found.add(t.topic, n, -1, "partition %d lacks the truncate at (%d,…,%d)", n, t.Generation, t.Seq)
		}
	}
}
