package snapshot

import (
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// streamed hands a transaction with one change of the table to the window.
func streamed(w *window, t *table, id uint64, c connectors.Change) {
	b := connectors.Batch{Tx: connectors.Transaction{ID: id}, Changes: []connectors.Change{c}, Last: true}
	w.changes(&b, func(*connectors.Batch, *connectors.Change) *table { return t })
	w.end()
}

func insert(t *table, id int64) connectors.Change {
	return connectors.Change{Op: connectors.OpCreate, Table: t.def, After: schema.Row{schema.Int(id), {}, {}}}
}

func sees(ids ...uint64) *visibility {
	v := &visibility{xmin: 1, xmax: 1 << 40, running: map[uint64]bool{}}
	for _, id := range ids {
		v.running[id] = true
	}
	if len(ids) > 0 {
		v.xmin = ids[0]
	} else {
		v.xmin = v.xmax
	}
	return v
}

// TestWindowKeepsWhatOlderReadsNeed: a transaction that one read has seen is kept while another is under way that began before, or
// waits and has not seen it.
func TestWindowKeepsWhatOlderReadsNeed(t *testing.T) {
	var w window
	w.init(100, 100)
	tab := &table{name: "a", def: newTable("a", false)}
	w.track(tab)
	streamed(&w, tab, 10, insert(tab, 1))
	old := sees(10)
	held := func(when string, want bool) {
		t.Helper()
		changed, why := w.judge(tab, old)
		if why != "" || (len(changed) == 1) != want {
			t.Errorf("%s: changed %v, %s; kept should be %v", when, changed, why, want)
		}
	}
	w.cand = &candidate{sees(), 5}
	w.settle(4, nil)
	held("while read 4 is under way and 5 was the last to begin", true)
	w.settle(6, []connectors.Visibility{old})
	held("while its result waits", true)
	w.cand = &candidate{sees(), 6}
	w.settle(7, nil)
	held("after that", false)
	if w.keys != 0 || len(w.keyed) != 0 {
		t.Errorf("%d keys of %d transactions are left", w.keys, len(w.keyed))
	}
}

// TestWindowBounds: whatever is dropped for want of room, a chunk that may not have seen it does not count; a table is not held up by what
// came after it began and does not concern it.
func TestWindowBounds(t *testing.T) {
	var w window
	w.init(4, 40)
	a, b := &table{name: "a", def: newTable("a", false)}, &table{name: "b", def: newTable("b", false)}
	for id := uint64(1); id <= 10; id++ {
		streamed(&w, nil, id, insert(a, int64(id)))
	}
	w.track(a)
	if _, why := w.judge(a, sees(3)); why == "" {
		t.Error("a chunk counts that does not see transaction 3, which was dropped")
	}
	if _, why := w.judge(a, sees(9)); why == "" {
		t.Error("a chunk counts that does not see transaction 9, streamed before the table began")
	}
	if _, why := w.judge(a, sees()); why != "" {
		t.Error("a chunk that sees everything does not count: ", why)
	}
	for id := uint64(50); id < 90; id++ {
		streamed(&w, nil, id, insert(a, int64(id)))
	}
	if _, why := w.judge(a, sees(60)); why != "" {
		t.Error("a table waits for what began after it and does not concern it: ", why)
	}
	w.track(b)
	for id := uint64(100); id < 300; id++ {
		streamed(&w, b, id, insert(b, int64(id)))
	}
	if w.keys > 40 {
		t.Errorf("%d keys are kept", w.keys)
	}
	if _, why := w.judge(a, sees(150)); why != "" {
		t.Error("a table waits for transactions of another: ", why)
	}
	if _, why := w.judge(b, sees(150)); why == "" {
		t.Error("a chunk counts that does not see transaction 150, whose keys were dropped")
	}
	big := connectors.Batch{Tx: connectors.Transaction{ID: 400}}
	for i := range 200 {
		big.Changes = append(big.Changes, insert(b, int64(i)))
	}
	w.changes(&big, func(*connectors.Batch, *connectors.Change) *table { return b })
	w.end()
	if _, why := w.judge(b, sees(400)); why == "" || w.keys > 40 {
		t.Errorf("a chunk counts that does not see a transaction of too many keys; %d are kept", w.keys)
	}
}

// TestTruncateIsEveryKey: a chunk that was read before a TRUNCATE and published after it would bring rows back.
func TestTruncateIsEveryKey(t *testing.T) {
	var w window
	w.init(10, 100)
	a := &table{name: "a", def: newTable("a", false)}
	w.track(a)
	streamed(&w, a, 5, connectors.Change{Op: connectors.OpTruncate, Table: a.def})
	if _, why := w.judge(a, sees(5)); why == "" {
		t.Error("a chunk that does not see the TRUNCATE counts")
	}
	if changed, why := w.judge(a, sees()); why != "" || len(changed) != 0 {
		t.Errorf("a chunk that sees it: changed %v, %s", changed, why)
	}
}

// TestMovedKeyIsWaitedFor: a row that an update moved behind what was read, while the log lacks a column of it, is read under its new key, also
// where that is not visible for long.
func TestMovedKeyIsWaitedFor(t *testing.T) {
	d := still(6, "a", "b")
	tx := d.begin()
	r := d.cur[0][1]
	tx.changes, tx.after = nil, map[[2]int]*row{}
	d.write(tx, 0, 1, nil)
	d.write(tx, 0, 9, &r)
	r.big = ""
	tx.changes = []change{{op: connectors.OpDelete, t: 0, id: 1, moved: 9}, {op: connectors.OpCreate, t: 0, id: 9, old: 1, row: r}}
	d.commit(tx)
	p := newTopic(t, d)
	f := newFake(d)
	f.quiet = true
	waits := 0
	cfg := small()
	cfg.ChunkSize = 100
	cfg.Report = func(s connectors.State) {}
	p.life(cfg, f, 0, func(s *Source) bool {
		s.mu.Lock()
		waits = int(s.number)
		s.mu.Unlock()
		d.mu.Lock()
		if waits > 8 && !tx.visible {
			d.show(tx)
		}
		d.mu.Unlock()
		return p.done(s)
	})
	p.commit()
	p.check("at the end")
	if have := p.view()["public.a"][9]; have.big == "?" || have.big == "" {
		t.Errorf("row 9 is %v", have)
	}
}
