package pgoutput

import "fmt"

// Message is what an application wrote to the log with
// pg_logical_emit_message.
type Message struct {
	Transactional bool
	// LSN is the end of the message's record as the server gives it, which can
	// equal the LSN of the commit that follows.
	LSN     LSN
	Prefix  []byte // aliases the input
	Content []byte // aliases the input; not nil
}

// Decode reads a Message message: M, Int8 flags (1: transactional), Int64 LSN,
// String prefix, Int32 length, content. Prefix and content alias src.
func (m *Message) Decode(src []byte) error {
	r := open(src, KindMessage)
	flags := r.byte("flags")
	if flags > 1 {
		r.fail(1, "flags", fmt.Sprintf("is 0x%02x, not 0 or 1", flags))
	}
	m.Transactional = flags == 1
	m.LSN = LSN(r.uint64("LSN"))
	m.Prefix = r.cstring("prefix")
	at := r.off
	n := int(int32(r.uint32("content length")))
	if !r.fits(at, "content length", n, 1) {
		return r.err
	}
	m.Content = r.src[r.off : r.off+n : r.off+n]
	r.off += n
	return r.end()
}
