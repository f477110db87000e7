package snapshot

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// window remembers streamed transactions that reads may not see yet.
type window struct {
	ring, max int
	next      uint64  // number of the next transaction
	open      *record // points to cur; nil: between transactions
	cur       record
	plain     []plain  // those that touched no table being read; the newest ring of them
	keyed     []record // those that did
	keys      int      // remembered in keyed
	floor     *connectors.Transaction
	tracked   []*table
	seen      map[*schema.Table]*table // captured tables by version; nil for others
	buf       []byte
	cand      *candidate
}

// record is a streamed transaction.
type record struct {
	tx     connectors.Transaction
	number uint64
	sets   []keyset
}

// plain is a streamed transaction of which the keys are not known or needed.
type plain struct {
	id, number uint64
	pos        string
}

func plainOf(r *record) plain {
	p := plain{id: r.tx.ID, number: r.number}
	if p.id == 0 { // the engine goes by position
		p.pos = r.tx.Pos
	}
	return p
}

func (p *plain) tx() connectors.Transaction {
	return connectors.Transaction{ID: p.id, Pos: p.pos}
}

// keyset is the keys of one table that a transaction changed; the value tells whether its last change lacks columns.
type keyset struct {
	t    *table
	all  bool
	keys map[string]bool
}

// candidate is the visibility of a read, to drop by once every read is over that began before this one ended.
type candidate struct {
	visible connectors.Visibility
	latest  uint64
}

func (w *window) init(ring, keys int) { w.ring, w.max = ring, keys }

// track begins to remember the keys of a table, from the next transaction on.
func (w *window) track(t *table) {
	w.untrack(t)
	t.from, t.floor = w.next, w.floor
	if w.open != nil {
		t.from++
	}
	w.tracked = append(w.tracked, t)
}

func (w *window) untrack(t *table) {
	for i := range w.tracked {
		if w.tracked[i] == t {
			w.tracked = append(w.tracked[:i:i], w.tracked[i+1:]...)
			break
		}
	}
	if len(w.tracked) > 0 {
		return
	}
	for _, r := range w.keyed { // their keys concern nobody any more
		w.plain = append(w.plain, plainOf(&r))
	}
	w.keyed, w.keys = nil, 0
	for len(w.plain) > w.ring {
		w.evictPlain()
	}
}

// changes remembers what a batch of the stream changes; touched tells which table is being read.
func (w *window) changes(b *connectors.Batch, touched func(*connectors.Batch, *connectors.Change) *table) {
	if len(b.Changes) == 0 {
		return
	}
	if w.open == nil {
		w.cur = record{tx: b.Tx, number: w.next}
		w.open = &w.cur
	}
	if len(w.tracked) == 0 {
		return
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Op == connectors.OpMessage {
			continue
		}
		if t := touched(b, c); t != nil {
			w.change(w.open.set(t), c)
		}
	}
	if w.keys > w.max {
		w.shrink()
	}
}

func (r *record) set(t *table) *keyset {
	for i := range r.sets {
		if r.sets[i].t == t {
			return &r.sets[i]
		}
	}
	r.sets = append(r.sets, keyset{t: t})
	return &r.sets[len(r.sets)-1]
}

func (w *window) change(k *keyset, c *connectors.Change) {
	switch c.Op {
	case connectors.OpTruncate:
		w.whole(k)
	case connectors.OpDelete:
		w.key(k, c.Table, c.Before, false)
		w.key(k, c.Table, c.NewKey, false)
	default:
		w.key(k, c.Table, c.Before, false)
		w.key(k, c.Table, c.OldKey, false)
		w.key(k, c.Table, c.After, incomplete(c.After))
	}
}

func (w *window) key(k *keyset, def *schema.Table, row schema.Row, lacks bool) {
	if row == nil || k.all {
		return
	}
	var ok bool
	if w.buf, ok = appendKey(w.buf[:0], def, row); !ok {
		return // an old image without the key: it is that of After
	}
	if before, ok := k.keys[string(w.buf)]; ok {
		if before != lacks {
			k.keys[string(w.buf)] = lacks
		}
		return
	}
	if len(k.keys) >= w.max/4 {
		w.whole(k)
		return
	}
	if k.keys == nil {
		k.keys = map[string]bool{}
	}
	k.keys[string(w.buf)] = lacks
	w.keys++
}

// whole makes it all keys of the table.
func (w *window) whole(k *keyset) {
	w.keys -= len(k.keys)
	k.all, k.keys = true, nil
}

// end closes the transaction that was handed out.
func (w *window) end() {
	r := w.open
	if r == nil {
		return
	}
	w.open = nil
	w.next++
	if len(r.sets) > 0 {
		w.keyed = append(w.keyed, *r)
		if len(w.keyed) > w.max/4 {
			w.evict()
		}
		return
	}
	if w.plain = append(w.plain, plainOf(r)); len(w.plain) > w.ring {
		w.evictPlain()
	}
}

