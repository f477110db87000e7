package values

import "github.com/tidemark-cdc/tidemark/schema"

const (
	arenaBytes = 64 << 10
	arenaElems = 1024
)

// Arena holds what decoders must make: unescaped bytes and array elements. Memory handed out
// stays valid until Reset, which keeps the storage: in steady state nothing is allocated.
// It is not safe for concurrent use.
type Arena struct {
	blocks  [][]byte
	block   int
	used    int
	elems   [][]schema.Value
	elem    int
	elemUse int
	scratch []schema.Value
	build   []byte // for a value whose length is not known before

	// NonFinite counts the numbers that a decimal cannot hold and that became null
	// (Options.NonFiniteNull). Reset leaves it.
	NonFinite int64
}

// Reset takes back everything handed out. Blocks grown for one oversized value are dropped.
func (a *Arena) Reset() {
	a.blocks = keepUsual(a.blocks, arenaBytes)
	a.elems = keepUsual(a.elems, arenaElems)
	a.block, a.used, a.elem, a.elemUse = 0, 0, 0, 0
	if cap(a.build) > arenaBytes {
		a.build = nil
	}
}

func keepUsual[T any](blocks [][]T, size int) [][]T {
	kept := blocks[:0]
	for _, b := range blocks {
		if len(b) == size && len(kept) < 64 {
			kept = append(kept, b)
		}
	}
	for i := len(kept); i < len(blocks); i++ {
		blocks[i] = nil
	}
	return kept
}

// Bytes hands out n bytes, not zeroed.
func (a *Arena) Bytes(n int) []byte {
	for a.block < len(a.blocks) {
		if b := a.blocks[a.block]; len(b)-a.used >= n {
			out := b[a.used : a.used+n : a.used+n]
			a.used += n
			return out
		}
		a.block, a.used = a.block+1, 0
	}
	a.blocks = append(a.blocks, make([]byte, max(n, arenaBytes)))
	a.used = n
	return a.blocks[a.block][:n:n]
}

// keep hands out a copy of built bytes and takes them back as scratch.
func (a *Arena) keep(built []byte) []byte {
	a.build = built[:0]
	return append(a.Bytes(len(built))[:0], built...)
}

// values hands out n array elements, not zeroed.
func (a *Arena) values(n int) []schema.Value {
	for a.elem < len(a.elems) {
		if b := a.elems[a.elem]; len(b)-a.elemUse >= n {
			out := b[a.elemUse : a.elemUse+n : a.elemUse+n]
			a.elemUse += n
			return out
		}
		a.elem, a.elemUse = a.elem+1, 0
	}
	a.elems = append(a.elems, make([]schema.Value, max(n, arenaElems)))
	a.elemUse = n
	return a.elems[a.elem][:n:n]
}
