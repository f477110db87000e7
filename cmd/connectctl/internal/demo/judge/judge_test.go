package judge

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// stream is a log of three transactions and the records that a right pipeline makes of it: an update of
// the hot row twice in one transaction, and a delete with its tombstone.
func stream() (*Log, []Record) {
	log := &Log{Changes: map[Position]Change{}, Transactions: 3}
	var records []Record
	add := func(lsn pgoutput.LSN, seq int64, table string, op byte) {
		at := Position{lsn, seq}
		log.Changes[at] = Change{table, op}
		records = append(records, Record{Topic: "p." + table, Gen: 1, Position: at, Change: Change{table, op}})
	}
	add(100, 0, "orders", 'c')
	add(100, 1, "orders", 'c')
	add(200, 0, "hot", 'u')
	add(200, 1, "hot", 'u')
	add(300, 0, "orders", 'd')
	tomb := records[len(records)-1]
	tomb.Tombstone = true
	return log, append(records, tomb)
}

func judge(log *Log, records []Record) Counts {
	t := NewTally(log)
	for _, r := range records {
		t.Add(r)
		if r.Change.Table == "hot" && !r.Tombstone {
			t.AddHot(r, r.Position.Seq+1)
		}
	}
	c := t.Verdict()
	c.Examples = nil
	return c
}

func TestVerdict(t *testing.T) {
	good := Counts{Changes: 5, Transactions: 3, Tombstones: 1, HotPositions: 1, DedupLatest: 2}
	with := func(f func(*Counts)) Counts { c := good; f(&c); return c }
	for name, tc := range map[string]struct {
		spoil func([]Record) []Record
		want  Counts
	}{
		"right": {func(r []Record) []Record { return r }, good},
		"lost": {func(r []Record) []Record { return append(r[:1:1], r[2:]...) },
			with(func(c *Counts) { c.Changes, c.Lost = 4, 1 })},
		"lost transaction": {func(r []Record) []Record { return r[2:] },
			with(func(c *Counts) { c.Changes, c.Transactions, c.Lost = 3, 2, 2 })},
		"duplicated": {func(r []Record) []Record { return append(append(r[:2:2], r[1]), r[2:]...) },
			with(func(c *Counts) { c.Changes, c.Duplicated, c.OrderViolations = 6, 1, 1 })},
		"duplicated in another partition": {func(r []Record) []Record {
			d := r[0]
			d.Partition = 1
			return append(r, d)
		}, with(func(c *Counts) { c.Changes, c.Duplicated = 6, 1 })},
		"duplicated under a later generation": {func(r []Record) []Record {
			d := r[0]
			d.Gen = 2
			return append(r, d)
		}, with(func(c *Counts) { c.Changes, c.Duplicated = 6, 1 })},
		"swapped": {func(r []Record) []Record { r[0], r[1] = r[1], r[0]; return r },
			with(func(c *Counts) { c.OrderViolations = 1 })},
		"wrong operation": {func(r []Record) []Record { r[0].Change.Op = 'u'; return r },
			with(func(c *Counts) { c.Lost, c.Duplicated = 1, 1 })},
		"wrong table": {func(r []Record) []Record { r[4].Change.Table = "hot"; r[4].Topic = "p.hot"; return r },
			with(func(c *Counts) { c.Lost, c.Duplicated, c.DedupLatest = 1, 1, 1 })},
		"invented": {func(r []Record) []Record {
			d := r[4]
			d.Position.Seq = 9
			return append(r, d)
		}, with(func(c *Counts) { c.Changes, c.Duplicated = 6, 1 })},
		"hot row torn apart": {func(r []Record) []Record { r[3].Position.LSN += 5; return r },
			with(func(c *Counts) {
				c.Transactions, c.HotPositions, c.Lost, c.Duplicated = 4, 2, 1, 1
			})},
	} {
		log, records := stream()
		got := judge(log, tc.spoil(records))
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if got.Clean() != (name == "right") {
			t.Errorf("%s: clean is %t", name, got.Clean())
		}
	}
}

func TestHeaders(t *testing.T) {
	right := map[string]string{"__pos": `{"lsn":"1/2A"}`, "__seq": "7", "__gen": "3", "__op": "u", "other": "x"}
	for spoilt, value := range map[string]string{"": "", "__pos": `{"lsn":"1-2"}`, "__seq": "x", "__gen": "", "__op": "uu"} {
		var h headers
		for k, v := range right {
			if k == spoilt {
				v = value
			}
			h.add(k, []byte(v))
		}
		var r Record
		err := h.parse(&r)
		if (err != nil) != (spoilt != "") {
			t.Errorf("spoilt %q: %v", spoilt, err)
		}
		if want := (Record{Gen: 3, Position: Position{1<<32 + 0x2A, 7}, Change: Change{Op: 'u'}}); spoilt == "" && r != want {
			t.Errorf("got %+v", r)
		}
	}
	var h headers
	h.add("__seq", []byte("1"))
	h.add("__seq", []byte("1"))
	if h.parse(&Record{}) == nil {
		t.Error("a header that appears twice was taken")
	}
}
