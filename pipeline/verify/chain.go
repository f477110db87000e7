package verify

import (
	"fmt"
	"maps"
	"slices"
)

// Text is a column's value as text; nil: null.
type Text = *string

// Row is what a value says of a row. A nil image is one that the record does not have.
type Row struct {
	Before, After map[string]Text
	Unavailable   map[string]bool // columns of After that the log did not carry
}

// Decode reads a record's value. Before is to be left nil where it is not a whole before-image.
type Decode func(*Record) (Row, error)

// Chain judges that every before-image is the row as the record before it of the same key left it: nothing between two
// changes of a row is missing. What was before a key's first record is not known; columns that only one of both has, or
// whose value was not carried, are not compared.
type Chain struct {
	Decode Decode

	rows  map[place]map[string]map[string]Text // by key; a nil row was deleted
	found list
}

// Record takes a record.
func (v *Chain) Record(r *Record) {
	if r.Tombstone || r.Key == nil && r.Op != 't' {
		return
	}
	if v.rows == nil {
		v.rows = map[place]map[string]map[string]Text{}
	}
	here := place{r.Topic, r.Partition}
	if v.rows[here] == nil || r.Op == 't' {
		v.rows[here] = map[string]map[string]Text{}
	}
	if r.Op == 't' {
		return
	}
	row, err := v.Decode(r)
	if err != nil {
		v.found.at(r, "cannot be decoded: %v", err)
		return
	}
	rows, key := v.rows[here], string(r.Key)
	was, known := rows[key]
	switch {
	case !known || r.Op == 'r':
	case r.Op == 'c' && was != nil:
		v.found.at(r, "create at %s of a row that is there", at(r.Meta))
	case (r.Op == 'u' || r.Op == 'd') && was == nil:
		v.found.at(r, "%c at %s of a row that was deleted", r.Op, at(r.Meta))
	case row.Before != nil:
		if column := differ(was, row.Before); column != "" {
			v.found.at(r, "%c at %s: before-image of column %s is %s, the record before left %s", r.Op, at(r.Meta), column, show(row.Before[column]), show(was[column]))
		}
	}
	if r.Op == 'd' {
		rows[key] = nil
		return
	}
	rows[key] = after(row, was)
}

// after is the row after a change: what it carries, with what was there before where it carries nothing; a column whose
// value nobody knows is left out.
func after(row Row, was map[string]Text) map[string]Text {
	now := maps.Clone(row.After)
	for c := range row.Unavailable {
		delete(now, c)
		if v, ok := was[c]; ok {
			now[c] = v
		} else if v, ok := row.Before[c]; ok {
			now[c] = v
		}
	}
	return now
}

// differ returns a column that two rows have with different values.
func differ(a, b map[string]Text) string {
	for _, c := range slices.Sorted(maps.Keys(a)) {
		if v, ok := b[c]; ok && !equal(a[c], v) {
			return c
		}
	}
	return ""
}

func equal(a, b Text) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func show(t Text) string {
	switch {
	case t == nil:
		return "null"
	case len(*t) > 40:
		return fmt.Sprintf("%q… (%d bytes)", (*t)[:40], len(*t))
	}
	return fmt.Sprintf("%q", *t)
}

// End returns what was found.
func (v *Chain) End() []Violation { return v.found.kept }
