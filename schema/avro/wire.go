package avro

import (
	"encoding/binary"
	"fmt"
	"math"
)

// maxDepth bounds the nesting of a body of a recursive schema.
const maxDepth = 128

// reader takes values off the front of a body.
type reader struct{ buf []byte }

func (r *reader) long() (int64, error) {
	if len(r.buf) > 0 && r.buf[0] < 0x80 {
		u := r.buf[0]
		r.buf = r.buf[1:]
		return int64(u>>1) ^ -int64(u&1), nil
	}
	u, n := binary.Uvarint(r.buf)
	if n <= 0 {
		return 0, fmt.Errorf("%w: an integer is cut off or longer than 64 bits", ErrMalformed)
	}
	r.buf = r.buf[n:]
	return int64(u>>1) ^ -int64(u&1), nil
}

func (r *reader) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(r.buf)) {
		return nil, fmt.Errorf("%w: a value of %d bytes where %d are left", ErrMalformed, n, len(r.buf))
	}
	b := r.buf[:n:n]
	r.buf = r.buf[n:]
	return b, nil
}

func (r *reader) bytes() ([]byte, error) {
	n, err := r.long()
	if err != nil {
		return nil, err
	}
	return r.take(n)
}

func (r *reader) branch(union *node) (*node, error) {
	i, err := r.index(len(union.nodes))
	if err != nil {
		return nil, err
	}
	return union.nodes[i], nil
}

// index reads the number of a union's branch or an enum's symbol.
func (r *reader) index(count int) (int64, error) {
	i, err := r.long()
	if err == nil && (i < 0 || i >= int64(count)) {
		err = fmt.Errorf("%w: branch or symbol %d of %d", ErrMalformed, i, count)
	}
	return i, err
}

// block reads the header of a block of an array or map: its count, 0 at the end. A count
// above the bytes left is refused, so that items without bytes cannot make a reader spin.
func (r *reader) block() (int64, error) {
	n, err := r.long()
	if err != nil || n == 0 {
		return 0, err
	}
	if n < 0 {
		if _, err := r.long(); err != nil {
			return 0, err
		}
		n = -n
	}
	if n < 0 || n > int64(len(r.buf)) {
		return 0, fmt.Errorf("%w: a block of %d items where %d bytes are left", ErrMalformed, n, len(r.buf))
	}
	return n, nil
}

// items calls each for every item of an array or map.
func (r *reader) items(each func() error) error {
	for {
		n, err := r.block()
		if err != nil || n == 0 {
			return err
		}
		for ; n > 0; n-- {
			if err := each(); err != nil {
				return err
			}
		}
	}
}

func (n *node) skip(r *reader, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%w: nested deeper than %d", ErrMalformed, maxDepth)
	}
	var err error
	switch n.kind {
	case nodeNull:
	case nodeBoolean:
		_, err = r.take(1)
	case nodeInt, nodeLong, nodeEnum:
		_, err = r.long()
	case nodeFloat:
		_, err = r.take(4)
	case nodeDouble:
		_, err = r.take(8)
	case nodeBytes, nodeString:
		_, err = r.bytes()
	case nodeFixed:
		_, err = r.take(int64(n.size))
	case nodeRecord:
		for _, f := range n.nodes {
			if err = f.skip(r, depth+1); err != nil {
				return err
			}
		}
	case nodeUnion:
		var b *node
		if b, err = r.branch(n); err == nil {
			err = b.skip(r, depth+1)
		}
	case nodeArray, nodeMap:
		err = r.items(func() error {
			if n.kind == nodeMap {
				if _, err := r.bytes(); err != nil {
					return err
				}
			}
			return n.nodes[0].skip(r, depth+1)
		})
	}
	return err
}

func (r *reader) float32() (float32, error) {
	b, err := r.take(4)
	if err != nil {
		return 0, err
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(b)), nil
}

func (r *reader) float64() (float64, error) {
	b, err := r.take(8)
	if err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}
