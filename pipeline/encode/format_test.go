package encode

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// The flat format in JSON needs no registry; key and value have converters of their own.
func TestFlatJSON(t *testing.T) {
	table := ordersTable()
	toast := order(1, "")
	toast[1] = schema.Value{}
	r := newRig(t, func(c *Config) {
		c.Key, c.Value = connect.Converter{JSON: true}, connect.Converter{JSON: true, Numeric: true}
	})
	r.prepare(t, 4, nil, table)
	c, err := r.encode(
		connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "Å\"sa")},
		connectors.Change{Op: connectors.OpUpdate, Table: table, After: toast},
		connectors.Change{Op: connectors.OpDelete, Table: table, Before: keyOnly(1)},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, rec := range c.Records {
		got = append(got, fmt.Sprintf("%s %s", rec.Key, rec.Value))
	}
	want := []string{
		`{"id":1} {"id":1,"customer":"Å\"sa","quantity":3,"at":1700000000000000,"price":1299.00,"__op":"c","__pos":"{\"lsn\":\"0/15D6A30\"}","__seq":0,"__gen":4,"__ts_us":1700000000123456,"__unavailable":[]}`,
		`{"id":1} {"id":1,"customer":null,"quantity":3,"at":1700000000000000,"price":1299.00,"__op":"u","__pos":"{\"lsn\":\"0/15D6A30\"}","__seq":1,"__gen":4,"__ts_us":1700000000123456,"__unavailable":["customer"]}`,
		`{"id":1} {"id":1,"customer":null,"quantity":null,"at":null,"price":null,"__op":"d","__pos":"{\"lsn\":\"0/15D6A30\"}","__seq":2,"__gen":4,"__ts_us":1700000000123456,"__unavailable":[]}`,
		`{"id":1} `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(r.registry.texts) != 0 {
		t.Errorf("schemas were registered: %q", r.registry.texts)
	}
}

// A key's type that changes between starts would scatter JSON keys like Avro ones.
func TestJSONKeyDrift(t *testing.T) {
	table := ordersTable()
	json := func(c *Config) { c.Key, c.Value = connect.Converter{JSON: true}, connect.Converter{JSON: true} }
	r := newRig(t, json)
	r.prepare(t, 4, nil, table)
	c, err := r.encode(connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "a")})
	if err != nil {
		t.Fatal(err)
	}
	other := ordersTable()
	other.Columns[0].Type.Name = "integer"
	err = newRig(t, json).Prepare(context.Background(), 4, []*schema.Table{other}, c.Entries)
	if err == nil || connectors.ClassOf(err) != connectors.ClassBlock {
		t.Errorf("%v", err)
	}
}

// The end of a transaction has its counts, in one partition and in order; an empty one has one too,
// what is no transaction none. A transaction encoded anew counts anew.
func TestBrackets(t *testing.T) {
	table, keyless := ordersTable(), logTable()
	r := newRig(t, func(c *Config) { c.Transactions = true })
	r.prepare(t, 4, nil, table)
	insert := connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "a")}
	line := connectors.Change{Op: connectors.OpCreate, Table: keyless, After: schema.Row{schema.Text([]byte("x"))}}
	end := func(id uint64, changes ...connectors.Change) string {
		b := connectors.Batch{Tx: connectors.Transaction{Pos: `{"lsn":"0/2"}`, ID: id, CommitTime: 1_700_000_000_123_456}, Changes: changes, Last: true}
		var c *pipeline.Chunk
		for range 2 {
			c = &pipeline.Chunk{}
			r.BeginTransaction()
			if _, err := r.Encode(context.Background(), c, &b, 0, 1<<30); err != nil {
				t.Fatal(err)
			}
			if err := r.EndTransaction(context.Background(), c, &b); err != nil {
				t.Fatal(err)
			}
		}
		if len(c.Records) == len(changes) {
			return ""
		}
		last := c.Records[len(c.Records)-1]
		text, _, _ := strings.Cut(r.text(t, last.Value), "  [")
		return fmt.Sprintf("%s/%d %s", last.Topic, last.Partition, text)
	}
	for _, c := range []struct {
		got, want string
	}{
		{end(7, insert, line, insert), `shop.transaction/0 {"status":"END","id":"7","event_count":3,"data_collections":[{"data_collection":"public.orders","event_count":2},{"data_collection":"public.log","event_count":1}],"__pos":"{\"lsn\":\"0/2\"}","__gen":4,"__ts_us":1700000000123456}`},
		{end(8), `shop.transaction/0 {"status":"END","id":"8","event_count":0,"data_collections":[],"__pos":"{\"lsn\":\"0/2\"}","__gen":4,"__ts_us":1700000000123456}`},
		{end(0), ""},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Error(diff)
		}
	}
}
