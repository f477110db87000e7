package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
)

// exportBuffer holds rows of one table.
type exportBuffer struct {
	*copyRows
	bytes int
}

func (b *exportBuffer) reset() {
	if b.copyRows != nil {
		b.copyRows.reset()
	}
	b.bytes = 0
}

// bind has the buffer decode rows of a plan; its memory stays.
func (b *exportBuffer) bind(plan *relation) {
	if b.copyRows == nil {
		b.copyRows = newCopyRows(plan, nil)
		return
	}
	if b.plan != plan {
		next := newCopyRows(plan, nil)
		next.rowMemory = b.rowMemory
		b.copyRows = next
	}
}

func (b *exportBuffer) full() bool { return len(b.rows) >= exportRows || b.bytes >= exportBytes }

// exportWorker is a connection in the exported snapshot. It is used by one goroutine at a time.
type exportWorker struct {
	conn   *pgx.Conn
	part   *exportPart // locked now
	inside bool        // a savepoint is set, which ends the lock
	buf    *exportBuffer
	e      *export
}

// pinWorker opens a connection and imports the snapshot.
func pinWorker(ctx context.Context, cfg catalog.ConnConfig, snapshot string) (*exportWorker, error) {
	conn, err := catalog.Connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	// Where a policy would hide rows the read is to fail: the stream has them all.
	_, err = conn.Exec(ctx, "SET row_security = off; SET enable_tidscan = on; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '"+snapshot+"'", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("import the exported snapshot: %w", err)
	}
	return &exportWorker{conn: conn}, nil
}

// interrupt makes a read that is blocked on the connection return.
func (w *exportWorker) interrupt() { _ = w.conn.PgConn().Conn().SetDeadline(time.Unix(1, 0)) }

func (w *exportWorker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx)
}

// run reads ranges until there are none. A table that cannot be read fails alone; a connection that is lost ends the worker.
func (w *exportWorker) run(e *export) {
	defer func() {
		w.close()
		if w.buf != nil {
			e.free <- w.buf // has room for all
		}
	}()
	w.e = e
	for {
		r, ok := e.queue.take(w.part)
		if !ok {
			return
		}
		err := w.do(r)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errClosed):
			return
		}
		if e.queue.fail(r.part.t) && e.send(exported{t: r.part.t, err: exportError(r.part.t, err)}) != nil {
			return
		}
		if w.leave() != nil {
			return
		}
	}
}

// do opens the part of a range, or reads the range and hands over what remains in the buffer.
func (w *exportWorker) do(r exportRange) error {
	if r.from < 0 || w.part != r.part {
		pages, err := w.enter(r.part)
		if err != nil {
			return err
		}
		if r.from < 0 {
			w.e.queue.opened(r.part, pages)
			return nil
		}
	}
	t := r.part.t
	if err := w.copy(t, r.query()); err != nil {
		return err
	}
	rest := w.buf
	w.buf = nil
	whole := t.parts[0].pages < 0 && len(t.parts) == 1
	if whole && w.e.queue.done(r) { // the only range
		return w.e.send(exported{t: t, buf: rest, last: true})
	}
	if rest != nil {
		if err := w.e.send(exported{t: t, buf: rest}); err != nil {
			return err
		}
	}
	if !whole && w.e.queue.done(r) {
		return w.e.send(exported{t: t, last: true})
	}
	return nil
}

// query is the SELECT of a range.
func (r exportRange) query() string {
	t := r.part.t
	if t.override != "" {
		return "SELECT " + t.columns + " FROM (" + t.override + "\n) AS o"
	}
	query, word := "SELECT "+t.columns+" FROM ONLY "+r.part.name, " WHERE "
	add := func(condition string) { query, word = query+word+condition, " AND " }
	if r.from > 0 {
		add("ctid >= '(" + strconv.FormatInt(r.from, 10) + ",0)'")
	}
	if r.to >= 0 {
		add("ctid < '(" + strconv.FormatInt(r.to, 10) + ",0)'")
	}
	if t.where != "" {
		add("(" + t.where + ")")
	}
	return query
}

