package debezium

import (
	"fmt"

	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// Format implements encode.Format.
type Format struct {
	cfg     Config
	source  *connect.Schema
	block   *connect.Schema
	context [4][]byte // values of the headers __debezium.context.*
}

var _ encode.Format = (*Format)(nil)

// New returns the format.
func New(cfg Config) *Format {
	f := &Format{cfg: cfg.withDefaults(), source: sourceSchema(), block: blockSchema()}
	f.context = [4][]byte{[]byte(f.cfg.Prefix), []byte("0"), []byte("postgresql"), []byte(f.cfg.RunID)}
	return f
}

// Check returns why a table cannot be published, of names alone: Avro takes only some names.
func (f *Format) Check(t *schema.Table) error {
	taken := map[string]string{}
	for i := range t.Columns {
		name := adjust(f.cfg.FieldNames, t.Columns[i].Name, false)
		if other, ok := taken[name]; ok {
			return fmt.Errorf("columns %q and %q of table %s both become the field %s; exclude or rename one of them, or set field.name.adjustment.mode to avro_unicode", other, t.Columns[i].Name, t.QualifiedName(), name)
		}
		taken[name] = t.Columns[i].Name
		if !avroName(name) && (!f.cfg.Value.JSON || !f.cfg.Key.JSON && t.IsKey(i)) {
			return fmt.Errorf("column %q of table %s is no name that Avro takes; set field.name.adjustment.mode to avro", t.Columns[i].Name, t.QualifiedName())
		}
	}
	if name := f.schemaName(t, "Value"); !avroName(name) && (!f.cfg.Value.JSON || !f.cfg.Key.JSON) {
		return fmt.Errorf("schema %s of table %s has no name that Avro takes; set schema.name.adjustment.mode to avro", name, t.QualifiedName())
	}
	return nil
}

func (f *Format) schemaName(t *schema.Table, last string) string {
	return adjust(f.cfg.SchemaNames, f.cfg.Topic(t.Namespace, t.Name)+"."+last, true)
}

func sourceSchema() *connect.Schema {
	text, long := connect.Of(connect.String), connect.Of(connect.Int64)
	snapshot := connect.Named(connect.String, "io.debezium.data.Enum", connect.Param{Name: "allowed", Value: "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"})
	snapshot.Optional = true
	off := schema.Text([]byte("false"))
	snapshot.Default = &off
	s := connect.Named(connect.Struct, "io.debezium.connector.postgresql.Source")
	s.Fields = []connect.Field{
		{Name: "version", Schema: text}, {Name: "connector", Schema: text}, {Name: "name", Schema: text}, {Name: "ts_ms", Schema: long},
		{Name: "snapshot", Schema: snapshot}, {Name: "db", Schema: text}, {Name: "sequence", Schema: text.Opt()},
		{Name: "ts_us", Schema: long.Opt()}, {Name: "ts_ns", Schema: long.Opt()}, {Name: "schema", Schema: text}, {Name: "table", Schema: text},
		{Name: "txId", Schema: long.Opt()}, {Name: "lsn", Schema: long.Opt()}, {Name: "xmin", Schema: long.Opt()},
		{Name: "origin", Schema: text.Opt()}, {Name: "origin_lsn", Schema: long.Opt()},
	}
	return s
}

func blockSchema() *connect.Schema {
	text, long := connect.Of(connect.String), connect.Of(connect.Int64)
	s := connect.Named(connect.Struct, "event.block")
	s.Fields = []connect.Field{{Name: "id", Schema: text}, {Name: "total_order", Schema: long}, {Name: "data_collection_order", Schema: long}}
	return s.Opt()
}

func (f *Format) envelopeSchema(t *schema.Table, row *connect.Schema) *connect.Schema {
	long := connect.Of(connect.Int64).Opt()
	return &connect.Schema{Type: connect.Struct, Name: f.schemaName(t, "Envelope"), Version: 2, Fields: []connect.Field{
		{Name: "before", Schema: row}, {Name: "after", Schema: row}, {Name: "source", Schema: f.source}, {Name: "transaction", Schema: f.block},
		{Name: "op", Schema: connect.Of(connect.String)}, {Name: "ts_ms", Schema: long}, {Name: "ts_us", Schema: long}, {Name: "ts_ns", Schema: long},
	}}
}
