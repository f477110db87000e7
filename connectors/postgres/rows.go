package postgres

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/schema"
)

// relation is the plan for the rows of one version of a table in the stream, captured or not.
type relation struct {
	name    string        // qualified, for messages
	table   *schema.Table // nil: not captured; only ordinals are counted
	columns []column      // as the Relation message has them
	key     []int         // indexes into columns, in key order; empty: keyless
	carried []bool        // by column: an old key tuple carries it
}

// column is one column of a Relation message.
type column struct {
	name   string
	at     int // index in table.Columns, -1 where it is not captured
	decode values.Decoder
}

func (a *assembler) insert(m *pgoutput.Insert) error {
	rel, err := a.relation(m.RelationID)
	if err != nil {
		return err
	}
	if err := a.fits(rel, &m.New); err != nil {
		return err
	}
	seq := a.next()
	if rel.table == nil || a.rules.skips(connectors.OpCreate) {
		return nil
	}
	row, err := a.row(rel, &m.New, nil, nil)
	if err != nil {
		return err
	}
	return a.add(connectors.Change{Op: connectors.OpCreate, Table: rel.table, Seq: seq, After: row}, row)
}

// update is one change, or two where the key changed or there is none: delete, then create. A
// table that is not captured takes ordinals by what the log tells of its key: see hiddenKey.
func (a *assembler) update(m *pgoutput.Update) error {
	rel, err := a.relation(m.RelationID)
	if err != nil {
		return err
	}
	if err := a.fits(rel, &m.New); err != nil {
		return err
	}
	if err := a.fitsOld(rel, m); err != nil {
		return err
	}
	split := keyChanged(rel, m) || (len(rel.key) == 0 && rel.table != nil)
	seq := a.next()
	if split {
		a.next()
	}
	if rel.table == nil || (!split && a.rules.skips(connectors.OpUpdate)) {
		return nil
	}
	carried := a.carriedBy(rel, m.OldKind)
	var old *pgoutput.Tuple
	if m.OldKind != pgoutput.OldNone {
		old = &m.Old
	}
	after, err := a.row(rel, &m.New, old, carried)
	if err != nil {
		return err
	}
	if !split {
		var before schema.Row
		if m.OldKind == pgoutput.OldFull {
			if before, err = a.oldRow(rel, old, carried); err != nil {
				return err
			}
		}
		if err := a.add(connectors.Change{Op: connectors.OpUpdate, Table: rel.table, Seq: seq, Before: before, After: after}, after); err != nil {
			return err
		}
		a.noteIncomplete(rel, m)
		return nil
	}
	if old == nil {
		return a.block(fmt.Errorf("table %s: update of a table without a key: %w", rel.name, errNoOldTuple))
	}
	before, err := a.oldRow(rel, old, carried)
	if err != nil {
		return err
	}
	if err := a.add(connectors.Change{Op: connectors.OpDelete, Table: rel.table, Seq: seq, Before: before, NewKey: after}, before); err != nil {
		return err
	}
	if a.rules.skips(connectors.OpCreate) {
		return nil
	}
	if err := a.add(connectors.Change{Op: connectors.OpCreate, Table: rel.table, Seq: seq + 1, After: after, OldKey: before}, after); err != nil {
		return err
	}
	a.noteIncomplete(rel, m)
	return nil
}

func (a *assembler) delete(m *pgoutput.Delete) error {
	rel, err := a.relation(m.RelationID)
	if err != nil {
		return err
	}
	if err := a.fits(rel, &m.Old); err != nil {
		return err
	}
	seq := a.next()
	if rel.table == nil || a.rules.skips(connectors.OpDelete) {
		return nil
	}
	before, err := a.oldRow(rel, &m.Old, a.carriedBy(rel, m.OldKind))
	if err != nil {
		return err
	}
	return a.add(connectors.Change{Op: connectors.OpDelete, Table: rel.table, Seq: seq, Before: before}, before)
}

func (a *assembler) next() int64 {
	a.seq++
	return a.seq - 1
}

