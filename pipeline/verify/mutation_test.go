package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// history is a stream that is right: keyed rows over two partitions, a key that changes, a TOAST column, a truncate, a keyless
// table, snapshot rows, and the ENDs of its transactions.
type history struct {
	records []*Record
	rows    []Row // of records, by index
	ends    []End
	tables  map[string]Table
}

// text is "a=1 b=- c": a value, null, and a column that was not carried.
func image(text string) (row map[string]Text, unavailable map[string]bool) {
	if text == "" {
		return nil, nil
	}
	row, unavailable = map[string]Text{}, map[string]bool{}
	for part := range strings.FieldsSeq(text) {
		name, value, carried := strings.Cut(part, "=")
		switch {
		case !carried:
			row[name], unavailable[name] = nil, true
		case value == "-":
			row[name] = nil
		default:
			row[name] = &value
		}
	}
	return row, unavailable
}

func (h *history) add(topic string, n int32, lsn uint64, seq int64, op byte, key, before, after string) *Record {
	r := &Record{Topic: topic, Partition: n, Offset: int64(len(h.records)), Value: []byte{0}, Key: []byte(key)}
	if key == "" {
		r.Key = nil
	}
	r.Meta = Meta{Position: Position{1, [3]uint64{0, 0, lsn}, seq}, Pos: fmt.Sprint(lsn), Op: op}
	var row Row
	row.Before, _ = image(before)
	row.After, row.Unavailable = image(after)
	h.records, h.rows = append(h.records, r), append(h.rows, row)
	return r
}

func (h *history) tombstone() {
	r := *h.records[len(h.records)-1]
	r.Value, r.Tombstone, r.Offset = nil, true, r.Offset+1
	h.records, h.rows = append(h.records, &r), append(h.rows, Row{})
}

func (h *history) end(lsn uint64, events int64, tables map[string]int64) {
	h.ends = append(h.ends, End{1, [3]uint64{0, 0, lsn}, events, tables})
}

func right() *history {
	h := &history{}
	h.add("t", 0, 10, 0, 'c', "1", "", "id=1 v=a big=x") // 0
	h.add("t", 1, 10, 1, 'c', "2", "", "id=2 v=b big=y")
	h.end(10, 2, map[string]int64{"t": 2})
	h.add("t", 0, 20, 0, 'u', "1", "id=1 v=a big=x", "id=1 v=c big") // 2
	h.end(20, 1, map[string]int64{"t": 1})
	h.add("t", 1, 30, 0, 'd', "2", "id=2 v=b big=y", "") // 3, 4
	h.tombstone()
	h.add("t", 0, 30, 1, 'c', "3", "", "id=3 v=b big").OldKey = []byte("2") // 5
	h.end(30, 2, map[string]int64{"t": 2})
	h.add("k", 0, 40, 0, 'c', "", "", "v=a") // 6
	h.add("k", 0, 40, 1, 'c', "", "", "v=a")
	h.add("k", 0, 40, 2, 'd', "", "v=a", "") // 8
	h.end(40, 3, map[string]int64{"k": 3})
	h.add("s", 0, 50, 0, 'c', "1", "", "id=1") // 9
	h.add("s", 0, 50, 1, 't', "", "", "")      // 10
	h.add("s", 1, 50, 1, 't', "", "", "")      // 11
	h.end(50, 2, map[string]int64{"s": 2})
	h.add("s", 0, 50, SnapshotSeq, 'r', "7", "", "id=7") // 12
	h.add("s", 1, 50, SnapshotSeq+1, 'r', "8", "", "id=8")
	one, a, b, c, x, y, three, seven, eight := "1", "a", "b", "c", "x", "y", "3", "7", "8"
	h.tables = map[string]Table{
		"t": {[]string{"id", "v", "big"}, [][]Text{{&three, &b, &y}, {&one, &c, &x}}},
		"k": {[]string{"v"}, [][]Text{{&a}}},
		"s": {[]string{"id"}, [][]Text{{&seven}, {&eight}}},
	}
	return h
}

