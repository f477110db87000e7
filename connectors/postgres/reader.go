package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/schema"
)

// reader reads rows over a connection of its own, beside the stream. It implements connectors.Reader.
type reader struct {
	set    settings
	opts   Options
	stream *stream
	conn   *pgx.Conn
	types  catalog.TypeSet
	tables map[string]*tablePlan // by qualified name

	memory chan rowMemory // of chunks that were given back
	silent bool           // the role may not write messages into the log
	block  uint64         // wal_block_size
}

// What a reader keeps of chunks that were given back.
const (
	chunksKept      = 4
	chunkBlocksKept = 64 // of slabs, for each
)

var _ connectors.Snapshotter = (*Source)(nil)

// sessionSettings are those of connections that read rows. A row that a policy hides is an error: the log has it.
const sessionSettings = "SET row_security = off; SET synchronous_commit = local; SET jit = off"

// OpenReader opens a connection to read rows with. See connectors.Snapshotter.
func (s *Source) OpenReader(ctx context.Context) (connectors.Reader, error) {
	st := s.current()
	if st == nil {
		return nil, errClosed
	}
	conn, err := catalog.Connect(ctx, s.set.conn)
	if err != nil {
		return nil, err
	}
	r := &reader{set: s.set, opts: s.opts, stream: st, conn: conn, types: catalog.TypeSet{}, tables: map[string]*tablePlan{},
		memory: make(chan rowMemory, chunksKept)}
	if err := r.prepare(ctx); err != nil {
		_ = r.Close(ctx)
		return nil, fmt.Errorf("set up a connection to read rows: %w", err)
	}
	return r, nil
}

func (r *reader) prepare(ctx context.Context) error {
	texts, err := r.row(ctx, sessionSettings+"; SELECT current_setting('wal_block_size')")
	if err != nil {
		return err
	}
	r.block, err = strconv.ParseUint(texts[0], 10, 64)
	return err
}

// Close closes the connection.
func (r *reader) Close(ctx context.Context) error { return r.conn.Close(ctx) }

// row runs statements and returns the one row of the last.
func (r *reader) row(ctx context.Context, sql string) ([]string, error) {
	results, err := r.conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(results) == 0 || len(results[len(results)-1].Rows) != 1 {
		return nil, errCutShort
	}
	return asStrings(results[len(results)-1].Rows[0]), nil
}

// begin opens a transaction and returns what it sees and the server's time. The table is locked before that: a snapshot that is older
// than a rewrite of the table (ALTER TABLE) finds it empty.
func (r *reader) begin(ctx context.Context, t *schema.Table) (*snapshot, int64, error) {
	texts, err := r.row(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE "+
		pgx.Identifier{t.Namespace, t.Name}.Sanitize()+" IN ACCESS SHARE MODE; SELECT pg_current_snapshot()::text, "+nowMicros)
	if err != nil {
		return nil, 0, err
	}
	at, err := strconv.ParseInt(texts[1], 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("read the server's time: %w", err)
	}
	snap, err := parseSnapshot(texts[0])
	return snap, at, err
}

const nowMicros = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text"

// rollback ends a transaction that failed, where there is still a connection.
func (r *reader) rollback(ctx context.Context) {
	if !r.conn.IsClosed() {
		_, _ = r.conn.PgConn().Exec(context.WithoutCancel(ctx), "ROLLBACK").ReadAll()
	}
}

// Chunk reads rows in key order. See connectors.Reader.
func (r *reader) Chunk(ctx context.Context, q connectors.ChunkQuery) (*connectors.Chunk, error) {
	c, err := r.chunk(ctx, q)
	var unknown *values.UnknownLabelError
	if errors.As(err, &unknown) && !r.conn.IsClosed() {
		// An enum grew since its labels were read.
		delete(r.tables, q.Table)
		clear(r.types)
		c, err = r.chunk(ctx, q)
	}
	return c, r.readError(q.Table, q.Where, r.selectError(q.Table, q.Initial, err))
}

func (r *reader) chunk(ctx context.Context, q connectors.ChunkQuery) (*connectors.Chunk, error) {
	now := r.stream.captured.get(q.Table)
	if now == nil {
		return nil, connectors.Refuse(fmt.Errorf("read chunk of %s: it is not captured", q.Table))
	}
	waits, highest, err := r.unseen(ctx, q.Table)
	if err != nil {
		return nil, err
	}
	snap, at, err := r.begin(ctx, now)
	if err != nil {
		r.rollback(ctx)
		return nil, err
	}
	if snap.xmin > highest {
		waits = ""
	}
	if snap.waits = waits; waits == "" {
		r.stream.bounds.settle(highest)
	}
	c := &connectors.Chunk{Table: now, Next: q.After, Visible: snap, ReadTime: at, Place: place(0)}
	if waits == "" { // else nothing of it would count
		err = r.fill(ctx, q, now, c)
	}
	if err != nil {
		r.rollback(ctx)
		return nil, err
	}
	c.Place, err = r.leave(ctx, q.Table)
	return c, err
}

