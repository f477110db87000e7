package snapshot

import (
	"sync"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// mostFlying is how many rows of chunks may be on their way to Kafka before another chunk follows. What the stream hands out
// waits behind them: it bounds the latency that a snapshot adds, and is more than Kafka takes in one round.
const mostFlying = 16 << 10

// flight counts the rows of chunks that were handed out and are not committed. Batches are told apart by the memory of their
// boundaries, which the pipeline acknowledges as they were handed out.
type flight struct {
	mu   sync.Mutex
	out  []flying
	rows int
}

type flying struct {
	boundary *offsets.Field
	rows     int
}

// leaves notes a batch that closes at a boundary of its own, with rows of chunks or of the stream (0).
func (f *flight) leaves(b *connectors.Batch, rows int) {
	if len(b.Boundary) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if rows == 0 && f.rows == 0 {
		return
	}
	f.out = append(f.out, flying{&b.Boundary[0], rows})
	f.rows += rows
}

// lands notes that everything up to a boundary is committed; it reports whether rows of chunks are among it.
func (f *flight) lands(boundary offsets.Object) bool {
	if len(boundary) == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.rows
	for i := range f.out {
		if f.out[i].boundary != &boundary[0] {
			continue
		}
		for _, b := range f.out[:i+1] {
			f.rows -= b.rows
		}
		f.out = append(f.out[:0], f.out[i+1:]...)
		break
	}
	if f.rows == 0 {
		f.out = f.out[:0]
	}
	return f.rows < before
}

// full reports whether the next chunk waits.
func (f *flight) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rows >= mostFlying
}