// shrink drops the oldest of the transactions with keys until there is room.
func (w *window) shrink() {
	for w.keys > w.max && len(w.keyed) > 0 {
		w.evict()
	}
	if w.keys > w.max && w.open != nil {
		for i := range w.open.sets {
			w.whole(&w.open.sets[i])
		}
	}
}

// evict drops the oldest transaction with keys.
func (w *window) evict() {
	r := &w.keyed[0]
	w.raise(r.tx, func(t *table) bool { return r.number < t.from || r.of(t) != nil })
	w.forget(r)
	w.keyed[0] = record{}
	w.keyed = w.keyed[1:]
}

// evictPlain drops the oldest of the others.
func (w *window) evictPlain() {
	p := w.plain[0]
	w.raise(p.tx(), func(t *table) bool { return p.number < t.from })
	w.plain = w.plain[1:]
}

// raise has tables that a transaction concerns need it settled from here on, and tables that begin to be read later.
func (w *window) raise(tx connectors.Transaction, concerns func(*table) bool) {
	for _, t := range w.tracked {
		if concerns(t) {
			t.floor = higher(t.floor, tx)
		}
	}
	w.floor = higher(w.floor, tx)
}

func (w *window) forget(r *record) {
	for i := range r.sets {
		w.keys -= len(r.sets[i].keys)
	}
}

func (r *record) of(t *table) *keyset {
	for i := range r.sets {
		if r.sets[i].t == t {
			return &r.sets[i]
		}
	}
	return nil
}

// higher returns the transaction whose settling settles both.
func higher(a *connectors.Transaction, b connectors.Transaction) *connectors.Transaction {
	if a != nil && a.ID > b.ID {
		return a
	}
	return &b
}

// judge tells whether a chunk of a table counts, and the keys that were changed unseen, with what their last change lacks.
func (w *window) judge(t *table, v connectors.Visibility) (changed map[string]bool, why string) {
	if ok, waits := v.Above(); !ok {
		return nil, waits
	}
	if t.floor != nil && !v.Settled(t.floor) {
		return nil, fmt.Sprintf("transactions up to %d are in the log, and not all of them are known to be visible", t.floor.ID)
	}
	for i := range w.plain {
		if p := &w.plain[i]; p.number < t.from {
			if tx := p.tx(); !v.Sees(&tx) {
				return nil, unseen(&tx)
			}
		}
	}
	for i := range w.keyed {
		r := &w.keyed[i]
		k := r.of(t)
		if r.number >= t.from && k == nil || v.Sees(&r.tx) {
			continue
		}
		if r.number < t.from || k.all {
			return nil, unseen(&r.tx)
		}
		if changed == nil {
			changed = make(map[string]bool, len(k.keys))
		}
		for key, lacks := range k.keys {
			changed[key] = lacks
		}
	}
	return changed, ""
}

func unseen(tx *connectors.Transaction) string {
	return fmt.Sprintf("transaction %d %s is in the log and not yet visible", tx.ID, tx.Pos)
}

// settle drops what every later read sees, where no read is under way that is older than the candidate, and no result waits
// that does not see it.
func (w *window) settle(oldest uint64, waiting []connectors.Visibility) {
	if w.cand == nil || oldest <= w.cand.latest {
		return
	}
	v := w.cand.visible
	w.cand = nil
	gone := func(tx *connectors.Transaction) bool {
		if !v.Sees(tx) && !v.Settled(tx) {
			return false
		}
		for _, other := range waiting {
			if !other.Sees(tx) {
				return false
			}
		}
		return true
	}
	w.plain = slices.DeleteFunc(w.plain, func(p plain) bool { tx := p.tx(); return gone(&tx) })
	w.keyed = slices.DeleteFunc(w.keyed, func(r record) bool {
		if !gone(&r.tx) {
			return false
		}
		w.forget(&r)
		return true
	})
}

// appendKey appends a row's key, exactly; false where a column of it is not there.
func appendKey(dst []byte, def *schema.Table, row schema.Row) ([]byte, bool) {
	for _, k := range def.Key {
		if row[k].Kind == schema.KindUnavailable {
			return dst, false
		}
		dst = appendValue(dst, &row[k])
	}
	return dst, true
}

func appendValue(dst []byte, v *schema.Value) []byte {
	dst = append(dst, byte(v.Kind))
	dst = binary.AppendVarint(dst, v.Num)
	dst = binary.AppendUvarint(dst, uint64(len(v.Bytes)))
	dst = append(dst, v.Bytes...)
	dst = binary.AppendUvarint(dst, uint64(len(v.Elems)))
	for i := range v.Elems {
		dst = appendValue(dst, &v.Elems[i])
	}
	return dst
}