// judge runs every validator and returns what each found, by its name.
func (h *history) judge() map[string][]Violation {
	rows := map[*Record]Row{}
	for i, r := range h.records {
		rows[r] = h.rows[i]
	}
	decode := func(r *Record) (Row, error) { return rows[r], nil }
	gaps := &Gaps{Whole: true}
	for _, e := range h.ends {
		gaps.Ended(e)
	}
	all := map[string]Validator{
		"order": &Order{}, "tombstones": &Tombstones{}, "once": &Once{Partitions: map[string]int{"t": 2, "s": 2, "k": 1}}, "snapshots": &Snapshots{},
		"chain": &Chain{Decode: decode}, "fingerprint": &Fingerprint{Decode: decode, Tables: h.tables}, "gaps": gaps,
	}
	found := map[string][]Violation{}
	for name, v := range all {
		active := Only(func(g int64) bool { return g != 9 }, v)
		for _, r := range h.records {
			active.Record(r)
		}
		if vs := active.End(); len(vs) > 0 {
			found[name] = vs
		}
	}
	return found
}

func (h *history) drop(i int) {
	h.records, h.rows = slices.Delete(h.records, i, i+1), slices.Delete(h.rows, i, i+1)
}

func (h *history) again(i, at int) *Record {
	r := *h.records[i]
	h.records, h.rows = slices.Insert(h.records, at, &r), slices.Insert(h.rows, at, h.rows[i])
	return &r
}

func (h *history) swap(i, j int) {
	h.records[i], h.records[j] = h.records[j], h.records[i]
	h.rows[i], h.rows[j] = h.rows[j], h.rows[i]
}

