package pipeline

import (
	"context"
	"sync"
)

// pool hands out chunks within the memory budget. One goroutine acquires; any releases.
type pool struct {
	chunkBytes, budget int
	freed              chan struct{} // holds a token after a release

	mu    sync.Mutex
	free  []*Chunk
	inUse int // bytes charged
	peak  int // highest inUse
}

func newPool(budget, chunkBytes int) *pool {
	return &pool{chunkBytes: chunkBytes, budget: budget, freed: make(chan struct{}, 1)}
}

// acquire returns an empty chunk, waiting until the budget allows one more.
func (p *pool) acquire(ctx context.Context) (*Chunk, error) {
	for {
		if c := p.try(); c != nil {
			return c, nil
		}
		select {
		case <-p.freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *pool) try() *Chunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inUse > 0 && p.inUse+p.chunkBytes > p.budget {
		return nil
	}
	var c *Chunk
	if n := len(p.free); n > 0 {
		c, p.free = p.free[n-1], p.free[:n-1]
	} else {
		n := p.chunkBytes / recordCost
		c = &Chunk{Records: make([]Record, 0, n), Headers: make([]Header, 0, 4*n), Buf: make([]byte, 0, p.chunkBytes/4), release: p.release}
	}
	c.charged = p.chunkBytes
	p.inUse += c.charged
	p.peak = max(p.peak, p.inUse)
	return c
}

// charge accounts for a chunk that one large record has made larger than a chunk.
func (p *pool) charge(c *Chunk) {
	more := c.Size() - c.charged
	if more <= 0 {
		return
	}
	p.mu.Lock()
	c.charged += more
	p.inUse += more
	p.peak = max(p.peak, p.inUse)
	p.mu.Unlock()
}

func (p *pool) release(c *Chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.charged == 0 {
		return // released twice
	}
	p.inUse -= c.charged
	c.charged = 0
	clear(c.Entries)
	c.Reset()
	if cap(c.Buf) <= 2*p.chunkBytes { // one large record must not keep its memory
		p.free = append(p.free, c)
	}
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// mark remembers how far a chunk is filled.
type mark struct{ records, headers, buf, entries int }

func (c *Chunk) mark() mark {
	return mark{len(c.Records), len(c.Headers), len(c.Buf), len(c.Entries)}
}

func (c *Chunk) truncate(m mark) {
	c.Records, c.Headers, c.Buf, c.Entries = c.Records[:m.records], c.Headers[:m.headers], c.Buf[:m.buf], c.Entries[:m.entries]
}
