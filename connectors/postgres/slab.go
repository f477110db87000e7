package postgres

import "github.com/tidemark-cdc/tidemark/schema"

const slabValues = 8192

// slab hands out the rows of a batch and takes them all back at once; what it holds is
// bounded by the widest batch seen, so that in steady state nothing is allocated.
type slab struct {
	blocks [][]schema.Value
	block  int
	used   int
}

func (s *slab) reset() { s.block, s.used = 0, 0 }

// row hands out n values, all unavailable.
func (s *slab) row(n int) schema.Row {
	for s.block < len(s.blocks) {
		if b := s.blocks[s.block]; len(b)-s.used >= n {
			row := b[s.used : s.used+n : s.used+n]
			s.used += n
			clear(row)
			return row
		}
		s.block, s.used = s.block+1, 0
	}
	s.blocks = append(s.blocks, make([]schema.Value, max(n, slabValues)))
	s.used = n
	return s.blocks[s.block][:n:n]
}
