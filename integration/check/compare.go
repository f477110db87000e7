package check

import (
	"fmt"
	"strings"
)

// Result is a comparison of topics with the truth. Everything but the first two members should be zero.
type Result struct {
	Changes      int // in the truth
	Transactions int // that hold them
	Lost         int
	Duplicated   int
	Unexpected   int // records the truth does not have
	Order        int // violations
	Different    int // records that are not what the log says
	Problems     []string
}

// Bad reports whether anything is not as the log says.
func (r *Result) Bad() bool {
	return r.Lost+r.Duplicated+r.Unexpected+r.Order+r.Different+len(r.Problems) > 0
}

func (r *Result) String() string {
	s := fmt.Sprintf("changes=%d transactions=%d lost=%d duplicated=%d unexpected=%d order_violations=%d different=%d",
		r.Changes, r.Transactions, r.Lost, r.Duplicated, r.Unexpected, r.Order, r.Different)
	if len(r.Problems) > 0 {
		s += "\n  " + strings.Join(r.Problems[:min(len(r.Problems), 12)], "\n  ")
	}
	return s
}

func (r *Result) problem(format string, args ...any) {
	if len(r.Problems) < 100 {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Expectation tells what of the truth should be in the topics.
type Expectation struct {
	Topic   func(schema, table string) string // empty: not captured
	Decoder *Decoder
	// Column, if set, tells whether a column is captured.
	Column func(schema, table, column string) bool
	// After: only transactions that end after this LSN are expected.
	After uint64
}

type place struct {
	lsn uint64
	seq int64
}

// Compare compares all data records of a stream with the truth, whatever their generation.
func Compare(truth *Truth, records []Record, e Expectation) *Result {
	res := &Result{}
	commits := map[uint64]bool{}
	byPlace := make(map[place]*Record, len(records))
	for i := range records {
		r := &records[i]
		if r.Value == nil {
			continue
		}
		at := place{r.LSN, r.Seq}
		if other, ok := byPlace[at]; ok {
			if r.Op == 't' && other.Op == 't' && r.Topic == other.Topic && r.Partition != other.Partition {
				continue // one pair in each partition; that it is in all is verify.Once's
			}
			res.Duplicated++
			res.problem("duplicated: %s and %s", other, r)
			continue
		}
		byPlace[at] = r
	}
	for _, v := range Order(records) {
		res.Order++
		res.problem("order: %s", v)
	}
	for i := range truth.Changes {
		c := &truth.Changes[i]
		topic := e.Topic(c.Schema, c.Table)
		if topic == "" || c.End <= e.After {
			continue
		}
		res.Changes++
		commits[c.LSN] = true
		at := place{c.LSN, c.Seq}
		r := byPlace[at]
		if r == nil {
			res.Lost++
			res.problem("lost: %c %s at %s,%d", c.Op, c.Name(), FormatLSN(c.LSN), c.Seq)
			continue
		}
		delete(byPlace, at)
		if why := e.differs(c, r, topic); why != "" {
			res.Different++
			res.problem("different: %s: %s", r, why)
		}
	}
	res.Transactions = len(commits)
	for _, r := range byPlace {
		res.Unexpected++
		res.problem("unexpected: %s", r)
	}
	return res
}

// differs returns why a record is not what the log says, empty where it is.
func (e *Expectation) differs(c *Change, r *Record, topic string) string {
	if r.Topic != topic || r.Op != c.Op {
		return fmt.Sprintf("want %c in %s", c.Op, topic)
	}
	if c.Op == 't' {
		return ""
	}
	v, err := e.Decoder.Decode(r.Value)
	if err != nil {
		return err.Error()
	}
	if v.Op != string(r.Op) || v.Seq != r.Seq || v.Gen != r.Gen || v.Pos != `{"lsn":"`+FormatLSN(r.LSN)+`"}` {
		return fmt.Sprintf("headers and value differ: value has %s %d %s %d", v.Op, v.Gen, v.Pos, v.Seq)
	}
	if c.Ts != 0 && v.TsMicros != c.Ts {
		return fmt.Sprintf("__ts_us is %d, committed at %d", v.TsMicros, c.Ts)
	}
	n := 0
	for _, col := range c.Row {
		if e.Column != nil && !e.Column(c.Schema, c.Table, col.Name) {
			continue
		}
		n++
		got, has := v.Columns[col.Name]
		switch {
		case !has:
			return "column " + col.Name + " is missing"
		case c.Op != 'd' && v.Unavailable[col.Name] != col.Unavailable:
			return fmt.Sprintf("column %s: __unavailable is %v", col.Name, !col.Unavailable)
		case !equal(got, col.Text):
			return fmt.Sprintf("column %s is %s, the log has %s", col.Name, show(got), show(col.Text))
		}
	}
	if n != len(v.Columns) {
		return fmt.Sprintf("the record has %d columns, the log %d", len(v.Columns), n)
	}
	if c.Op == 'd' && len(v.Unavailable) > 0 {
		return "__unavailable is not empty in a delete"
	}
	return e.keyDiffers(r, v)
}

// keyDiffers compares the key with the row.
func (e *Expectation) keyDiffers(r *Record, v Row) string {
	if r.Key == nil {
		if r.Partition != 0 {
			return "a record without key is not in partition 0"
		}
		return ""
	}
	k, err := e.Decoder.Decode(r.Key)
	if err != nil {
		return "key: " + err.Error()
	}
	c, err := e.Decoder.compiled(r.Value)
	if err != nil {
		return err.Error()
	}
	for name, text := range k.Columns { // a key's schema has no properties: its fields are named as the value's
		name = c.fields[name].column
		if text == nil || !equal(text, v.Columns[name]) {
			return fmt.Sprintf("key column %s is %s, the row has %s", name, show(text), show(v.Columns[name]))
		}
	}
	return ""
}

func show(t Text) string {
	if t == nil {
		return "null"
	}
	if len(*t) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", (*t)[:40], len(*t))
	}
	return fmt.Sprintf("%q", *t)
}
