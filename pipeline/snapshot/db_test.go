package snapshot

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"sync"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// row is a row of the scripted database, beside its id; "" for big in a change: the log lacks it.
type row struct{ v, big string }

// change is a change of a transaction in the log.
type change struct {
	op         connectors.Op
	t          int
	id         int
	row        row
	old, moved int // key change: the other key, else 0
	def        *schema.Table
}

type txn struct {
	id      uint64
	changes []change
	after   map[[2]int]*row // (table, id) → what it leaves; nil: deleted
	emptied []int           // tables it truncated
	logged  bool
	visible bool
	marker  string
	joined  []*schema.Table
	left    []*schema.Table
}

// database has two moments for a commit: it is in the log, and later it is visible.
type database struct {
	mu      sync.Mutex
	rng     *rand.Rand
	tables  []*schema.Table
	base    []map[int]row // before the log
	vis     []map[int]row // as reads see it
	cur     []map[int]row // with what is under way
	locked  []map[int]bool
	tlocked []bool
	log     []*txn
	open    []*txn // begun or in the log, not visible
	nextID  uint64
	steps   int // left of the workload
	n       int // for values
	keys    int // ids are up to this
	calm    bool
	joinAt  []int // place in the log from which on a table is captured
	noMoves bool
	altered []altered
	deny    map[string]error // tables that cannot be read
}

func newTable(name string, keyless bool) *schema.Table {
	t := &schema.Table{ID: 1, Namespace: "public", Name: name, Version: 1, Columns: []schema.Column{{Name: "id"}, {Name: "v"}, {Name: "big"}}}
	if !keyless {
		t.Key = []int{0}
	}
	return t
}

func newDatabase(seed int64, tables ...*schema.Table) *database {
	d := &database{rng: rand.New(rand.NewSource(seed)), tables: tables, nextID: 100, keys: 60}
	for range tables {
		d.base = append(d.base, map[int]row{})
		d.vis, d.cur = append(d.vis, map[int]row{}), append(d.cur, map[int]row{})
		d.locked, d.tlocked, d.joinAt = append(d.locked, map[int]bool{}), append(d.tlocked, false), append(d.joinAt, 0)
	}
	return d
}

// alter gives a table another version. It waits for everybody who has changed it, and nobody reads it meanwhile.
func (d *database) alter(t int) bool {
	for _, tx := range d.open {
		if d.tlocked[t] || slices.ContainsFunc(tx.changes, func(c change) bool { return c.t == t }) {
			return false
		}
	}
	now := *d.tables[t]
	now.Version++
	d.altered = append(d.altered, altered{t, len(d.log), d.tables[t]})
	d.tables[t] = &now
	return true
}

// altered is a version that a table had until a place in the log.
type altered struct {
	t, until int
	was      *schema.Table
}

// version is the one that a table had at a place in the log.
func (d *database) version(t, at int) *schema.Table {
	for _, a := range d.altered {
		if a.t == t && at < a.until {
			return a.was
		}
	}
	return d.tables[t]
}

func (d *database) value() string { d.n++; return "v" + strconv.Itoa(d.n) }

// fill inserts n rows in every table, visible, outside the log.
func (d *database) fill(n int) {
	for t := range d.tables {
		for range n {
			id := 1 + d.rng.Intn(d.keys)
			r := row{d.value(), d.value()}
			d.base[t][id], d.vis[t][id], d.cur[t][id] = r, r, r
		}
	}
}

// step does one random thing: begin, change, commit, become visible.
func (d *database) step() {
	if d.steps <= 0 {
		for len(d.open) > 0 {
			tx := d.open[0]
			if !tx.logged {
				d.commit(tx)
			}
			d.show(tx)
		}
		return
	}
	d.steps--
	if d.rng.Intn(20) == 0 {
		d.alter(d.rng.Intn(len(d.tables)))
	}
	switch n := d.rng.Intn(10); {
	case n < 3 || len(d.open) == 0:
		if len(d.open) < 5 {
			d.begin()
		}
	case n < 7:
		if tx := d.pick(func(tx *txn) bool { return !tx.logged }); tx != nil {
			d.change(tx)
			if d.rng.Intn(2) == 0 {
				d.commit(tx)
			}
		}
	default:
		if tx := d.pick(func(tx *txn) bool { return tx.logged }); tx != nil && d.rng.Intn(2) == 0 {
			d.show(tx)
		}
	}
}

