package postgres

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/schema"
)

// retryRetirement is how long after an attempt that failed the next one is made.
const retryRetirement = 30 * time.Second

// retirement takes removed tables out of the publication, once no replay comes to a place before their removal: the server would
// decode that without them. It also keeps changes of the set apart, which go by way of ChangeTables, from one another.
type retirement struct {
	set    settings
	status *status
	log    *slog.Logger
	from   pgoutput.LSN  // end of the log when the source was opened: what was written before may add a table again
	busy   chan struct{} // held while publication or set are changed
	wake   chan struct{}

	mu      sync.Mutex
	due     map[uint32]leaving // by OID
	added   map[string]bool    // true: added, false: removed, by messages written since the start
	version int64              // written last
}

// leaving is a table that left the set.
type leaving struct {
	name  string
	after pgoutput.LSN // boundary that must be acknowledged
}

func newRetirement(o *opening, st *status) *retirement {
	r := &retirement{set: o.set, status: st, log: o.opts.Log, from: o.server.WALFlush,
		busy: make(chan struct{}, 1), wake: make(chan struct{}, 1), due: map[uint32]leaving{}, added: map[string]bool{}}
	for _, t := range o.pub.Tables {
		if name := t.QualifiedName(); slices.Contains(o.tables.removed, name) { // a start before did not come to it
			r.put(t.OID, name, 0)
		}
	}
	return r
}

// put notes a table to be taken out.
func (r *retirement) put(oid uint32, name string, after pgoutput.LSN) {
	if r.set.publication.Mode != catalog.Filtered {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due[oid] = leaving{name, max(after, r.from)}
}

// later notes tables that left the set at a boundary.
func (r *retirement) later(left []*schema.Table, boundary pgoutput.LSN) {
	for _, t := range left {
		r.put(uint32(t.ID), t.QualifiedName(), boundary)
	}
}

// never takes tables back that joined again. Their messages are read before anything noted at the start comes due.
func (r *retirement) never(joined []*schema.Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range joined {
		delete(r.due, uint32(t.ID))
	}
}

// take keeps others from changing publication or set until give.
func (r *retirement) take(ctx context.Context) error {
	select {
	case r.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *retirement) give() { <-r.busy }

// want notes what a message is about to change.
func (r *retirement) want(add, remove []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range add {
		r.added[name] = true
	}
	for _, name := range remove {
		r.added[name] = false
	}
}

// wants reports whether a message was written that adds the table, and none since that removes it.
func (r *retirement) wants(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.added[name]
}

// nextVersion is the version of the next message.
func (r *retirement) nextVersion(current int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = max(r.version, current) + 1
	return r.version
}

// look has the tables looked at whose time may have come. It does not block.
func (r *retirement) look() {
	if r == nil {
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// ready are the tables whose removal is acknowledged. One that was added again stays.
func (r *retirement) ready() map[uint32]string {
	acked := pgoutput.LSN(r.status.acked.Load())
	r.mu.Lock()
	defer r.mu.Unlock()
	var out map[uint32]string
	for oid, l := range r.due {
		switch {
		case r.added[l.name]:
			delete(r.due, oid)
		case acked >= l.after:
			if out == nil {
				out = map[uint32]string{}
			}
			out[oid] = l.name
		}
	}
	return out
}

// run takes tables out until ctx ends.
func (r *retirement) run(ctx context.Context) {
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			if retry != nil {
				continue
			}
		case <-retry:
			retry = nil
		}
		if len(r.ready()) == 0 {
			continue
		}
		if r.take(ctx) != nil {
			return
		}
		if err := r.drop(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("a removed table stays in the publication for now; its changes are decoded and left out", "reason", err)
			retry = time.After(retryRetirement)
		}
		r.give()
	}
}

// drop takes the tables out that are ready; what cannot be taken out by us, or not now, is told.
func (r *retirement) drop(ctx context.Context) error {
	ready := r.ready()
	if len(ready) == 0 {
		return nil
	}
	conn, err := catalog.Connect(ctx, r.set.conn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	stay, err := catalog.ShrinkPublication(ctx, conn, r.set.publication, r.set.slot, slices.Collect(maps.Keys(ready)))
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Values(ready))
	if stay != "" {
		r.log.Warn("removed tables stay in the publication; their changes are decoded and left out", "tables", names, "reason", stay)
	} else {
		r.log.Info("removed tables left the publication", "tables", names)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for oid := range ready {
		delete(r.due, oid)
	}
	return nil
}
