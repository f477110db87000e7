package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

const (
	checkInterval = time.Minute // between two looks at the catalogue for drift
	shutdownGrace = time.Second // for a last boundary while the server shuts down
	reasonWait    = 200 * time.Millisecond
	maxMerged     = 1000                // empty transactions merged into one boundary
	xlogHeader    = 25                  // Byte1('w'), Int64 start, Int64 end, Int64 clock
	postgresEpoch = 946_684_800_000_000 // 2000-01-01 in microseconds since the Unix epoch
	keepaliveSize = 18                  // Byte1('k'), Int64 end, Int64 clock, Byte1 reply requested
)

// stream is an open source. next runs on the caller's goroutine, status and sentinel have their own.
type stream struct {
	set      settings
	opts     Options
	position catalog.Position // as of the last boundary handed out
	lastPos  string           // __pos of the last transaction before it, empty before the first
	woken    bool             // a boundary is wanted, whatever it is
	captured *captured
	bounds   *bounds
	haste    haste
	wire     *wire
	asm      *assembler
	plans    *planner
	status   *status
	sentinel *sentinel
	silence  silence
	view     *tableView
	retire   *retirement

	started bool
	failed  error // sticky: the same bytes are not read twice
	mu      sync.Mutex
	watched <-chan struct{} // of the caller's context
	unwatch func() bool

	event    atomic.Bool // one of those below is set
	checkDue atomic.Bool
	actDue   atomic.Bool
	wakeDue  atomic.Bool
	stopping atomic.Bool // the server is shutting down

	cancel    context.CancelFunc
	stop      chan struct{}
	closeOnce sync.Once
	group     sync.WaitGroup
}

// newStream starts the goroutines of a stream whose copy has begun. It takes over the connections.
func newStream(o *opening, conn net.Conn, plans *planner, look *live) *stream {
	pos := o.decision.Position
	acked := min(pos.AckedLSN, pos.BoundaryLSN)
	s := &stream{
		set: o.set, opts: o.opts, position: pos, plans: plans,
		wire:     newWire(conn, o.opts.MaxBatchBytes),
		asm:      newAssembler(plans, pos.BoundaryLSN, o.server.NextXID),
		status:   newStatus(conn, acked, pos.BoundaryLSN),
		sentinel: newSentinel(o.sql),
		view:     &tableView{},
		stop:     make(chan struct{}),
		unwatch:  func() bool { return true },
	}
	look.run = s.sentinel.do
	s.asm.rules, s.asm.server = o.set.rules, o.opts.Server
	plans.publication = s.readPublication
	s.view.show(plans)
	s.retire = newRetirement(o, s.status)
	s.wire.limit, s.asm.reselect = o.set.maxMessage, o.set.reselect
	s.asm.highest = pos.HighestXID
	s.captured, s.bounds = newCaptured(plans), newBounds(o)
	s.asm.captured, s.asm.bounds = s.captured, s.bounds
	s.haste.reached.Store(uint64(pos.BoundaryLSN))
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	interval := s.set.status
	if t := o.server.WalSenderTimeout / 3; t > 0 && t < interval {
		interval = t
	}
	s.group.Go(func() { s.status.run(s.stop, interval) })
	s.group.Go(func() { s.sentinel.run(ctx) })
	s.group.Go(s.watch)
	s.group.Go(func() { s.retire.run(ctx) })
	s.group.Go(func() { s.haste.run(s.stop, s.status.askKeepalive) })
	return s
}

// watch tells the reader what time or the sentinel bring.
func (s *stream) watch() {
	beat, check := time.NewTicker(s.set.heartbeat), time.NewTicker(checkInterval)
	defer beat.Stop()
	defer check.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-beat.C:
			s.listen()
			s.status.askKeepalive()
			if s.set.action != "" {
				s.wake(&s.actDue)
			}
		case <-check.C:
			s.wake(&s.checkDue)
		case <-s.sentinel.ended:
			s.catalogueEnded()
			return
		}
	}
}

// catalogueEnded gives a server that shuts down a last boundary, which it waits for, then lets go of it.
func (s *stream) catalogueEnded() {
	if shuttingDown(s.sentinel.err) {
		s.stopping.Store(true)
		s.status.askKeepalive()
		select {
		case <-s.stop:
			return
		case <-time.After(shutdownGrace):
		}
	}
	_ = s.wire.conn.Close()
}

// wake makes a reader that is blocked on the socket look at its events.
func (s *stream) wake(flag *atomic.Bool) {
	flag.Store(true)
	s.event.Store(true)
	_ = s.wire.conn.SetReadDeadline(time.Unix(1, 0))
}

