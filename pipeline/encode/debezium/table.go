package debezium

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// The headers of the format.
const (
	headerNewKey      = "__debezium.newkey"
	headerOldKey      = "__debezium.oldkey"
	headerUnavailable = "__unavailable" // ours: JSON array of the columns whose value the log did not carry
)

var contextHeaders = [4]string{"__debezium.context.connectorLogicalName", "__debezium.context.taskId", "__debezium.context.connectorName", "__debezium.context.runId"}

// table writes the records of one version of a table.
type table struct {
	f       *Format
	table   *schema.Table
	columns []column // those published
	keys    []int    // indexes into columns, in key order
	key     *connect.Writer
	value   *connect.Writer

	arena    arena
	before   []schema.Value
	after    []schema.Value
	keyElems []schema.Value
	source   []schema.Value
	block    []schema.Value
	envelope []schema.Value
	op       [1]byte
}

// Table compiles one version of a table.
func (f *Format) Table(t *schema.Table) (encode.TableFormat, error) {
	p := f.newTable(t)
	row := &connect.Schema{Type: connect.Struct, Name: f.schemaName(t, "Value"), Optional: true}
	for i := range t.Columns {
		c := f.column(&t.Columns[i], i)
		if c.convert == nil {
			continue
		}
		p.columns = append(p.columns, c)
		row.Fields = append(row.Fields, connect.Field{Name: adjust(f.cfg.FieldNames, t.Columns[i].Name, false), Schema: c.schema})
	}
	key := &connect.Schema{Type: connect.Struct, Name: f.schemaName(t, "Key")}
	for _, k := range t.Key {
		at := -1
		for i := range p.columns {
			if p.columns[i].index == k {
				at = i
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("key column %q of table %s has the type %s, which Debezium does not publish; set include.unknown.datatypes, or give the table another key in message.key.columns", t.Columns[k].Name, t.QualifiedName(), t.Columns[k].Type.Name)
		}
		p.keys = append(p.keys, at)
		key.Fields = append(key.Fields, connect.Field{Name: adjust(f.cfg.FieldNames, t.Columns[k].Name, false), Schema: p.columns[at].schema})
	}
	if len(t.Key) > 0 {
		p.key = connect.NewWriter(key, f.cfg.Key)
	}
	p.value = connect.NewWriter(f.envelopeSchema(t, row), f.cfg.Value)
	p.before, p.after = make([]schema.Value, len(p.columns)), make([]schema.Value, len(p.columns))
	p.keyElems = make([]schema.Value, len(p.keys))
	return p, nil
}

// newTable returns what writes source and transaction of a table.
func (f *Format) newTable(t *schema.Table) *table {
	text := func(s string) schema.Value { return schema.Text([]byte(s)) }
	null := schema.Null()
	return &table{f: f, table: t, block: make([]schema.Value, 3), envelope: make([]schema.Value, 8), source: []schema.Value{
		text(Version), text("postgresql"), text(f.cfg.Prefix), null, text("false"), text(f.cfg.Database), null, null, null,
		text(t.Namespace), text(t.Name), null, null, null, null, null,
	}}
}

// Schemas returns what the registry must know.
func (p *table) Schemas() encode.Schemas {
	s := encode.Schemas{Value: p.value.Registered()}
	if p.key != nil {
		s.Key, s.Fixed = p.key.Registered(), p.key.Fixed()
	}
	return s
}

// Op returns the operation a change is published as. An update of a keyless table is two changes to us and one to Debezium.
func (p *table) Op(c *connectors.Change) (connectors.Op, bool) {
	if p.key == nil && c.NewKey != nil {
		return 0, false
	}
	if p.key == nil && c.OldKey != nil {
		return connectors.OpUpdate, !p.f.cfg.SkipUnchanged || !equalRows(c.OldKey, c.After)
	}
	if p.f.cfg.SkipUnchanged && c.Op == connectors.OpUpdate && equalRows(c.Before, c.After) {
		return 0, false
	}
	return c.Op, true
}

// AppendKey appends the key of a row.
func (p *table) AppendKey(dst []byte, row schema.Row) ([]byte, error) {
	v, err := p.keyValue(row)
	if err != nil {
		return dst, err
	}
	out, err := p.key.Append(dst, &v)
	if err != nil {
		return dst, p.fail(err)
	}
	return out, nil
}

func (p *table) keyValue(row schema.Row) (schema.Value, error) {
	p.arena.reset()
	for i, at := range p.keys {
		if err := p.columns[at].value(&p.arena, &row[p.columns[at].index], &p.keyElems[i], asKey); err != nil {
			return schema.Value{}, p.columnError(at, err)
		}
	}
	return schema.Array(p.keyElems), nil
}

// AppendValue appends the envelope.
func (p *table) AppendValue(dst []byte, c *connectors.Change, m *encode.Meta) ([]byte, error) {
	p.arena.reset()
	before, after := c.Before, c.After
	if m.Op == connectors.OpUpdate && c.OldKey != nil { // a keyless table's
		before = c.OldKey
	}
	var err error
	e := p.envelope
	if e[0], err = p.row(before, p.before, asOld); err != nil {
		return dst, err
	}
	if e[1], err = p.row(after, p.after, asNew); err != nil {
		return dst, err
	}
	e[2], e[3] = p.sourceValue(c, m), p.blockValue(c, m)
	p.op[0] = byte(m.Op)
	e[4] = schema.Text(p.op[:])
	e[5], e[6], e[7] = schema.Int(m.Now/1_000_000), schema.Int(m.Now/1000), schema.Int(m.Now)
	v := schema.Array(e)
	out, err := p.value.Append(dst, &v)
	if err != nil {
		return dst, p.fail(err)
	}
	return out, nil
}

func (p *table) row(row schema.Row, into []schema.Value, as role) (schema.Value, error) {
	if row == nil {
		return schema.Null(), nil
	}
	for i := range p.columns {
		if err := p.columns[i].value(&p.arena, &row[p.columns[i].index], &into[i], as); err != nil {
			return schema.Value{}, p.columnError(i, err)
		}
	}
	return schema.Array(into), nil
}

func (p *table) sourceValue(c *connectors.Change, m *encode.Meta) schema.Value {
	s, us := p.source, m.Tx.CommitTime
	s[3], s[7], s[8] = schema.Int(floorDiv(us, 1000)), schema.Int(us), schema.Int(us*1000)
	if m.Op == connectors.OpRead {
		return p.readValue(m)
	}
	s[4] = notSnapshot
	s[6] = schema.Text(p.arena.take(func(b []byte) []byte {
		if m.Tx.PreviousLSN == 0 {
			b = append(b, `[null,"`...)
		} else {
			b = append(strconv.AppendUint(append(b, `["`...), m.Tx.PreviousLSN, 10), `","`...)
		}
		return append(strconv.AppendUint(b, c.LSN, 10), `"]`...)
	}))
	s[11], s[12] = schema.Int(int64(uint32(m.Tx.ID))), schema.Int(int64(c.LSN))
	if m.Tx.ID == 0 {
		s[11] = schema.Null()
	}
	return schema.Array(s)
}

var (
	notSnapshot = schema.Text([]byte("false"))
	initial     = schema.Text([]byte(connectors.SnapshotInitial))
	incremental = schema.Text([]byte(connectors.SnapshotIncremental))
)

// readValue is the source of a row that was read: without a transaction, and without a place in the log where Debezium has none.
// That a row is the first or the last is not told: rows of many tables are read at once, and the last is not known to be it.
func (p *table) readValue(m *encode.Meta) schema.Value {
	s := p.source
	s[4], s[11], s[12] = incremental, schema.Null(), schema.Null()
	lsn, ok := positionLSN(m.Tx.Pos)
	if ok = ok && m.Tx.Snapshot != connectors.SnapshotIncremental; ok {
		s[4], s[12] = initial, schema.Int(int64(lsn))
	}
	s[6] = schema.Text(p.arena.take(func(b []byte) []byte {
		if !ok {
			return append(b, `[null,null]`...)
		}
		return append(strconv.AppendUint(append(b, `[null,"`...), lsn, 10), `"]`...)
	}))
	return schema.Array(s)
}

// positionLSN reads a PostgreSQL position: {"lsn":"3D/485795A0"}.
func positionLSN(pos string) (uint64, bool) {
	text, ok := strings.CutPrefix(pos, `{"lsn":"`)
	text, closed := strings.CutSuffix(text, `"}`)
	high, low, slash := strings.Cut(text, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	l, err2 := strconv.ParseUint(low, 16, 32)
	return h<<32 | l, ok && closed && slash && err == nil && err2 == nil
}

func (p *table) blockValue(c *connectors.Change, m *encode.Meta) schema.Value {
	if m.Total == 0 {
		return schema.Null()
	}
	p.block[0] = schema.Text(p.arena.take(func(b []byte) []byte { return appendID(b, m.Tx.ID, c.LSN) }))
	p.block[1], p.block[2] = schema.Int(m.Total), schema.Int(m.Own)
	return schema.Array(p.block)
}

// appendID appends a transaction's id as Debezium has it: the 32-bit id and a place in the log.
func appendID(b []byte, xid, lsn uint64) []byte {
	return strconv.AppendUint(append(strconv.AppendUint(b, uint64(uint32(xid)), 10), ':'), lsn, 10)
}

// AppendHeaders appends the other key of a key change, the context, and what the log did not carry.
func (p *table) AppendHeaders(c *pipeline.Chunk, change *connectors.Change) error {
	if p.key != nil && change.NewKey != nil {
		if err := p.keyHeader(c, headerNewKey, change.NewKey); err != nil {
			return err
		}
	}
	if p.key != nil && change.OldKey != nil {
		if err := p.keyHeader(c, headerOldKey, change.OldKey); err != nil {
			return err
		}
	}
	if !p.f.cfg.PlainHeaders {
		for i, name := range contextHeaders {
			c.Headers = append(c.Headers, pipeline.Header{Key: name, Value: p.f.context[i]})
		}
	}
	if change.After != nil {
		p.unavailableHeader(c, change.After)
	}
	return nil
}

func (p *table) keyHeader(c *pipeline.Chunk, name string, row schema.Row) error {
	v, err := p.keyValue(row)
	if err != nil {
		return err
	}
	at := len(c.Buf)
	if c.Buf, err = p.key.AppendPlain(c.Buf, &v); err != nil {
		return p.fail(err)
	}
	c.Headers = append(c.Headers, pipeline.Header{Key: name, Value: c.Buf[at:len(c.Buf):len(c.Buf)]})
	return nil
}

// unavailableHeader names the columns whose value the log did not carry: Debezium has no placeholder for some types.
func (p *table) unavailableHeader(c *pipeline.Chunk, row schema.Row) {
	at := len(c.Buf)
	for i := range row {
		if row[i].Kind != schema.KindUnavailable {
			continue
		}
		c.Buf = append(c.Buf, map[bool]byte{true: '[', false: ','}[len(c.Buf) == at])
		c.Buf = strconv.AppendQuote(c.Buf, p.table.Columns[i].Name)
	}
	if len(c.Buf) == at {
		return
	}
	c.Buf = append(c.Buf, ']')
	c.Headers = append(c.Headers, pipeline.Header{Key: headerUnavailable, Value: c.Buf[at:len(c.Buf):len(c.Buf)]})
}

func (p *table) columnError(i int, err error) error {
	col := &p.table.Columns[p.columns[i].index]
	return &avro.ValueError{Table: p.table.QualifiedName(), Column: col.Name, Type: col.Type.Name, Reason: err.Error()}
}

func (p *table) fail(err error) error {
	var field *connect.FieldError
	if errors.As(err, &field) {
		return &avro.ValueError{Table: p.table.QualifiedName(), Column: field.Field, Reason: field.Err.Error()}
	}
	return err
}

// equalRows reports whether an old row is there and whole and has the same values.
func equalRows(before, after schema.Row) bool {
	return before != nil && slices.EqualFunc(before, after, equalValues)
}

func equalValues(a, b schema.Value) bool {
	return a.Kind == b.Kind && a.Kind != schema.KindUnavailable && a.Num == b.Num && bytes.Equal(a.Bytes, b.Bytes) && slices.EqualFunc(a.Elems, b.Elems, equalValues)
}

func floorDiv(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}
