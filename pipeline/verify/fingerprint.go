package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Table is the rows of a table as they are in the database.
type Table struct {
	Columns []string
	Rows    [][]Text
}

// Fingerprint judges that replaying topics, as a consumer that keeps the latest row does, gives exactly the tables: per
// key the last record, and per column the last one that does not name it as unavailable. Records without a key are counted
// as a bag of rows.
type Fingerprint struct {
	Decode Decode
	Tables map[string]Table // by topic; what End compares with
	// AtLeastOnce tells topics without keys whose rows may be there more often than in the table: an interrupted snapshot
	// reads them again. Nil: none.
	AtLeastOnce func(topic string) bool

	pending map[string][]*Record
	replays map[string]*replay
	found   list
}

type replay struct {
	rows map[string]map[string]Text
	gone map[string]map[string]Text // the last row deleted under a key
	bag  []bagged
}

type bagged struct {
	row map[string]Text
	n   int
}

// Record takes a record. It is kept until Settle or End: the order over partitions counts, where a row comes from an old
// key's that is in another one.
func (v *Fingerprint) Record(r *Record) {
	if v.pending == nil {
		v.pending = map[string][]*Record{}
	}
	v.pending[r.Topic] = append(v.pending[r.Topic], r)
}

// Settle replays what was taken so far, to free it; everything before it must be in all partitions.
func (v *Fingerprint) Settle() {
	if v.replays == nil {
		v.replays = map[string]*replay{}
	}
	for topic, records := range v.pending {
		p := v.replays[topic]
		if p == nil {
			p = &replay{rows: map[string]map[string]Text{}, gone: map[string]map[string]Text{}}
			v.replays[topic] = p
		}
		slices.SortStableFunc(records, func(a, b *Record) int { return a.Compare(b.Position) })
		for _, r := range records {
			if r.Tombstone {
				p.delete(string(r.Key))
			} else if row, err := v.Decode(r); err != nil {
				v.found.at(r, "cannot be decoded: %v", err)
			} else {
				p.take(r, row)
			}
		}
	}
	v.pending = nil
}

func (p *replay) take(r *Record, row Row) {
	key := string(r.Key)
	switch {
	case r.Op == 't':
		p.rows, p.gone, p.bag = map[string]map[string]Text{}, map[string]map[string]Text{}, nil
	case r.Key == nil && r.Op == 'd':
		p.bag = append(p.bag, bagged{row.Before, -1})
	case r.Key == nil:
		p.bag = append(p.bag, bagged{row.After, 1})
	case r.Op == 'd':
		p.delete(key)
	default:
		was := p.rows[key]
		if r.OldKey != nil {
			was = p.gone[string(r.OldKey)]
		}
		p.rows[key] = after(row, was)
	}
}

func (p *replay) delete(key string) {
	if was, ok := p.rows[key]; ok {
		p.gone[key] = was
		delete(p.rows, key)
	}
}

// End compares with the tables.
func (v *Fingerprint) End() []Violation {
	v.Settle()
	for topic, t := range v.Tables {
		want := make([]string, len(t.Rows))
		for i, row := range t.Rows {
			want[i] = line(row)
		}
		got, err := v.replays[topic].lines(t.Columns)
		if err != nil {
			v.found.add(topic, 0, -1, "%v", err)
			continue
		}
		slices.Sort(want)
		if v.AtLeastOnce != nil && v.AtLeastOnce(topic) {
			got = common(got, want)
		}
		if !slices.Equal(got, want) {
			v.found.add(topic, 0, -1, "replayed it gives %d rows, the table has %d: %s", len(got), len(want), firstDifference(got, want))
		}
	}
	return v.found.kept
}

func (p *replay) lines(columns []string) (out []string, err error) {
	if p == nil {
		return nil, nil
	}
	pick := func(row map[string]Text) string {
		values := make([]Text, len(columns))
		for i, c := range columns {
			values[i] = row[c]
		}
		return line(values)
	}
	for _, row := range p.rows {
		out = append(out, pick(row))
	}
	count := map[string]int{}
	for _, b := range p.bag {
		count[pick(b.row)] += b.n
	}
	for l, n := range count {
		if n < 0 {
			return nil, fmt.Errorf("replayed, a row was deleted %d times more often than it was there: %.200s", -n, l)
		}
		for range n {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return out, nil
}

// common is what both of two sorted lists have, as often as both have it.
func common(a, b []string) (both []string) {
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Compare(a[0], b[0]); {
		case c < 0:
			a = a[1:]
		case c > 0:
			b = b[1:]
		default:
			both, a, b = append(both, a[0]), a[1:], b[1:]
		}
	}
	return both
}

func line(row []Text) string {
	var b strings.Builder
	for _, v := range row {
		if v == nil {
			b.WriteString(`\N`)
		} else {
			b.WriteString(*v)
		}
		b.WriteByte('|')
	}
	return b.String()
}

func firstDifference(got, want []string) string {
	for i, j := 0, 0; i < len(got) || j < len(want); i, j = i+1, j+1 {
		switch {
		case i == len(got):
			return fmt.Sprintf("the topic lacks %.200s", want[j])
		case j == len(want):
			return fmt.Sprintf("the table lacks %.200s", got[i])
		case cmp.Less(got[i], want[j]):
			return fmt.Sprintf("the table lacks %.200s, nearest is %.200s", got[i], want[j])
		case got[i] != want[j]:
			return fmt.Sprintf("the topic lacks %.200s, nearest is %.200s", want[j], got[i])
		}
	}
	return "nothing"
}