func TestValidatorsObjectToABrokenHistory(t *testing.T) {
	text := func(s string) Text { return &s }
	for _, c := range []struct {
		name  string
		spoil func(*history)
		by    string // the validators that must object, and no other
	}{
		{"right", func(*history) {}, ""},
		{"a record of an inactive generation", func(h *history) { h.again(2, 0).Generation = 9 }, ""},
		{"lost create", func(h *history) { h.drop(0) }, "gaps"},
		{"lost update", func(h *history) { h.drop(2) }, "fingerprint gaps"},
		{"lost last snapshot row", func(h *history) { h.drop(13) }, "fingerprint"},
		{"lost update between two", func(h *history) {
			h.rows[2].Before["v"] = text("z")
		}, "chain"},
		{"lost delete and tombstone", func(h *history) { h.drop(3); h.drop(3) }, "fingerprint gaps"},
		{"lost transaction with its END", func(h *history) { h.drop(2); h.ends = slices.Delete(h.ends, 1, 2) }, "fingerprint"},
		{"repeated at once", func(h *history) { h.again(2, 3) }, "order chain gaps"},
		{"repeated later", func(h *history) { h.again(0, len(h.records)) }, "order chain gaps"},
		{"repeated in another partition", func(h *history) { h.again(2, 3).Partition = 1 }, "once gaps"},
		{"repeated under another generation", func(h *history) { h.again(7, 9).Generation = 2 }, "fingerprint gaps"},
		{"swapped", func(h *history) { h.swap(6, 7) }, "order"},
		{"another generation in between", func(h *history) { h.records[0].Generation = 2 }, "order fingerprint gaps"},
		{"tombstone missing", func(h *history) { h.drop(4) }, "tombstones"},
		{"tombstone alone", func(h *history) { h.drop(3) }, "tombstones gaps"},
		{"tombstone of another key", func(h *history) { h.records[4].Key = []byte("1") }, "tombstones fingerprint"},
		{"tombstone twice", func(h *history) { h.again(4, 5) }, "tombstones"},
		{"tombstone of another pair", func(h *history) { h.records[4].Seq = 5 }, "tombstones"},
		{"wrong before-image", func(h *history) { h.rows[3].Before["v"] = text("z") }, "chain"},
		{"wrong after-image", func(h *history) { h.rows[5].After["v"] = text("z") }, "fingerprint"},
		{"absent value as null", func(h *history) { delete(h.rows[2].Unavailable, "big") }, "fingerprint"},
		{"create of a row that is there", func(h *history) { h.records[2].Op = 'c' }, "chain"},
		{"update of a deleted row", func(h *history) {
			h.records[5].Key, h.records[5].Partition, h.records[5].Op = []byte("2"), 1, 'u'
		}, "chain"},
		{"END one too many", func(h *history) { h.ends[0].Events++ }, "gaps"},
		{"END one too few", func(h *history) { h.ends[2].Events-- }, "gaps"},
		{"END's tables mixed up", func(h *history) { h.ends[3].Tables = map[string]int64{"k": 2, "t": 1} }, "gaps"},
		{"END missing", func(h *history) { h.ends = h.ends[1:] }, "gaps"},
		{"END twice", func(h *history) { h.ends = append(h.ends, h.ends[1]) }, "gaps"},
		{"END without records", func(h *history) { h.end(99, 1, nil) }, "gaps"},
		{"truncate missing in a partition", func(h *history) { h.drop(11) }, "once"},
		{"truncate with two pairs", func(h *history) { h.records[11].Seq = 2 }, "once gaps"},
		{"truncate missing", func(h *history) { h.drop(10); h.drop(10) }, "fingerprint gaps"},
		{"truncate too late", func(h *history) { h.swap(10, 12) }, "order"},
		{"snapshot row with a change's ordinal", func(h *history) { h.records[12].Seq = 2 }, "snapshots"},
		{"change with a snapshot row's ordinal", func(h *history) { h.records[8].Seq = SnapshotSeq }, "snapshots"},
		{"keyless row deleted twice", func(h *history) { h.rows[7], h.records[7].Op = Row{Before: h.rows[7].After}, 'd' }, "fingerprint"},
		{"row of the table that no record has", func(h *history) {
			k := h.tables["k"]
			k.Rows = append(k.Rows, []Text{nil})
			h.tables["k"] = k
		}, "fingerprint"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := right()
			c.spoil(h)
			found := h.judge()
			var by []string
			for _, name := range []string{"order", "tombstones", "once", "snapshots", "chain", "fingerprint", "gaps"} {
				if len(found[name]) > 0 {
					by = append(by, name)
				}
			}
			if got := strings.Join(by, " "); got != c.by {
				t.Errorf("objected to by %q, want %q: %v", got, c.by, found)
			}
		})
	}
}

// Rows without a key may be there more often than in the table where their snapshot was interrupted, never less often, and only there.
func TestRowsReadAgain(t *testing.T) {
	a, b := "a", "b"
	judge := func(again bool, rows ...string) int {
		h := &history{tables: map[string]Table{"k": {[]string{"v"}, [][]Text{{&a}, {&b}, {&b}}}}}
		byRecord := map[*Record]Row{}
		v := &Fingerprint{Decode: func(r *Record) (Row, error) { return byRecord[r], nil }, Tables: h.tables}
		if again {
			v.AtLeastOnce = func(topic string) bool { return topic == "k" }
		}
		for i, row := range rows {
			r := h.add("k", 0, 10, SnapshotSeq+int64(i), 'r', "", "", "v="+row)
			byRecord[r] = h.rows[i]
			v.Record(r)
		}
		return len(v.End())
	}
	for _, c := range []struct {
		again bool
		rows  string
		found int
	}{
		{false, "a b b", 0}, {false, "a a b b", 1}, {false, "a b", 1},
		{true, "a b b", 0}, {true, "b a b a b", 0}, {true, "a a b", 1}, {true, "b b", 1},
	} {
		if got := judge(c.again, strings.Fields(c.rows)...); got != c.found {
			t.Errorf("rows %s, read again %v: %d violations, want %d", c.rows, c.again, got, c.found)
		}
	}
}
