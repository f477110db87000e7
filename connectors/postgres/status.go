package postgres

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

const (
	replyGap     = 50 * time.Millisecond // at most 20 replies a second, whatever the server asks
	unixToY2K    = 946_684_800 * 1_000_000
	statusLength = 1 + 4 + 1 + 8 + 8 + 8 + 8 + 1
)

// status sends standby status updates. Its fields are shared with the reader and with Ack.
type status struct {
	acked    atomic.Uint64 // published and recorded: what the server may forget
	received atomic.Uint64 // read from the stream
	emitted  atomic.Uint64 // last boundary handed out by Next that the pipeline does not put off
	asked    atomic.Bool   // a keepalive was asked for while the stream was at rest

	nonFinite atomic.Int64 // numbers of the stream published as null
	readNull  atomic.Int64 // those of rows that were read

	wake chan struct{} // a reply is due
	ping atomic.Bool   // the next update asks for a keepalive

	mu   sync.Mutex // writes to conn
	conn net.Conn
	buf  [statusLength]byte
}

func newStatus(conn net.Conn, acked, emitted pgoutput.LSN) *status {
	s := &status{conn: conn, wake: make(chan struct{}, 1)}
	s.acked.Store(uint64(acked))
	s.received.Store(uint64(acked))
	s.emitted.Store(uint64(emitted))
	return s
}

// atRest reports whether everything handed out was published, lazy boundaries aside: they carry
// nothing, and a boundary of a stream at rest covers them.
func (s *status) atRest() bool { return s.acked.Load() >= s.emitted.Load() }

// ack moves the acknowledged position forward and has it sent.
func (s *status) ack(lsn pgoutput.LSN) {
	for {
		old := s.acked.Load()
		if uint64(lsn) <= old {
			return
		}
		if s.acked.CompareAndSwap(old, uint64(lsn)) {
			s.reply()
			return
		}
	}
}

// reply has an update sent soon; it does not block.
func (s *status) reply() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// askKeepalive has the server tell its WAL end, for the boundary of a stream at rest.
func (s *status) askKeepalive() {
	if s.atRest() {
		s.asked.Store(true)
		s.ping.Store(true)
		s.reply()
	}
}

// run sends updates until stop is closed: when asked, when the position moved, and at the interval.
func (s *status) run(stop <-chan struct{}, interval time.Duration) {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-s.wake:
		case <-timer.C:
		}
		if s.send() != nil {
			return // the reader meets the same error
		}
		timer.Reset(interval)
		gap := time.NewTimer(replyGap)
		select {
		case <-stop:
			gap.Stop()
			return
		case <-gap.C:
		}
	}
}

// send writes one update: Byte1('r'), Int64 written, Int64 flushed, Int64 applied, Int64 clock
// (microseconds since 2000-01-01), Byte1 reply requested, in a CopyData message.
func (s *status) send() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	acked := s.acked.Load()
	b := append(s.buf[:0], 'd')
	b = binary.BigEndian.AppendUint32(b, statusLength-1)
	b = append(b, 'r')
	b = binary.BigEndian.AppendUint64(b, max(acked, s.received.Load()))
	b = binary.BigEndian.AppendUint64(b, acked)
	b = binary.BigEndian.AppendUint64(b, acked)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMicro()-unixToY2K))
	if s.ping.Swap(false) {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	_, err := s.conn.Write(b)
	return err
}

// bye sends the last position and ends the copy, so that the slot is free soon. Errors are of no
// interest: the connection is closed next.
func (s *status) bye() {
	_ = s.conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	if s.send() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.conn.Write([]byte{'c', 0, 0, 0, 4, 'X', 0, 0, 0, 4}) // CopyDone, Terminate
}
