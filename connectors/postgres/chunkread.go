package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// againAtOnce is how many keys are read again with one query.
const againAtOnce = 200

// chunkRead reads the rows of one chunk, all in one transaction.
type chunkRead struct {
	p     *tablePlan
	pages paging // the order of the rows
	again paging // what tells rows apart: the key, or the order where the table has none
	q     connectors.ChunkQuery
	dec   *rowDecoder
	paged int // rows read in order; those read again follow
}

// newChunkRead takes the memory for the rows over.
func newChunkRead(p *tablePlan, pages paging, q connectors.ChunkQuery, m rowMemory) *chunkRead {
	again := p.keys
	if len(again) == 0 {
		again = pages
	}
	c := &chunkRead{p: p, pages: pages, again: again, q: q, dec: newRowDecoder(p.plan, append(pages.names(), again.names()...))}
	c.dec.rowMemory = m
	return c
}

func (c *chunkRead) name() string { return c.p.table.QualifiedName() }

func (c *chunkRead) run(ctx context.Context, conn *pgconn.PgConn) error {
	if c.q.Limit > 0 {
		if err := c.page(ctx, conn); err != nil {
			return err
		}
	}
	c.paged = len(c.dec.rows)
	for keys := c.q.Again; len(keys) > 0; {
		n := min(len(keys), againAtOnce)
		if err := c.readAgain(ctx, conn, keys[:n]); err != nil {
			return err
		}
		keys = keys[n:]
	}
	c.unique()
	return nil
}

// page reads in order. Rows that share the values of the last one come with it: a configured key may not be unique.
func (c *chunkRead) page(ctx context.Context, conn *pgconn.PgConn) error {
	q := &query{}
	after := ""
	if c.q.After != "" {
		at, err := c.pages.parseTexts(c.name(), "the place to go on at", c.q.After)
		if err != nil {
			return err
		}
		after = c.pages.after(q, at)
	}
	q.sql.WriteString("SELECT " + c.dec.list() + " FROM " + c.p.from(c.q.Initial) + c.p.condition(c.q.Initial, c.q.Where, after))
	fmt.Fprintf(&q.sql, " ORDER BY %s FETCH FIRST %d ROWS WITH TIES", c.pages.order(), c.q.Limit)
	return c.read(ctx, conn, q)
}

func (c *chunkRead) readAgain(ctx context.Context, conn *pgconn.PgConn, keys []string) error {
	q := &query{}
	either := ""
	for _, k := range keys {
		at, err := c.again.parseTexts(c.name(), "the key to read again", k)
		if err != nil {
			return err
		}
		if either != "" {
			either += " OR "
		}
		either += c.again.equal(q, at)
	}
	q.sql.WriteString("SELECT " + c.dec.list() + " FROM " + c.p.from(c.q.Initial) + c.p.condition(c.q.Initial, c.q.Where, either))
	return c.read(ctx, conn, q)
}

// read runs a query and decodes its rows. Fewer rows than the server counts are an error.
func (c *chunkRead) read(ctx context.Context, conn *pgconn.PgConn, q *query) error {
	result := conn.ExecParams(ctx, q.sql.String(), q.values, q.types, nil, nil)
	n := int64(0)
	var failed error
	for result.NextRow() {
		if failed != nil {
			continue // the connection is to be of use for another read
		}
		n++
		failed = c.dec.raw(result.Values())
	}
	tag, err := result.Close()
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case tag.RowsAffected() != n:
		return errCutShort
	}
	return nil
}

// unique drops rows that were read again though they are in the chunk already.
func (c *chunkRead) unique() {
	rows := c.dec.rows
	if len(rows) == c.paged {
		return
	}
	seen := make(map[string]bool, len(rows))
	kept := rows[:c.paged]
	for i, row := range rows {
		key := c.key(row)
		if i >= c.paged && !seen[key] {
			kept = append(kept, row)
		}
		seen[key] = true
	}
	clear(rows[len(kept):])
	c.dec.rows = kept
}

// end tells where reading goes on, and whether there is nothing more.
func (c *chunkRead) end() (next string, done bool, err error) {
	if c.paged == 0 {
		return c.q.After, c.q.Limit > 0, nil
	}
	last := c.dec.rows[c.paged-1]
	texts := make([][]byte, len(c.pages))
	for i := range texts {
		texts[i], _ = c.dec.textOf(last, i)
	}
	return formatTexts(asStrings(texts)), c.paged < c.q.Limit, checkTexts(c.name(), texts)
}

// key writes a row's key as ChunkQuery.Again takes it; the row is one of the chunk's.
func (c *chunkRead) key(row schema.Row) string {
	texts := make([]string, len(c.again))
	for i := range texts {
		text, ok := c.dec.textOf(row, len(c.pages)+i)
		if !ok {
			return ""
		}
		texts[i] = string(text)
	}
	return formatTexts(texts)
}

func asStrings(texts [][]byte) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = string(t)
	}
	return out
}

// takeMemory returns memory for the rows of a chunk.
func (r *reader) takeMemory() rowMemory {
	select {
	case m := <-r.memory:
		return m
	default:
		return rowMemory{}
	}
}

// giveMemory takes back the rows of a chunk, once. It may be called from any goroutine.
func (r *reader) giveMemory(c *chunkRead) {
	m := c.dec.rowMemory
	c.dec.rowMemory = rowMemory{}
	if len(m.slab.blocks) > chunkBlocksKept {
		return
	}
	m.reset()
	m.arena.NonFinite = 0
	select {
	case r.memory <- m:
	default:
	}
}
