package pipeline

import (
	"context"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// reader reads and encodes ahead of the committer. It holds back a source transaction that has
// not fully arrived, up to hold bytes; one that grows beyond becomes huge and is passed on in parts.
type reader struct {
	source connectors.Source
	enc    Encoder
	ends   TransactionEncoder // nil: transactions have no records of their own
	q      *queue
	pool   *pool
	limit  int // bytes of a chunk
	hold   int // bytes of an incomplete transaction held back

	open   bool   // a source transaction has begun
	huge   bool   // parts of it were pushed
	cur    *Chunk // chunk being filled, nil: none yet
	shared item   // what cur holds of earlier, complete transactions; its chunk is nil where cur is not shared
	start  mark   // where the transaction begins in a shared cur
	held   []item // full chunks of the transaction
	bytes  int    // their sizes
	alone  int    // source transactions that share no chunk

	activate func(*Chunk) // appends the generation's activation record and its entry
}

// run reads until an error, which is never nil. Nothing of an incomplete transaction is left behind, a huge one's parts aside.
func (r *reader) run(ctx context.Context) error {
	for {
		b, err := r.source.Next(ctx)
		if err == nil {
			r.q.active.Add(1)
			err = r.batch(ctx, &b)
		}
		if err != nil {
			r.rollback()
			return err
		}
	}
}

func (r *reader) batch(ctx context.Context, b *connectors.Batch) error {
	if !r.open {
		if b.Last && len(b.Changes) == 0 && (r.ends == nil || b.Tx.ID == 0) && !stores(b) {
			r.q.advance(b.Boundary, b.Lazy)
			return nil
		}
		r.begin(b)
	}
	for from := 0; from < len(b.Changes); {
		if r.cur == nil {
			c, err := r.pool.acquire(ctx)
			if err != nil {
				return err
			}
			r.cur = c
		}
		before := r.cur.mark()
		next, err := r.enc.Encode(ctx, r.cur, b, from, r.limit)
		if err != nil {
			if !r.reject(b, from, before, err) {
				return err
			}
			break
		}
		r.pool.charge(r.cur)
		if r.shared.chunk != nil && next < len(b.Changes) {
			if err := r.unshare(ctx); err != nil {
				return err
			}
			from = 0
			continue
		}
		if from = next; r.cur.Size() >= r.limit && r.shared.chunk == nil {
			r.rotate()
		}
	}
	if !b.Last {
		return nil
	}
	if r.ends != nil || stores(b) {
		if err := r.end(ctx, b); err != nil {
			return err
		}
	}
	r.finish(b)
	return nil
}

// reject has the snapshot fail that a batch is of whose rows from one on cannot be encoded; false where the batch is of no snapshot
// or the error may pass. Those before it stand.
func (r *reader) reject(b *connectors.Batch, from int, before mark, err error) bool {
	source, ok := r.source.(connectors.Rejecter)
	if !ok || connectors.ClassOf(err) != connectors.ClassBlock {
		return false
	}
	progress, ok := source.Reject(err)
	if !ok {
		return false
	}
	entries := append([]offsets.Entry(nil), r.cur.Entries[before.entries:]...) // the encoder gives them once
	r.cur.truncate(before)
	r.cur.Entries = append(r.cur.Entries, entries...)
	b.Changes, b.Progress, b.Activate = b.Changes[:from], progress, false
	return true
}

// stores tells that more than the boundary is stored with the batch.
func stores(b *connectors.Batch) bool {
	return len(b.Progress) > 0 || len(b.Entries) > 0 || b.Activate
}

// end appends the records that close the transaction, and what is stored with it; they may cross a chunk's limit.
func (r *reader) end(ctx context.Context, b *connectors.Batch) error {
	if r.cur == nil {
		c, err := r.pool.acquire(ctx)
		if err != nil {
			return err
		}
		r.cur = c
	}
	if r.ends != nil {
		if err := r.ends.EndTransaction(ctx, r.cur, b); err != nil {
			return err
		}
	}
	if len(b.Progress) > 0 {
		if err := r.enc.Progress(ctx, r.cur, b); err != nil {
			return err
		}
	}
	r.cur.Entries = append(r.cur.Entries, b.Entries...)
	if b.Activate {
		r.activate(r.cur)
	}
	r.pool.charge(r.cur)
	return nil
}

// begin opens a transaction. One that is complete in this batch may share the last chunk with
// earlier ones; another may not, since they must not wait for it.
func (r *reader) begin(b *connectors.Batch) {
	r.open = true
	if r.ends != nil {
		r.ends.BeginTransaction()
	}
	if !b.Last {
		return
	}
	it, ok := r.q.reopen()
	if !ok {
		return
	}
	if n := len(it.chunk.Records); n > 0 && it.chunk.Size()/n*len(b.Changes) > r.limit-it.chunk.Size() {
		it.full = true // would not fit
		r.q.push(it)
		return
	}
	r.cur, r.shared, r.start = it.chunk, it, it.chunk.mark()
}

// unshare gives a shared chunk back that the transaction has outgrown, before waiting for memory:
// the complete ones in it may go. The transaction is encoded anew into a chunk of its own.
func (r *reader) unshare(ctx context.Context) error {
	entries := append([]offsets.Entry(nil), r.cur.Entries[r.start.entries:]...)
	r.giveBack(true)
	c, err := r.pool.acquire(ctx)
	if err != nil {
		return err
	}
	c.Entries = append(c.Entries, entries...)
	r.cur = c
	if r.ends != nil {
		r.ends.BeginTransaction()
	}
	return nil
}

func (r *reader) giveBack(full bool) {
	r.cur.truncate(r.start)
	r.shared.full = r.shared.full || full
	r.q.push(r.shared)
	r.cur, r.shared = nil, item{}
}

// rotate closes the current chunk; a transaction beyond what is held back becomes huge.
func (r *reader) rotate() {
	it := item{chunk: r.cur, full: true}
	r.cur = nil
	r.bytes += it.chunk.Size()
	r.held = append(r.held, it)
	if r.huge = r.huge || r.bytes > r.hold; r.huge {
		for i := range r.held {
			r.held[i].huge = true
		}
		r.q.push(r.held...)
		clear(r.held)
		r.held = r.held[:0]
	}
}

// finish closes the transaction and makes it visible to the committer.
func (r *reader) finish(b *connectors.Batch) {
	switch {
	case r.shared.chunk != nil && r.cur.mark() == r.start, r.empty():
		r.rollback()
		r.q.advance(b.Boundary, b.Lazy)
		return
	case r.shared.chunk != nil:
		it := r.shared
		it.full = r.cur.Size() >= r.limit
		r.held = append(r.held, it)
	case r.cur != nil && r.cur.mark() == (mark{}): // the rest of it was filtered
		r.cur.Release()
	case r.cur != nil:
		r.held = append(r.held, item{chunk: r.cur, huge: r.huge, full: r.huge})
	}
	if len(r.held) == 0 { // every part was pushed before the end was known
		r.held = append(r.held, item{huge: true, full: true})
	}
	last := &r.held[len(r.held)-1]
	last.end, last.boundary, last.sourceTime = true, b.Boundary, b.Tx.CommitTime
	last.txs++
	if r.alone > 0 {
		r.alone--
		last.full = true
	}
	r.q.push(r.held...)
	r.reset()
}

// empty tells that the open transaction has nothing to publish.
func (r *reader) empty() bool {
	return r.shared.chunk == nil && !r.huge && len(r.held) == 0 && (r.cur == nil || r.cur.mark() == (mark{}))
}

// rollback drops what is held of the open transaction.
func (r *reader) rollback() {
	if r.shared.chunk != nil {
		r.giveBack(false)
	}
	if r.cur != nil {
		r.cur.Release()
	}
	for _, it := range r.held {
		it.chunk.Release()
	}
	r.reset()
}

func (r *reader) reset() {
	clear(r.held)
	r.open, r.huge, r.cur, r.shared, r.held, r.bytes = false, false, nil, item{}, r.held[:0], 0
}
