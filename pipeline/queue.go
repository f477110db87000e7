package pipeline

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-cdc/tidemark/offsets"
)

// item is a chunk on its way from reader to committer.
type item struct {
	chunk      *Chunk         // nil: a boundary alone
	end        bool           // its last record ends a source transaction: a commit may follow
	full       bool           // the reader appends nothing more to the chunk
	huge       bool           // part of a source transaction that takes a Kafka transaction of its own
	boundary   offsets.Object // where end
	txs        int            // source transactions that end in it
	sourceTime int64          // commit time of the last of them
}

// queue holds what was read and not yet written. Its length is bounded by the pool: an item
// without a chunk only ever follows one with, or stands alone.
//
// The last item, where it ends a transaction and has room, may be taken back by the reader to
// append the next one. A lazy boundary is newer than all that was taken and older than all that is queued.
type queue struct {
	active atomic.Int64  // batches read; tells idle from busy
	wake   chan struct{} // holds a token after a change the committer may wait for

	mu        sync.Mutex
	items     []item
	lazy      offsets.Object
	lazySince time.Time
	eager     bool // the committer waits for anything, not only for what is full
	closed    bool
	err       error
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// push appends items; the items of one source transaction that is not huge are pushed together.
func (q *queue) push(items ...item) {
	q.mu.Lock()
	q.items = append(q.items, items...)
	last := items[len(items)-1]
	if last.end {
		q.lazy = nil
	}
	if last.full || last.huge || q.eager {
		q.signal()
	}
	q.mu.Unlock()
}

// reopen takes the last item back if something may be appended to its chunk.
func (q *queue) reopen() (item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.items)
	if n == 0 {
		return item{}, false
	}
	it := q.items[n-1]
	if it.full || it.huge || !it.end {
		return item{}, false
	}
	q.items[n-1] = item{}
	q.items = q.items[:n-1]
	return it, true
}

// advance records a boundary with nothing to publish before it. It joins what is queued; alone,
// it waits for company if lazy.
func (q *queue) advance(b offsets.Object, lazy bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch n := len(q.items); {
	case n > 0: // between transactions the last item always ends one
		q.items[n-1].boundary = b
	case lazy:
		if q.lazy == nil {
			q.lazySince = time.Now()
			q.signal()
		}
		q.lazy = b
	default:
		q.lazy = nil
		q.items = append(q.items, item{end: true, full: true, boundary: b})
		q.signal()
	}
}

// take returns the oldest items that belong together: a part of a huge transaction, or whole
// transactions up to an end. Without all, the last chunk is left while it may still be filled.
func (q *queue) take(dst []item, all bool) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, it := range q.items {
		if !it.end && !it.huge {
			continue
		}
		if !all && !it.full && !it.huge && i == len(q.items)-1 {
			return nil
		}
		dst = append(dst[:0], q.items[:i+1]...)
		rest := copy(q.items, q.items[i+1:])
		clear(q.items[rest:])
		q.items = q.items[:rest]
		return dst
	}
	return nil
}

// waiting tells the committer what there is; eager asks for a token at the next push of any kind.
func (q *queue) waiting(eager bool) (s status) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.eager = eager
	s.closed = q.closed
	for i := range q.items {
		if q.items[i].end || q.items[i].huge {
			s.ready = true
		}
		s.sourceTime = max(s.sourceTime, q.items[i].sourceTime)
		if q.items[i].chunk != nil {
			s.records += len(q.items[i].chunk.Records)
		}
	}
	if q.lazy != nil {
		s.lazy, s.lazySince = true, q.lazySince
	}
	return s
}

type status struct {
	ready      bool // take(all) returns something
	records    int
	sourceTime int64 // commit time of the newest transaction, microseconds since the Unix epoch
	closed     bool
	lazy       bool
	lazySince  time.Time
}

// takeLazy returns the waiting lazy boundary, if any.
func (q *queue) takeLazy() offsets.Object {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.lazy
	q.lazy = nil
	return b
}

// close ends the queue with the reader's error; what is queued remains to be taken.
func (q *queue) close(err error) {
	q.mu.Lock()
	q.closed, q.err = true, err
	q.signal()
	q.mu.Unlock()
}