// close ends the goroutines; a blocked next returns.
func (s *stream) close() {
	s.closeOnce.Do(func() {
		close(s.stop)
		s.status.bye()
		_ = s.wire.conn.Close()
		s.cancel()
		s.mu.Lock()
		s.unwatch()
		s.mu.Unlock()
	})
	s.group.Wait()
}

// next returns the next batch; an error is final for this stream.
func (s *stream) next(ctx context.Context) (connectors.Batch, error) {
	if s.failed != nil {
		return connectors.Batch{}, s.failed
	}
	if !s.started {
		// What Open returned is recorded by now, so it may be acknowledged.
		s.started = true
		s.status.ack(s.position.BoundaryLSN)
	}
	s.follow(ctx)
	b, err := s.batch(ctx)
	if err != nil {
		s.failed = s.explain(ctx, err)
		return connectors.Batch{}, s.failed
	}
	return b, nil
}

// follow has the end of ctx wake the reader; callers give the same context each time.
func (s *stream) follow(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done := ctx.Done(); done != s.watched {
		s.unwatch()
		s.watched = done
		s.unwatch = context.AfterFunc(ctx, func() { s.wake(new(atomic.Bool)) })
	}
}

// explain turns what the reader met into the reason a person can act on.
func (s *stream) explain(ctx context.Context, err error) error {
	select {
	case <-s.stop:
		return errClosed
	default:
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case connectors.ClassOf(err) != connectors.ClassWait:
		return err
	case s.stopping.Load():
		return connectors.WithClass(connectors.ClassWait, errShutdown)
	}
	// The server's reason may come over the other connection, a moment later.
	select {
	case <-s.sentinel.ended:
		if shuttingDown(s.sentinel.err) {
			return connectors.WithClass(connectors.ClassWait, errShutdown)
		}
		return fmt.Errorf("the connection to the server was lost: %w", s.sentinel.err)
	case <-time.After(reasonWait):
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the server ended the replication connection: %w", err)
	}
	return err
}

// batch reads messages until there is something to hand out.
func (s *stream) batch(ctx context.Context) (connectors.Batch, error) {
	a := s.asm
	a.reset()
	merged, bytes := 0, 0
	var empty connectors.Transaction // the last of those merged
	for {
		kind, body, ok, err := s.wire.frame()
		if err != nil {
			goesOn, err := s.oversized(err)
			if err != nil {
				return connectors.Batch{}, err
			}
			if goesOn {
				continue
			}
		}
		if !ok {
			if len(a.changes) == 0 && (merged > 0 || (s.woken && !a.inTx)) {
				return s.boundary(empty, true), nil
			}
			room, err := s.wire.prepare(len(a.changes) > 0)
			if err != nil {
				return connectors.Batch{}, connectors.Block(err)
			}
			if !room {
				return s.handOut(ctx, s.part())
			}
			if err := s.read(ctx); err != nil {
				return connectors.Batch{}, err
			}
			continue
		}
		bytes += len(body)
		result, idle, err := s.frame(ctx, kind, body)
		switch {
		case err != nil:
			return connectors.Batch{}, err
		case idle:
			return s.idle(), nil
		case result == stepCommit:
			return s.handOut(ctx, s.committed())
		case result == stepEmpty && (a.set != nil || len(a.markers) > 0 || (s.opts.EachTransaction && a.tx.ID != 0)):
			return s.boundary(a.tx, false), nil
		case result == stepEmpty:
			empty = a.tx
			if merged++; merged >= maxMerged {
				return s.boundary(empty, true), nil
			}
		case len(a.changes) >= s.opts.MaxBatchChanges || len(a.incomplete) >= maxReselect || (len(a.changes) > 0 && bytes >= s.opts.MaxBatchBytes):
			return s.handOut(ctx, s.part())
		}
	}
}

// read looks at events, then blocks for bytes.
func (s *stream) read(ctx context.Context) error {
	if err := s.events(ctx); err != nil {
		return err
	}
	err := s.silence.wait(func() error { return s.wire.fill(s.asm.inTx) })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// The deadline first, the flags second: an event in between sets it again.
		if err := s.wire.conn.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		return s.events(ctx)
	}
	if err != nil {
		return streamError(s.set.slot, s.set.publication.Name, err)
	}
	return nil
}