// add appends a change whose key is in row.
func (a *assembler) add(c connectors.Change, row schema.Row) error {
	for _, k := range c.Table.Key {
		if kind := row[k].Kind; kind <= schema.KindNull {
			return a.block(fmt.Errorf("table %s: key column %q is %s in the log", c.Table.QualifiedName(), c.Table.Columns[k].Name, kind))
		}
	}
	if a.rules.skips(c.Op) {
		return nil
	}
	c.LSN = a.lsn
	a.changes = append(a.changes, c)
	a.published++
	return nil
}

func (a *assembler) fits(rel *relation, t *pgoutput.Tuple) error {
	if len(t.Columns) != len(rel.columns) {
		return a.block(fmt.Errorf("table %s: a row has %d columns, the table's description %d", rel.name, len(t.Columns), len(rel.columns)))
	}
	return nil
}

func (a *assembler) fitsOld(rel *relation, m *pgoutput.Update) error {
	if m.OldKind == pgoutput.OldNone {
		return nil
	}
	return a.fits(rel, &m.Old)
}

// keyChanged compares key values: an old tuple alone proves nothing. An unchanged key column is the old one.
func keyChanged(rel *relation, m *pgoutput.Update) bool {
	if m.OldKind == pgoutput.OldNone {
		return false
	}
	for _, k := range rel.key {
		o, n := &m.Old.Columns[k], &m.New.Columns[k]
		if n.Kind == pgoutput.ColumnUnchanged || o.Kind == pgoutput.ColumnUnchanged {
			continue
		}
		if m.OldKind == pgoutput.OldKey && !rel.carried[k] {
			continue
		}
		if o.Kind != n.Kind || !bytes.Equal(o.Data, n.Data) {
			return true
		}
	}
	return false
}

// carriedBy tells which columns of an old tuple are data; nil: all of them. In a key tuple every
// other column is NULL whatever the row holds.
func (a *assembler) carriedBy(rel *relation, kind byte) []bool {
	if kind == pgoutput.OldKey {
		return rel.carried
	}
	return nil
}

// row decodes a new tuple. A value the update left alone is taken from the old tuple where that carries it.
func (a *assembler) row(rel *relation, t, old *pgoutput.Tuple, carried []bool) (schema.Row, error) {
	row := a.rows.row(len(rel.table.Columns))
	for i := range rel.columns {
		c, v := &rel.columns[i], &t.Columns[i]
		if c.at < 0 {
			continue
		}
		if v.Kind == pgoutput.ColumnUnchanged && old != nil && (carried == nil || carried[i]) {
			v = &old.Columns[i]
		}
		if err := a.value(rel, c, v, &row[c.at]); err != nil {
			return nil, err
		}
	}
	return row, nil
}

// oldRow decodes what an old tuple carries.
func (a *assembler) oldRow(rel *relation, t *pgoutput.Tuple, carried []bool) (schema.Row, error) {
	row := a.rows.row(len(rel.table.Columns))
	for i := range rel.columns {
		c := &rel.columns[i]
		if c.at < 0 || (carried != nil && !carried[i]) {
			continue
		}
		if err := a.value(rel, c, &t.Columns[i], &row[c.at]); err != nil {
			return nil, err
		}
	}
	return row, nil
}

var errBinary = errors.New("the server sent it in binary form, which was not asked for")

func (a *assembler) value(rel *relation, c *column, v *pgoutput.ColumnValue, into *schema.Value) error {
	switch v.Kind {
	case pgoutput.ColumnText:
		decoded, err := c.decode(&a.arena, v.Data)
		if err != nil {
			return a.valueError(rel, c, err)
		}
		*into = decoded
	case pgoutput.ColumnNull:
		into.Kind = schema.KindNull
	case pgoutput.ColumnUnchanged:
		into.Kind = schema.KindUnavailable
	default:
		return a.valueError(rel, c, errBinary)
	}
	return nil
}

// valueError names table, column and type, never the value.
func (a *assembler) valueError(rel *relation, c *column, err error) error {
	return a.block(fmt.Errorf("table %s, column %q of type %s: %w", rel.name, c.name, rel.table.Columns[c.at].Type.Name, err))
}
