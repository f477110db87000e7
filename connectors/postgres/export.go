package postgres

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/schema"
)

const (
	exportRows       = 2048    // most rows handed out at once
	exportBytes      = 1 << 20 // beyond so many bytes of rows they are handed out
	exportRangePages = 8192    // pages of a table that are read at once, 64 MiB
	exportLock       = 10 * time.Second
	exportBuffers    = 2 // for each worker: one is filled while one is looked at
)

// export is the content of the captured tables in the snapshot that was exported with the slot. Workers, a connection each, read
// ranges of tables in it and decode them; Next hands out what they have.
//
// A table is locked only while it is read. What ALTER TABLE or TRUNCATE made of it before that is told by its file, which
// is another one then: the snapshot sees an empty table there. Such a table fails, and is read by chunks.
type export struct {
	position string
	readTime int64
	tables   []*exportTable

	workers []*exportWorker
	out     chan exported
	free    chan *exportBuffer
	stop    chan struct{}
	once    sync.Once
	group   sync.WaitGroup
	queue   *exportQueue

	nonFinite *atomic.Int64 // where numbers published as null are counted
	handed    *exportBuffer // what the last Next gave
	begun     bool
}

// exportTable is a table of an export.
type exportTable struct {
	table    *schema.Table
	plan     *relation
	columns  string // those captured, quoted, in the plan's order
	where    string // row filter of the publication, empty: none
	override string // statement that selects the rows, empty: none
	rows     int64  // estimate, -1: unknown
	parts    []*exportPart

	// under the queue's lock
	open   int  // parts that are not read
	failed bool // its error was or is being handed out

	gone bool // of Next: its error was handed out
}

// exported is what a worker hands over.
type exported struct {
	t    *exportTable
	buf  *exportBuffer // nil: no rows
	last bool
	err  error
}

var _ connectors.Exported = (*export)(nil)

func newExport(point pgoutput.LSN, workers []*exportWorker, readTime int64) *export {
	e := &export{
		position: catalog.FormatPos(point - 1), readTime: readTime, workers: workers,
		out:   make(chan exported, len(workers)*exportBuffers),
		free:  make(chan *exportBuffer, len(workers)*exportBuffers+1),
		stop:  make(chan struct{}),
		queue: newExportQueue(),
	}
	for range cap(e.free) {
		e.free <- &exportBuffer{}
	}
	return e
}

// Tables implements connectors.Exported.
func (e *export) Tables() []connectors.ExportedTable {
	out := make([]connectors.ExportedTable, len(e.tables))
	for i, t := range e.tables {
		out[i] = connectors.ExportedTable{Table: t.table, Rows: t.rows}
	}
	return out
}

// Position implements connectors.Exported: the place before the consistent point, which the first commit of the stream may have.
func (e *export) Position() string { return e.position }

// begin starts the workers.
func (e *export) begin() {
	e.begun = true
	e.queue.fill(e.tables)
	var reading sync.WaitGroup
	for _, w := range e.workers {
		reading.Go(func() { w.run(e) })
	}
	e.group.Go(func() {
		for _, t := range e.tables {
			if len(t.parts) == 0 && e.send(exported{t: t, last: true}) != nil {
				break
			}
		}
		reading.Wait()
		for _, t := range e.queue.abandoned() { // every worker has lost its connection
			if e.send(exported{t: t, err: errNoWorker}) != nil {
				return
			}
		}
		close(e.out)
	})
}

var errNoWorker = errors.New("every connection that held the exported snapshot was lost, and with them the snapshot")

// Next implements connectors.Exported.
func (e *export) Next(ctx context.Context) (connectors.ExportedRows, error) {
	if !e.begun {
		e.begin()
	}
	for {
		select {
		case <-e.stop:
			return connectors.ExportedRows{}, errClosed
		default:
		}
		if e.handed != nil {
			if n := e.handed.arena.NonFinite; n > 0 && e.nonFinite != nil {
				e.nonFinite.Add(n)
			}
			e.handed.arena.NonFinite = 0
			e.free <- e.handed // has room for all
			e.handed = nil
		}
		select {
		case x, ok := <-e.out:
			if !ok {
				select {
				case <-e.stop:
					return connectors.ExportedRows{}, errClosed
				default:
				}
				return connectors.ExportedRows{}, io.EOF
			}
			e.handed = x.buf
			if x.t.gone {
				continue // rows of a table that has failed
			}
			x.t.gone = x.err != nil
			rows := connectors.ExportedRows{Table: x.t.table, Last: x.last, Err: x.err, ReadTime: e.readTime}
			if x.buf != nil {
				rows.Rows = x.buf.rows
			}
			return rows, nil
		case <-ctx.Done():
			return connectors.ExportedRows{}, ctx.Err()
		case <-e.stop:
			return connectors.ExportedRows{}, errClosed
		}
	}
}

