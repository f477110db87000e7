package sourcetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
)

// TypeCase is a type and the values it is tried with.
type TypeCase struct {
	Name   string   // unique in its suite
	Type   string   // as a column declaration has it
	Values []string // SQL expressions
	Key    bool     // also as a key; then no value may be NULL
}

// Equality connects the equality suite with a real database. Its tables have the columns id (the key,
// counting from 0), n (an integer) and v (of the case's type); those for keys have v alone. Updates
// and deletes carry whole old rows.
type Equality struct {
	Source func(t *testing.T) connectors.Source // opened, at a place after the tables were made
	// Insert inserts a row for each value: id, 0, value; in a table for keys the value alone.
	Insert func(t *testing.T, table string, c TypeCase)
	Update func(t *testing.T, table string) // sets n to 1 in every row
	Delete func(t *testing.T, table string) // deletes every row
	// Read reads a table as a snapshot will, in the order of id.
	Read    func(t *testing.T, table string, each func(*schema.Table, schema.Row) error)
	Timeout time.Duration // for the whole stream; default 60 s
}

// Value is one value as it was read: the name of its case, its expression, its type and the Avro JSON.
type Value struct {
	Case, SQL, Type, JSON string
}

// TableOf is the name of a case's table.
func (c TypeCase) TableOf(i int) string { return fmt.Sprintf("eq_%d", i) }

// KeyTableOf is the name of the table that has a case's type as its key.
func (c TypeCase) KeyTableOf(i int) string { return fmt.Sprintf("eqk_%d", i) }

// Equal runs the suite: every value is read once from its table and comes once through the stream, as insert,
// as both rows of an update and as the old row of a delete. Types, key bytes and value bytes must be the same,
// whichever way a row came. It returns the values as read, for a golden file.
func Equal(t *testing.T, e Equality, cases []TypeCase) []Value {
	t.Helper()
	if e.Timeout == 0 {
		e.Timeout = time.Minute
	}
	s := e.Source(t)
	r := &equality{e: e, inserted: map[string][]image{}, updated: map[string][]image{}}
	var values []Value
	want := 0
	for i, c := range cases {
		table := c.TableOf(i)
		e.Insert(t, table, c)
		values = append(values, r.read(t, table, c, r.inserted)...)
		e.Update(t, table)
		r.read(t, table, c, r.updated)
		e.Delete(t, table)
		want += 3 * len(c.Values)
		if c.Key {
			e.Insert(t, c.KeyTableOf(i), c)
			r.read(t, c.KeyTableOf(i), c, r.inserted)
			want += len(c.Values)
		}
	}
	r.stream(t, s, want)
	return values
}

// image is a row's encoding.
type image struct {
	schema     string // of key and value
	key, value []byte
}

type equality struct {
	e                 Equality
	inserted, updated map[string][]image // as read, by table
}

// encode encodes a row as the record of a fixed place.
func encode(t *testing.T, table *schema.Table, row schema.Row) image {
	t.Helper()
	o := avro.Options{Namespace: avro.Namespace("test", table.Namespace, table.Name)}
	key, err := avro.CompileKey(table, o)
	if err != nil {
		t.Fatal(err)
	}
	value, err := avro.CompileValue(table, o)
	if err != nil {
		t.Fatal(err)
	}
	img := image{schema: key.Schema() + value.Schema()}
	if img.key, err = key.AppendKey(nil, row); err != nil {
		t.Fatalf("%s: %v", table.QualifiedName(), err)
	}
	if img.value, err = value.AppendValue(nil, row, &avro.Meta{Op: 'r', Pos: "{}", Gen: 1}); err != nil {
		t.Fatalf("%s: %v", table.QualifiedName(), err)
	}
	return img
}

// read reads a table and returns what it holds for people.
func (r *equality) read(t *testing.T, name string, c TypeCase, into map[string][]image) (values []Value) {
	t.Helper()
	r.e.Read(t, name, func(table *schema.Table, row schema.Row) error {
		img := encode(t, table, row)
		into[name] = append(into[name], img)
		text, err := avro.ValueSchema(table, avro.Options{Namespace: avro.Namespace("test", table.Namespace, table.Name)})
		if err != nil {
			return err
		}
		codec, err := avro.NewCodec(text)
		if err != nil {
			return err
		}
		json, err := codec.AppendFieldJSON(nil, img.value, "v")
		if err != nil {
			return err
		}
		if n := len(values); n < len(c.Values) {
			values = append(values, Value{c.Name, c.Values[n], table.Columns[table.ColumnIndex("v")].Type.Name, string(json)})
		}
		return nil
	})
	if len(into[name]) != len(c.Values) {
		t.Fatalf("%s: %d rows read, %d values inserted", c.Name, len(into[name]), len(c.Values))
	}
	return values
}

// stream reads n changes and compares every row of them with what was read.
func (r *equality) stream(t *testing.T, s connectors.Source, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), r.e.Timeout)
	defer cancel()
	for n > 0 {
		b, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("next, with %d changes to come: %v", n, err)
		}
		for i := range b.Changes {
			c := &b.Changes[i]
			n--
			before, after := r.updated, r.inserted
			if c.Op == connectors.OpUpdate {
				before, after = r.inserted, r.updated
			}
			r.compare(t, c, "new row", c.After, after)
			r.compare(t, c, "old row", c.Before, before)
		}
	}
}

// compare finds the row that was read by its key.
func (r *equality) compare(t *testing.T, c *connectors.Change, what string, row schema.Row, images map[string][]image) {
	t.Helper()
	if row == nil {
		return
	}
	got := encode(t, c.Table, row)
	read := images[c.Table.Name]
	at := slices.IndexFunc(read, func(img image) bool { return bytes.Equal(img.key, got.key) })
	switch {
	case at < 0:
		t.Errorf("%s of %c %s: no row with the key %x was read from the table", what, c.Op, c.Table.Name, got.key)
	case got.schema != read[at].schema:
		t.Errorf("%s of %c %s: schema\n%s\nread from the table\n%s", what, c.Op, c.Table.Name, got.schema, read[at].schema)
	case !bytes.Equal(got.value, read[at].value):
		t.Errorf("%s of %c %s, row %d: value %x, read from the table %x", what, c.Op, c.Table.Name, at, got.value, read[at].value)
	}
}