// fill reads the chunk's rows in the open transaction.
func (r *reader) fill(ctx context.Context, q connectors.ChunkQuery, now *schema.Table, c *connectors.Chunk) error {
	p, err := r.planTable(ctx, now)
	if err != nil {
		return err
	}
	pages, err := r.pageBy(ctx, p, q.Key)
	if err != nil {
		return err
	}
	if err := r.checkOverride(ctx, p, q.Initial); err != nil {
		return err
	}
	if err := r.checkCondition(ctx, p, q.Where); err != nil {
		return err
	}
	read := newChunkRead(p, pages, q, r.takeMemory())
	if err := read.run(ctx, r.conn.PgConn()); err != nil {
		return err
	}
	r.stream.status.readNull.Add(read.dec.arena.NonFinite)
	c.Table, c.Rows, c.Key = p.plan.table, read.dec.rows, read.key
	c.Free = func() { r.giveMemory(read) }
	c.Next, c.Done, err = read.end()
	return err
}

// unseen tells who is waited for before a read of the table counts, and up to which id. It is asked before the read begins: what is
// not running any more then is seen by it. Transactions of other databases, which a snapshot's xmin counts too, have no part in this.
func (r *reader) unseen(ctx context.Context, table string) (waits string, highest uint64, err error) {
	highest, settled, found := r.stream.bounds.of(table)
	if settled {
		return "", highest, nil
	}
	running, err := catalog.ReadRunning(ctx, r.conn)
	if err != nil {
		return "", 0, err
	}
	if !found {
		if highest, err = r.givenOut(ctx, running); err != nil {
			return "", 0, err
		}
		r.stream.bounds.given(table, highest)
	}
	var who []string
	for i := range running {
		if wideXid(running[i].NextXID, running[i].XID) > highest {
			continue
		}
		if one := running[i].String(); !slices.Contains(who, one) { // each of its subtransactions is running
			who = append(who, one)
		}
	}
	if len(who) > 0 {
		waits = "waiting for transactions that may be in the log before the stream's start and are not visible yet: " + strings.Join(who, ", ")
	}
	return waits, highest, nil
}

// givenOut is an id as high as any given out before running was read. A snapshot's xmax is above those of
// transactions that are over, not above those that are running.
func (r *reader) givenOut(ctx context.Context, running []catalog.Running) (uint64, error) {
	texts, err := r.row(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
	if err != nil {
		return 0, err
	}
	next, err := strconv.ParseUint(texts[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the server's next transaction id: %w", err)
	}
	highest := next - 1
	for i := range running {
		highest = max(highest, wideXid(next, running[i].XID))
	}
	return highest, nil
}

// leave ends the transaction and returns the place in the log where everything it has seen was streamed.
func (r *reader) leave(ctx context.Context, table string) (place, error) {
	if !r.silent {
		texts, err := r.row(ctx, "COMMIT; "+emitQuery(ourMessage{Chunk: table}))
		if err == nil {
			lsn, err := pgoutput.ParseLSN(texts[0])
			return place(lsn), err
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "42501" {
			return 0, err
		}
		r.silent = true
		r.opts.Log.Info("the role may not execute pg_logical_emit_message: chunks go by the log's position, which takes longer on a quiet server")
	}
	texts, err := r.row(ctx, "COMMIT; SELECT pg_current_wal_insert_lsn()::text")
	if err != nil {
		return 0, err
	}
	lsn, err := pgoutput.ParseLSN(texts[0])
	if err != nil {
		return 0, err
	}
	lsn = endOfRecord(lsn, r.block)
	r.stream.haste.want(uint64(lsn))
	return place(lsn), nil
}

// Table describes a captured table. See connectors.Reader.
func (r *reader) Table(ctx context.Context, name string) (*schema.Table, int64, error) {
	t, rows, err := r.describe(ctx, name)
	return t, rows, r.readError(name, "", err)
}

func (r *reader) describe(ctx context.Context, name string) (*schema.Table, int64, error) {
	now := r.stream.captured.get(name)
	if now == nil {
		return nil, 0, connectors.Refuse(fmt.Errorf("read table %s: it is not captured", name))
	}
	defer r.rollback(ctx)
	if _, _, err := r.begin(ctx, now); err != nil {
		return nil, 0, err
	}
	p, err := r.planTable(ctx, now)
	if err != nil {
		return nil, 0, err
	}
	rows, err := catalog.EstimateRows(ctx, r.conn, p.table)
	return p.plan.table, rows, err
}