// enter locks a part against being altered, after letting go of the one before, and returns its size in pages, -1 where it
// is to be read at once. A file that is not the snapshot's is an error.
func (w *exportWorker) enter(p *exportPart) (pages int64, err error) {
	if err := w.leave(); err != nil {
		return 0, err
	}
	w.inside = true
	lock := exportRange{part: p, to: -1}.query() + " LIMIT 0" // LOCK TABLE would need a right to the whole table
	oid := strconv.FormatUint(uint64(p.oid), 10)
	results, err := w.conn.PgConn().Exec(context.Background(), "SAVEPOINT part; SET LOCAL lock_timeout = "+strconv.FormatInt(exportLock.Milliseconds(), 10)+"; "+lock+
		"; SELECT to_regclass("+literal(p.name)+")::oid = "+oid+" AND coalesce(pg_relation_filenode("+oid+"), 0) = "+strconv.FormatUint(uint64(p.file), 10)+
		", pg_relation_size("+oid+") / current_setting('block_size')::int, (SELECT relam FROM pg_class WHERE oid = "+oid+") = 2").ReadAll()
	if err != nil {
		return 0, err
	}
	row := results[len(results)-1].Rows
	if len(row) != 1 || string(row[0][0]) != "t" {
		return 0, errRewritten
	}
	w.part = p
	if pages, err = strconv.ParseInt(string(row[0][1]), 10, 64); err != nil {
		return 0, err
	}
	if p.t.override != "" || string(row[0][2]) != "t" || pages < 2*p.step {
		pages = -1
	}
	return pages, nil
}

// errRewritten is met where a table is not the snapshot's any more.
var errRewritten = errors.New("it was truncated, rewritten, or dropped and created again since the snapshot was exported")

// leave lets go of the part that is locked and of what an error left; the error is a lost connection's.
func (w *exportWorker) leave() (err error) {
	w.part = nil
	if w.conn.IsClosed() {
		return errLostWorker
	}
	for range 2 { // a cancellation may come late
		if !w.inside {
			return nil
		}
		_, err = w.conn.PgConn().Exec(context.Background(), "ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part").ReadAll()
		w.inside = err != nil
	}
	return err
}

var errLostWorker = errors.New("the connection that held the exported snapshot was lost")

// copy reads the rows of a query into buffers and hands those over that are full.
func (w *exportWorker) copy(t *exportTable, query string) (err error) {
	if w.buf != nil { // of a table that failed
		w.buf.reset()
		w.buf.bind(t.plan)
	}
	frontend := w.conn.PgConn().Frontend()
	frontend.SendQuery(&pgproto3.Query{String: "COPY (" + query + ") TO STDOUT"})
	if err := frontend.Flush(); err != nil {
		return w.lost(err)
	}
	for {
		message, received := frontend.Receive()
		if received != nil {
			return w.lost(received)
		}
		switch m := message.(type) {
		case *pgproto3.CopyData:
			if err == nil {
				if err = w.row(t, m.Data); errors.Is(err, errClosed) {
					return err
				} else if err != nil {
					w.cancel() // the rest of the table is not needed
				}
			}
		case *pgproto3.ErrorResponse:
			if err == nil {
				err = pgconn.ErrorResponseToPgError(m)
			}
			if m.Severity == "FATAL" {
				return w.lost(err)
			}
		case *pgproto3.ReadyForQuery:
			return err
		}
	}
}

// row decodes a message: the server sends one for each row.
func (w *exportWorker) row(t *exportTable, line []byte) error {
	if w.buf == nil {
		b, err := w.e.buffer()
		if err != nil {
			return err
		}
		b.bind(t.plan)
		w.buf = b
	}
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	w.buf.bytes += len(line)
	if err := w.buf.piece(line); err != nil {
		return err
	}
	if !w.buf.full() {
		return nil
	}
	if w.e.queue.failing(t) {
		return errElsewhere
	}
	b := w.buf
	w.buf = nil
	return w.e.send(exported{t: t, buf: b})
}

var errElsewhere = errors.New("another connection could not read it")

// lost closes a connection that broke.
func (w *exportWorker) lost(err error) error {
	select {
	case <-w.e.stop:
		return errClosed
	default:
	}
	_ = w.conn.PgConn().Conn().Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx)
	return fmt.Errorf("%w: %w", errLostWorker, err)
}

// cancel has the server end the query.
func (w *exportWorker) cancel() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = w.conn.PgConn().CancelRequest(ctx)
}

// exportError says why a table could not be read in the snapshot.
func exportError(t *exportTable, err error) error {
	name := t.table.QualifiedName()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("read table %s in the exported snapshot: %w", name, err)
	}
	switch pg.Code {
	case "42501":
		return connectors.WithClass(connectors.ClassWait, fmt.Errorf("table %s may not be read: %s; GRANT SELECT ON it to the role, and USAGE on its schema; a role that row security applies to needs BYPASSRLS", name, pg.Message))
	case "55P03":
		return fmt.Errorf("table %s was locked by somebody else for %s", name, exportLock)
	}
	if t.override != "" {
		return fmt.Errorf("%s.%s: %s", propSnapshotOverride, name, overrideError(err))
	}
	return fmt.Errorf("read table %s in the exported snapshot: %w", name, err)
}