// events handles what was flagged since the last look.
func (s *stream) events(ctx context.Context) error {
	if !s.event.Swap(false) {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.checkDue.Swap(false) {
		if err := s.checkCatalogue(ctx); err != nil {
			return err
		}
	}
	if s.wakeDue.Swap(false) {
		s.woken = true
	}
	if s.actDue.Swap(false) {
		err := s.sentinel.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, s.set.action)
			return err
		})
		if err != nil {
			s.opts.Log.Warn("heartbeat.action.query did not run", "error", err)
		}
	}
	return nil
}

// frame takes one protocol message. idle tells that a stream at rest has a new boundary.
func (s *stream) frame(ctx context.Context, kind byte, body []byte) (result step, idle bool, err error) {
	switch kind {
	case 'd':
		return s.copyData(ctx, body)
	case 'E':
		return stepMore, false, streamError(s.set.slot, s.set.publication.Name, serverError(body))
	case 'N':
		if lostChanges(body) {
			return stepMore, false, connectors.Block(publicationYounger(s.set.publication.Name))
		}
		return stepMore, false, nil
	case 'c', 'C', 'Z':
		return stepMore, false, io.EOF
	case 'S', 'A':
		return stepMore, false, nil
	}
	return stepMore, false, fmt.Errorf("read replication stream: unexpected message kind %q", kind)
}

func (s *stream) copyData(ctx context.Context, body []byte) (step, bool, error) {
	switch {
	case len(body) >= xlogHeader && body[0] == 'w':
		s.asm.lsn = binary.BigEndian.Uint64(body[1:])
		s.asm.clock = int64(binary.BigEndian.Uint64(body[17:])) + postgresEpoch
		result, err := s.asm.message(ctx, body[xlogHeader:])
		return result, false, err
	case len(body) == keepaliveSize && body[0] == 'k':
		return stepMore, s.keepalive(binary.BigEndian.Uint64(body[1:]), body[17] != 0), nil
	}
	return stepMore, false, connectors.Block(fmt.Errorf("read replication stream: unexpected copy data of %d bytes", len(body)))
}

// keepalive reports whether the server's WAL end is a boundary: the stream is at rest, and either we
// asked for it or the server waits for us to move. Every commit before it was sent before it.
func (s *stream) keepalive(end uint64, reply bool) (idle bool) {
	if end > s.status.received.Load() {
		s.status.received.Store(end)
	}
	asked := s.status.asked.Swap(false)
	if (asked || reply) && !s.asm.inTx && s.status.atRest() && end > s.status.acked.Load() {
		s.asm.end = pgoutput.LSN(end)
		return true
	}
	if reply {
		s.status.reply()
	}
	return false
}

// part hands out the changes so far of a transaction that goes on.
func (s *stream) part() connectors.Batch {
	s.status.nonFinite.Store(s.asm.arena.NonFinite)
	return connectors.Batch{Tx: s.asm.tx, Changes: s.asm.changes}
}

// committed hands out the last changes of a transaction.
func (s *stream) committed() connectors.Batch {
	s.position.Pos, s.position.PosLSN = s.asm.tx.Pos, s.asm.final
	b := s.boundary(s.asm.tx, false)
	b.Changes = s.asm.changes
	return b
}

// idle hands out the boundary of a stream at rest. The position stays that of the last transaction that
// published something: a lineage that lacks only transactions without changes of ours lacks nothing.
func (s *stream) idle() connectors.Batch { return s.boundary(connectors.Transaction{}, false) }

// boundary closes what was read up to the assembler's end.
func (s *stream) boundary(tx connectors.Transaction, lazy bool) connectors.Batch {
	end := s.asm.end
	s.status.nonFinite.Store(s.asm.arena.NonFinite)
	s.position.BoundaryLSN = max(s.position.BoundaryLSN, end)
	s.position.AckedLSN = pgoutput.LSN(s.status.acked.Load())
	s.position.HighestXID = max(s.position.HighestXID, s.asm.highest)
	if uint64(end) > s.status.received.Load() {
		s.status.received.Store(uint64(end))
	}
	s.haste.reached.Store(uint64(s.position.BoundaryLSN))
	s.woken = false
	if tx.Pos != "" {
		s.lastPos = tx.Pos
	}
	if !lazy {
		s.status.emitted.Store(uint64(s.position.BoundaryLSN))
	}
	b := connectors.Batch{
		Tx: tx, Last: true, Lazy: lazy, Boundary: s.position.Object(s.opts.Group, s.opts.Connector), Markers: s.asm.takeMarkers(),
	}
	s.closeSet(&b)
	return b
}
