package sourcetest

import (
	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Table returns a table public.<name> with the key column id (bigint) and the column v (text).
func Table(name string) *schema.Table {
	return &schema.Table{
		ID: 16384, Database: "test", Namespace: "public", Name: name, Version: 1, Identity: "default", Key: []int{0},
		Columns: []schema.Column{
			{Name: "id", NotNull: true, Type: schema.Type{Kind: schema.KindInt, Bits: 64, Name: "bigint"}},
			{Name: "v", Type: schema.Type{Kind: schema.KindString, Name: "text"}},
		},
	}
}

// Insert returns the insert of a row of a table as Table makes them.
func Insert(t *schema.Table, id int64, v string) connectors.Change {
	return connectors.Change{Op: connectors.OpCreate, Table: t, After: schema.Row{schema.Int(id), schema.Text([]byte(v))}}
}

// Delete returns the delete of such a row.
func Delete(t *schema.Table, id int64) connectors.Change {
	return connectors.Change{Op: connectors.OpDelete, Table: t, Before: schema.Row{schema.Int(id), {}}}
}
