package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/schema"
)

// rowDecoder decodes rows that were read from a table as the stream would decode them: the same columns, the same text
// output under the same session settings, the same decoders. Rows and all they refer to are its own until reset.
type rowDecoder struct {
	plan   *relation
	read   []*column // those captured, in the order of the select list
	extra  []string  // columns read besides, after them
	keep   []int     // fields whose text is kept behind the row, see textOf
	fields [][]byte
	rowMemory
}

// rowMemory is rows and what they refer to.
type rowMemory struct {
	rows  []schema.Row
	slab  slab
	arena values.Arena
}

// reset takes back the rows handed out.
func (m *rowMemory) reset() {
	clear(m.rows)
	m.rows = m.rows[:0]
	m.slab.reset()
	m.arena.Reset()
}

// newRowDecoder reads the captured columns of a plan. keep are columns whose text is kept; they may be others than those.
func newRowDecoder(plan *relation, keep []string) *rowDecoder {
	d := &rowDecoder{plan: plan}
	for i := range plan.columns {
		if c := &plan.columns[i]; c.at >= 0 {
			d.read = append(d.read, c)
		}
	}
	for _, name := range keep {
		at := slices.IndexFunc(d.read, func(c *column) bool { return c.name == name })
		if at < 0 {
			at = len(d.read) + len(d.extra)
			d.extra = append(d.extra, name)
		}
		d.keep = append(d.keep, at)
	}
	d.fields = make([][]byte, 0, d.width())
	return d
}

func (d *rowDecoder) width() int { return len(d.read) + len(d.extra) }

// list is the select list.
func (d *rowDecoder) list() string {
	names := make([]string, 0, d.width())
	for _, c := range d.read {
		names = append(names, pgx.Identifier{c.name}.Sanitize())
	}
	for _, name := range d.extra {
		names = append(names, pgx.Identifier{name}.Sanitize())
	}
	return strings.Join(names, ", ")
}

// add decodes a row whose fields lie in the arena; nil is NULL.
func (d *rowDecoder) add(fields [][]byte) error {
	if len(fields) != d.width() {
		return fmt.Errorf("read table %s: a row has %d columns, %d were asked for", d.plan.name, len(fields), d.width())
	}
	n := len(d.plan.table.Columns)
	row := d.slab.row(n + len(d.keep))
	for i, c := range d.read {
		if fields[i] == nil {
			row[c.at].Kind = schema.KindNull
			continue
		}
		v, err := c.decode(&d.arena, fields[i])
		if err != nil {
			return connectors.Block(fmt.Errorf("table %s, column %q of type %s: %w", d.plan.name, c.name, d.plan.table.Columns[c.at].Type.Name, err))
		}
		row[c.at] = v
	}
	for i, k := range d.keep {
		if fields[k] == nil {
			row[n+i].Kind = schema.KindNull
		} else {
			row[n+i] = schema.Text(fields[k])
		}
	}
	for _, k := range d.plan.table.Key {
		if row[k].Kind == schema.KindNull {
			return connectors.Block(fmt.Errorf("table %s: key column %q is NULL in the table", d.plan.name, d.plan.table.Columns[k].Name))
		}
	}
	d.rows = append(d.rows, row[:n])
	return nil
}

// textOf returns the text that was kept of a row's i-th column to keep. ok is false for a row of another origin.
func (d *rowDecoder) textOf(row schema.Row, i int) (text []byte, ok bool) {
	n := len(d.plan.table.Columns)
	if len(row) != n || cap(row) < n+len(d.keep) {
		return nil, false
	}
	v := &row[:n+len(d.keep)][n+i]
	return v.Bytes, v.Kind == schema.KindString
}

// raw decodes a row as a query result has it; the bytes are copied.
func (d *rowDecoder) raw(raw [][]byte) error {
	size := 0
	for _, f := range raw {
		size += len(f)
	}
	buf := d.arena.Bytes(size)
	fields := d.fields[:0]
	for _, f := range raw {
		if f == nil {
			fields = append(fields, nil)
			continue
		}
		n := copy(buf, f)
		fields = append(fields, buf[:n:n])
		buf = buf[n:]
	}
	d.fields = fields
	return d.add(fields)
}

// copyRows takes the output of COPY … TO STDOUT in text format, in pieces of any size: it is the writer of pgconn.CopyTo.
// After an error nothing more is decoded, and the error stays.
type copyRows struct {
	rowDecoder
	rest  []byte // of a line whose end is to come
	total int64  // rows decoded, those taken back by reset too
	err   error
	// after is called after each row, which it may take back with reset; nil: nothing is called.
	after func() error
}

func newCopyRows(plan *relation, keep []string) *copyRows {
	return &copyRows{rowDecoder: *newRowDecoder(plan, keep)}
}

// Write takes the next bytes of the output.
func (c *copyRows) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') // one in a value is written \n
		if end < 0 {
			c.rest = append(c.rest, p...)
			return n, nil
		}
		if c.err = c.piece(p[:end]); c.err != nil {
			return 0, c.err
		}
		p = p[end+1:]
	}
	return n, nil
}

// piece takes the end of a line.
func (c *copyRows) piece(line []byte) error {
	if len(c.rest) > 0 {
		c.rest = append(c.rest, line...)
		line = c.rest
	}
	own := c.arena.Bytes(len(line))
	copy(own, line)
	c.rest = c.rest[:0]
	c.fields = splitCopy(c.fields[:0], own, c.width())
	if err := c.add(c.fields); err != nil {
		return err
	}
	c.total++
	if c.after != nil {
		return c.after()
	}
	return nil
}

// copyOut runs COPY (query) TO STDOUT. A result that is not complete is an error, whatever ended it.
func (c *copyRows) copyOut(ctx context.Context, conn *pgconn.PgConn, query string) error {
	c.total, c.rest, c.err = 0, c.rest[:0], nil
	tag, err := conn.CopyTo(ctx, c, "COPY ("+query+") TO STDOUT")
	if err != nil {
		return err
	}
	if c.total != tag.RowsAffected() || len(c.rest) > 0 {
		return errCutShort
	}
	return nil
}

var errCutShort = errors.New("the server sent fewer rows than it counted")

// splitCopy splits a line in place into its fields: separated by tabs, \N for NULL, other characters escaped by a backslash.
func splitCopy(fields [][]byte, line []byte, columns int) [][]byte {
	if columns == 0 {
		return fields // an empty line
	}
	plain := bytes.IndexByte(line, '\\') < 0 // one look at the line instead of one at each field
	for {
		end := bytes.IndexByte(line, '\t') // one in a value is written \t
		field := line
		if end >= 0 {
			field = line[:end:end]
		}
		if !plain {
			if at := bytes.IndexByte(field, '\\'); at >= 0 {
				field = unescapeCopy(field, at)
			}
		}
		fields = append(fields, field)
		if end < 0 {
			return fields
		}
		line = line[end+1:]
	}
}

// unescapeCopy resolves the escapes of a field in place, from its first backslash on; \N alone is nil.
func unescapeCopy(field []byte, at int) []byte {
	if len(field) == 2 && at == 0 && field[1] == 'N' {
		return nil
	}
	out := field[:at]
	for i := at; i < len(field); i++ {
		b := field[i]
		if b == '\\' && i+1 < len(field) {
			i++
			b = field[i]
			switch b {
			case 'b':
				b = '\b'
			case 'f':
				b = '\f'
			case 'n':
				b = '\n'
			case 'r':
				b = '\r'
			case 't':
				b = '\t'
			case 'v':
				b = '\v'
			}
		}
		out = append(out, b)
	}
	return out
}
