package postgres

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// silentAfter is how long a server may leave a question open before a state says so.
const silentAfter = 30 * time.Second

// silence notices a server that does not answer, though its machine does: a process that is stopped, a proxy in between that
// is stuck, a transaction that takes long to decode. The last may end well, so nothing is cut; it is only told.
type silence struct {
	reading atomic.Bool  // the reader waits for bytes, so that their absence is not its own
	heard   atomic.Int64 // when some came last, nanoseconds since the Unix epoch

	since time.Time // when an open question was first seen; zero: there is none
	told  bool
}

// wait calls read, which waits for bytes.
func (q *silence) wait(read func() error) error {
	q.reading.Store(true)
	err := read()
	q.reading.Store(false)
	if err == nil {
		q.heard.Store(time.Now().UnixNano())
	}
	return err
}

// look is called at every heartbeat, by one goroutine, with whether the question of the last one is open. It tells whether
// the server is silent, and whether that is new.
func (q *silence) look(now time.Time, open bool) (silent, changed bool) {
	switch {
	case !open, !q.told && !q.reading.Load(): // once it is told, a reader that does something else proves nothing
		q.since = time.Time{}
	case q.since.IsZero() || q.heard.Load() > q.since.UnixNano():
		q.since = now
	}
	silent = !q.since.IsZero() && now.Sub(q.since) >= silentAfter
	changed = silent != q.told
	q.told = silent
	return silent, changed
}

// listen reports when the server falls silent, and when it speaks again.
func (s *stream) listen() {
	switch silent, changed := s.silence.look(time.Now(), s.status.asked.Load()); {
	case !changed:
	case silent:
		s.opts.Report(connectors.State{Name: "WAITING", Reason: fmt.Sprintf("PostgreSQL at %s has sent nothing for %s on the replication connection, though it was asked: it decodes a long transaction, its walsender is stopped, or the connection is stuck",
			s.wire.conn.RemoteAddr(), silentAfter)})
	default:
		s.opts.Report(connectors.State{Name: "RUNNING"})
	}
}
