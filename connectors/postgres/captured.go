package postgres

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-cdc/tidemark/schema"
)

// captured are the versions of the captured tables that the stream is at, for readers on goroutines of their own.
type captured struct {
	mu     sync.RWMutex
	tables map[string]*schema.Table // by qualified name
	read   map[string]*schema.Table // versions that the catalogue had when rows were read, where they are others
}

func newCaptured(plans *planner) *captured {
	c := &captured{tables: map[string]*schema.Table{}, read: map[string]*schema.Table{}}
	for _, k := range plans.tables {
		c.put(k.table)
	}
	return c
}

// put makes t the table's version; nil is none.
func (c *captured) put(t *schema.Table) {
	if c == nil || t == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tables[t.QualifiedName()] = t
}

// remove forgets a table that is captured no longer.
func (c *captured) remove(name string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tables, name)
}

// get returns nil for a table that is not captured.
func (c *captured) get(name string) *schema.Table {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tables[name]
}

// adopt returns the version that t is equal to: the stream's, or one that was read before; else t becomes the newest read.
func (c *captured) adopt(t *schema.Table) *schema.Table {
	name := t.QualifiedName()
	c.mu.Lock()
	defer c.mu.Unlock()
	stream, read := c.tables[name], c.read[name]
	switch {
	case stream == nil:
	case t == stream, sameTable(stream, t):
		return stream
	case read != nil && read.Version <= stream.Version: // an older one, though it may be alike
		read = nil
	}
	if read != nil && (t == read || sameTable(read, t)) {
		return read
	}
	if stream != nil {
		own := *t
		own.Version = stream.Version + 1
		t = &own
	}
	c.read[name] = t
	return t
}

// bounds are the transaction ids up to which a transaction can be in the log before the place where the stream began to read a
// table, and not yet visible: its rows are in no change that is still to come, so a read counts only once it sees them all.
type bounds struct {
	mu      sync.Mutex
	stored  uint64            // highest id decoded before the source was opened; 0: not known
	known   map[string]bool   // tables that the stream read before, and rows of them under these bounds
	fresh   map[string]uint64 // of the others: the highest id given out at a moment after the stream began to read them
	settled uint64            // up to here every transaction of the database is visible
}

func newBounds(o *opening) *bounds {
	b := &bounds{known: map[string]bool{}, fresh: map[string]uint64{}}
	if o.position != nil {
		b.stored = o.decision.Position.HighestXID
	}
	for name, state := range o.states {
		// No read of a table counted yet that has just joined, or whose part of the exported snapshot did not come to its end.
		begun := !state.Snapshot.Open() || state.Snapshot.After != ""
		b.known[name] = b.stored > 0 && begun
	}
	return b
}

// passed notes a transaction that was published before and is passed over.
func (b *bounds) passed(id uint64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stored = max(b.stored, id)
}

// given notes the highest id given out until now, for a table that of finds no bound for.
func (b *bounds) given(table string, highest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fresh[table] = highest
}

// raise has reads of a table count only once they see every transaction that began before now: those that changed it before
// the server began to publish it have changes that are not in the log, and ids that were never decoded.
func (b *bounds) raise(table string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, table)
	delete(b.fresh, table)
}

// of returns the highest id that matters to a table, and whether all up to it are visible. found is false where the id is not
// known: it is then one that was given out by now.
func (b *bounds) of(table string) (highest uint64, settled, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	highest, found = b.stored, true
	if !b.known[table] {
		var fresh uint64
		fresh, found = b.fresh[table]
		highest = max(highest, fresh)
	}
	return highest, found && highest <= b.settled, found
}

// settle notes that every transaction of the database up to highest is visible.
func (b *bounds) settle(highest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settled = max(b.settled, highest)
}

// hasteInterval is how often a keepalive is asked for while somebody waits for a place in the log.
const hasteInterval = 100 * time.Millisecond

// haste makes a quiet stream reach a place sooner than its heartbeat would.
type haste struct {
	wanted  atomic.Uint64 // LSN that somebody waits for
	reached atomic.Uint64 // last boundary handed out
	once    sync.Once
	news    chan struct{}
}

func (h *haste) channel() chan struct{} {
	h.once.Do(func() { h.news = make(chan struct{}, 1) })
	return h.news
}

// want has the stream hurry up to lsn.
func (h *haste) want(lsn uint64) {
	for {
		old := h.wanted.Load()
		if lsn <= old {
			return
		}
		if h.wanted.CompareAndSwap(old, lsn) {
			break
		}
	}
	select {
	case h.channel() <- struct{}{}:
	default:
	}
}

// run asks at an interval, only while the place is not reached: each question costs the server one answer, never more.
func (h *haste) run(stop <-chan struct{}, ask func()) {
	for {
		select {
		case <-stop:
			return
		case <-h.channel():
		}
		tick := time.NewTicker(hasteInterval)
		for h.wanted.Load() > h.reached.Load() {
			ask()
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
		tick.Stop()
	}
}