// send hands over to Next; the error is errClosed.
func (e *export) send(x exported) error {
	select {
	case e.out <- x:
		return nil
	case <-e.stop:
		return errClosed
	}
}

// buffer waits for one that is free.
func (e *export) buffer() (*exportBuffer, error) {
	select {
	case b := <-e.free:
		b.reset()
		return b, nil
	case <-e.stop:
		return nil, errClosed
	}
}

// Close implements connectors.Exported: it ends the workers and their connections.
func (e *export) Close(context.Context) error {
	e.once.Do(func() {
		close(e.stop)
		e.queue.close()
		for _, w := range e.workers {
			w.interrupt()
		}
	})
	e.group.Wait()
	for _, w := range e.workers {
		w.close()
	}
	return nil
}

// exportPart is a relation to read: the table, or a partition of it.
type exportPart struct {
	t    *exportTable
	oid  uint32
	name string // quoted
	file uint32 // the file it has in the snapshot
	step int64  // pages of a range

	// under the queue's lock
	state  int8
	next   int64 // first page of the next range
	pages  int64 // pages it has; -1: it is read at once
	active int   // ranges that are being read
}

// The states of a part.
const (
	partNew     = iota
	partOpening // a worker looks at its size
	partOpen
	partDone
)

// exportRange is what one COPY reads.
type exportRange struct {
	part     *exportPart
	from, to int64 // pages; to -1: to the end
}

// exportQueue gives ranges to workers.
type exportQueue struct {
	mu     sync.Mutex
	cond   *sync.Cond
	parts  []*exportPart // not done, in order
	closed bool
}

func newExportQueue() *exportQueue {
	q := &exportQueue{}
	q.cond = sync.NewCond(&q.mu)
	return q
}

func (q *exportQueue) fill(tables []*exportTable) {
	for _, t := range tables {
		t.open = len(t.parts)
		q.parts = append(q.parts, t.parts...)
	}
}

// take returns a range of the part the worker has locked, else of another that is open, else a part for the worker to open (a range
// without pages). It waits while others are opening what may give ranges; false: there is nothing left.
func (q *exportQueue) take(mine *exportPart) (r exportRange, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.closed {
			return r, false
		}
		if r, ok = mine.cut(); ok {
			return r, true
		}
		var fresh *exportPart
		opening := false
		q.parts = slices.DeleteFunc(q.parts, func(p *exportPart) bool { return p.state == partDone || p.t.failed })
		for _, p := range q.parts {
			if r, ok = p.cut(); ok {
				return r, true
			}
			opening = opening || p.state == partOpening
			if fresh == nil && p.state == partNew {
				fresh = p
			}
		}
		switch {
		case fresh != nil:
			fresh.state = partOpening
			return exportRange{part: fresh, from: -1}, true
		case !opening:
			return r, false
		}
		q.cond.Wait()
	}
}

// cut takes the next range of an open part.
func (p *exportPart) cut() (exportRange, bool) {
	if p == nil || p.state != partOpen || p.t.failed || p.next < 0 {
		return exportRange{}, false
	}
	r := exportRange{part: p, from: p.next, to: p.next + p.step}
	p.next = r.to
	if p.pages < 0 || r.to+p.step/2 >= p.pages {
		r.to, p.next = -1, -1
	}
	p.active++
	return r, true
}

// opened tells how large a part is.
func (q *exportQueue) opened(p *exportPart, pages int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.state, p.pages = partOpen, pages
	q.cond.Broadcast()
}

// done tells that a range was read and handed over; it returns whether its table is complete with that.
func (q *exportQueue) done(r exportRange) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := r.part
	p.active--
	if p.t.failed || p.active > 0 || p.next >= 0 {
		return false
	}
	p.state = partDone
	p.t.open--
	return p.t.open == 0
}

// fail tells that a table cannot be read; it returns whether that is new.
func (q *exportQueue) fail(t *exportTable) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := !t.failed
	t.failed = true
	q.cond.Broadcast()
	return first
}

// failing reports whether a table has failed, so that reading it is in vain.
func (q *exportQueue) failing(t *exportTable) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.failed
}

// abandoned are the tables that no worker has read.
func (q *exportQueue) abandoned() (tables []*exportTable) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.parts {
		if p.state != partDone && !p.t.failed {
			p.t.failed = true
			tables = append(tables, p.t)
		}
	}
	return tables
}

func (q *exportQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.cond.Broadcast()
}
