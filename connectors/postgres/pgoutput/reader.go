package pgoutput

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// unixToY2K is the distance from the Unix epoch to PostgreSQL's, 2000-01-01
// 00:00 UTC, in microseconds.
const unixToY2K = 946_684_800 * 1_000_000

// reader reads one message front to back. The first error sticks: what follows
// reads zero values, so a decoder checks once, at its end, and before it
// allocates or loops.
type reader struct {
	src  []byte // emptied by an error
	off  int
	kind Kind
	err  *DecodeError
}

// open starts reading a message that must be of kind want.
func open(src []byte, want Kind) reader {
	r := reader{src: src, kind: want}
	if got := r.byte("message kind"); r.err == nil && Kind(got) != want {
		r.fail(0, "message kind", fmt.Sprintf("is 0x%02x, not 0x%02x", got, byte(want)))
	}
	return r
}

// fail records the first error and makes all later reads fail at once.
func (r *reader) fail(at int, field, reason string) {
	if r.err == nil {
		r.err = &DecodeError{Kind: r.kind, Offset: at, Field: field, Reason: reason}
	}
	r.src, r.off = nil, 0
}

func (r *reader) short(field string, need int) {
	r.fail(r.off, field, fmt.Sprintf("needs %d bytes, %d left", need, len(r.src)-r.off))
}

// end returns the first error; all bytes must have been read.
func (r *reader) end() error {
	if r.err == nil && r.off != len(r.src) {
		r.fail(r.off, "end of message", fmt.Sprintf("%d bytes follow it", len(r.src)-r.off))
	}
	if r.err != nil {
		return r.err
	}
	return nil
}

func (r *reader) left() int { return len(r.src) - r.off }

func (r *reader) byte(field string) byte {
	if r.left() < 1 {
		r.short(field, 1)
		return 0
	}
	v := r.src[r.off]
	r.off++
	return v
}

func (r *reader) uint32(field string) uint32 {
	if r.left() < 4 {
		r.short(field, 4)
		return 0
	}
	v := binary.BigEndian.Uint32(r.src[r.off:])
	r.off += 4
	return v
}

func (r *reader) uint64(field string) uint64 {
	if r.left() < 8 {
		r.short(field, 8)
		return 0
	}
	v := binary.BigEndian.Uint64(r.src[r.off:])
	r.off += 8
	return v
}

// micros reads a timestamp and moves it to the Unix epoch.
func (r *reader) micros(field string) int64 {
	at := r.off
	v := int64(r.uint64(field))
	if v > math.MaxInt64-unixToY2K {
		r.fail(at, field, "is out of range")
		return 0
	}
	return v + unixToY2K
}

// count16 reads the number of items that follow directly, each of at least
// size bytes.
func (r *reader) count16(field string, size int) int {
	if r.left() < 2 {
		r.short(field, 2)
		return 0
	}
	n := int(int16(binary.BigEndian.Uint16(r.src[r.off:])))
	r.off += 2
	if !r.fits(r.off-2, field, n, size) {
		return 0
	}
	return n
}

// fits checks the count n, read at byte at: that many items of at least size
// bytes must be left.
func (r *reader) fits(at int, field string, n, size int) bool {
	switch {
	case r.err != nil:
		return false
	case n < 0:
		r.fail(at, field, fmt.Sprintf("is negative: %d", n))
		return false
	case n > r.left()/size:
		r.fail(at, field, fmt.Sprintf("is %d, needs at least %d bytes each, %d left in all", n, size, r.left()))
		return false
	}
	return true
}

// cstring reads up to a zero byte and returns what precedes it, aliasing src.
func (r *reader) cstring(field string) []byte {
	n := bytes.IndexByte(r.src[r.off:], 0)
	if n < 0 {
		r.fail(r.off, field, fmt.Sprintf("has no terminating zero in the %d bytes left", r.left()))
		return nil
	}
	s := r.src[r.off : r.off+n : r.off+n]
	r.off += n + 1
	return s
}

// namespace reads a schema name. The server sends the empty string for
// pg_catalog.
func (r *reader) namespace() string {
	s := r.cstring("namespace")
	if len(s) == 0 {
		return "pg_catalog"
	}
	return string(s)
}