func (d *database) pick(f func(*txn) bool) *txn {
	var of []*txn
	for _, tx := range d.open {
		if f(tx) {
			of = append(of, tx)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return of[d.rng.Intn(len(of))]
}

// join has a table captured from here on: what was open has ended.
func (d *database) join(t int) {
	for len(d.open) > 0 {
		if tx := d.open[0]; !tx.logged {
			d.commit(tx)
		}
		d.show(d.open[0])
	}
	d.nextID++
	tx := &txn{id: d.nextID, after: map[[2]int]*row{}, joined: []*schema.Table{d.tables[t]}}
	d.open = append(d.open, tx)
	d.commit(tx)
	d.joinAt[t] = len(d.log)
}

func (d *database) begin() *txn {
	d.nextID += 1 + uint64(d.rng.Intn(2))
	tx := &txn{id: d.nextID, after: map[[2]int]*row{}}
	d.open = append(d.open, tx)
	for range d.rng.Intn(4) {
		d.change(tx)
	}
	return tx
}

func (d *database) commit(tx *txn) {
	tx.logged = true
	for i := range tx.changes {
		tx.changes[i].def = d.tables[tx.changes[i].t]
	}
	d.log = append(d.log, tx)
}

func (d *database) show(tx *txn) {
	tx.visible = true
	for _, t := range tx.emptied {
		d.vis[t], d.tlocked[t] = map[int]row{}, false
	}
	for k, r := range tx.after {
		delete(d.locked[k[0]], k[1])
		if r == nil {
			delete(d.vis[k[0]], k[1])
		} else {
			d.vis[k[0]][k[1]] = *r
		}
	}
	d.open = slices.DeleteFunc(d.open, func(o *txn) bool { return o == tx })
}

// free tells that the transaction may write the row.
func (d *database) free(tx *txn, t, id int) bool {
	if d.tlocked[t] && !slices.Contains(tx.emptied, t) {
		return false
	}
	_, own := tx.after[[2]int{t, id}]
	return own || !d.locked[t][id]
}

func (d *database) write(tx *txn, t, id int, r *row) {
	d.locked[t][id] = true
	if r == nil {
		delete(d.cur[t], id)
	} else {
		own := *r
		d.cur[t][id], r = own, &own
	}
	tx.after[[2]int{t, id}] = r
}

// change makes a random change.
func (d *database) change(tx *txn) {
	t := d.rng.Intn(len(d.tables))
	if !d.calm && d.rng.Intn(6) == 0 && len(d.locked[t]) == 0 && !d.tlocked[t] {
		d.tlocked[t], d.cur[t] = true, map[int]row{}
		tx.emptied = append(tx.emptied, t)
		tx.changes = append(tx.changes, change{op: connectors.OpTruncate, t: t})
		return
	}
	id := 1 + d.rng.Intn(d.keys)
	if !d.free(tx, t, id) {
		return
	}
	r, exists := d.cur[t][id]
	keyless := len(d.tables[t].Key) == 0
	switch n := d.rng.Intn(10); {
	case !exists:
		r = row{d.value(), d.value()}
		d.write(tx, t, id, &r)
		tx.changes = append(tx.changes, change{op: connectors.OpCreate, t: t, id: id, row: r})
	case n < 2 || keyless:
		d.write(tx, t, id, nil)
		tx.changes = append(tx.changes, change{op: connectors.OpDelete, t: t, id: id, row: r})
	case n < 4 && !d.noMoves:
		to := 1 + d.rng.Intn(d.keys)
		if _, taken := d.cur[t][to]; taken || !d.free(tx, t, to) {
			return
		}
		d.write(tx, t, id, nil)
		d.write(tx, t, to, &r)
		r.big = d.lacks(r.big)
		tx.changes = append(tx.changes, change{op: connectors.OpDelete, t: t, id: id, moved: to}, change{op: connectors.OpCreate, t: t, id: to, old: id, row: r})
	default:
		r.v = d.value()
		if n == 9 {
			r.big = d.value()
		}
		d.write(tx, t, id, &r)
		if n < 9 {
			r.big = d.lacks(r.big)
		}
		tx.changes = append(tx.changes, change{op: connectors.OpUpdate, t: t, id: id, row: r})
	}
}

func (d *database) lacks(big string) string {
	if d.rng.Intn(3) > 0 {
		return ""
	}
	return big
}

// asOf returns a table as of a place in the log, from what was there before it.
func asOf(before map[int]row, log []*txn, t int) map[int]row {
	m := map[int]row{}
	for k, v := range before {
		m[k] = v
	}
	for _, tx := range log {
		if slices.Contains(tx.emptied, t) {
			m = map[int]row{}
		}
		for k, r := range tx.after {
			if k[0] != t {
				continue
			}
			if r == nil {
				delete(m, k[1])
			} else {
				m[k[1]] = *r
			}
		}
	}
	return m
}

// visibility is PostgreSQL's kind.
type visibility struct {
	xmin, xmax uint64
	running    map[uint64]bool
	highest    uint64 // decoded before the start
}

func (v *visibility) Sees(tx *connectors.Transaction) bool {
	return tx.ID < v.xmax && !v.running[tx.ID]
}
func (v *visibility) Settled(tx *connectors.Transaction) bool { return tx.ID < v.xmin }
func (v *visibility) Above() (bool, string) {
	return v.xmin > v.highest, fmt.Sprintf("waits for %d", v.xmin)
}

// snapshot is what a read sees now, and the least place where all of it is in the log.
func (d *database) snapshot() (*visibility, int) {
	v := &visibility{xmin: d.nextID + 1, xmax: d.nextID + 1, running: map[uint64]bool{}}
	for _, tx := range d.open {
		v.running[tx.id] = true
		v.xmin = min(v.xmin, tx.id)
	}
	least := 0
	for i, tx := range d.log {
		if tx.visible {
			least = i + 1
		}
	}
	return v, least
}
