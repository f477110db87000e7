package postgres

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// Sizes of the receive buffer. It holds what the current batch aliases, so it also bounds a
// batch; one message larger than it makes it grow until that message was handed out.
const (
	defaultBuffer = 1 << 20
	minBuffer     = 64 << 10
	smallRead     = 32 << 10      // a read of less was early
	minTail       = 16 << 10      // room that is worth a read without moving the rest to the front
	maxMessage    = 1<<30 + 1<<10 // PostgreSQL allocates no message above 1 GiB
)

// wire reads protocol messages from a replication connection in place: a body it hands out lies
// in its buffer and stays there until prepare is called with pinned false.
type wire struct {
	conn net.Conn
	buf  []byte
	r, w int // unread bytes are buf[r:w]
	size int // usual length of buf
	last int // bytes of the last read

	limit   int // largest message taken, with its header
	discard int // bytes to pass over before the next message
}

func newWire(conn net.Conn, size int) *wire {
	size = max(size, minBuffer)
	return &wire{conn: conn, buf: make([]byte, size), size: size, limit: maxMessage}
}

// frame returns the next whole message of the buffer: its kind and its body.
// It returns false where more bytes are needed.
func (s *wire) frame() (kind byte, body []byte, ok bool, err error) {
	if s.discard > 0 {
		n := min(s.discard, s.w-s.r)
		s.r, s.discard = s.r+n, s.discard-n
	}
	if s.w-s.r < 5 {
		return 0, nil, false, nil
	}
	n, err := s.need()
	if err != nil || s.w-s.r < n {
		return 0, nil, false, err
	}
	kind, body = s.buf[s.r], s.buf[s.r+5:s.r+n:s.r+n]
	s.r += n
	return kind, body, true, nil
}

// need is the length of the next message with its header, 5 while that is unknown.
func (s *wire) need() (int, error) {
	if s.w-s.r < 5 {
		return 5, nil
	}
	n := int64(binary.BigEndian.Uint32(s.buf[s.r+1:]))
	if n < 4 || n > maxMessage {
		return 0, fmt.Errorf("read replication stream: a message of kind 0x%02x has the length %d", s.buf[s.r], n)
	}
	if n >= int64(s.limit) {
		if s.w-s.r < oversizeHead {
			return oversizeHead, nil
		}
		return 0, &oversizeError{size: int(n) + 1, head: s.buf[s.r : s.r+oversizeHead]}
	}
	return int(n) + 1, nil
}

// prepare makes room for a read. With pinned set nothing may move: it returns false where there is no
// room without, and the caller hands out what it has first.
func (s *wire) prepare(pinned bool) (bool, error) {
	need, err := s.need()
	if err != nil {
		return false, err
	}
	if pinned {
		return s.r+need <= len(s.buf) && s.w < len(s.buf), nil
	}
	rest := s.buf[s.r:s.w]
	switch {
	case need > len(s.buf):
		s.buf = make([]byte, need+minTail)
		s.r, s.w = 0, copy(s.buf, rest)
	case len(s.buf) > s.size && max(need, len(rest)) < s.size:
		s.buf = make([]byte, s.size)
		s.r, s.w = 0, copy(s.buf, rest)
	case s.r > 0 && (len(rest) == 0 || s.r+need > len(s.buf) || len(s.buf)-s.w < minTail):
		s.r, s.w = 0, copy(s.buf, rest)
	}
	return true, nil
}

// fill reads once from the connection, after prepare. more tells that the server is in the middle of
// a transaction: it sends row by row, and a reader that is woken for each of them costs both sides most of their time, so
// after a small read it lets some come together.
func (s *wire) fill(more bool) error {
	if more && s.last < smallRead {
		rest()
	}
	n, err := s.conn.Read(s.buf[s.w:])
	s.w, s.last = s.w+n, n
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}
