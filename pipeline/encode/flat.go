package encode

import (
	"fmt"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// flat is the flat format, in Avro or JSON.
type flat struct {
	prefix, metadata string
	key, value       connect.Converter
}

// flatTable writes a table's records; each side has an Avro plan or a JSON writer.
type flatTable struct {
	table     *schema.Table
	schemas   Schemas
	key       *avro.Plan
	value     *avro.Plan
	keyJSON   *connect.Writer
	valueJSON *connect.Writer
	elems     []schema.Value // scratch of a JSON record
	names     []schema.Value // scratch of __unavailable
	meta      avro.Meta
}

func (f *flat) options(t *schema.Table) avro.Options {
	return avro.Options{Namespace: avro.Namespace(f.prefix, t.Namespace, t.Name), MetadataPrefix: f.metadata}
}

func (f *flat) Check(t *schema.Table) error { return avro.CheckNames(t, f.options(t)) }

func (f *flat) Table(t *schema.Table) (TableFormat, error) { return f.compile(t, f.options(t)) }

func (f *flat) compile(t *schema.Table, o avro.Options) (*flatTable, error) {
	p := &flatTable{table: t}
	if len(t.Key) > 0 {
		key, err := avro.CompileKey(t, o)
		if err != nil {
			return nil, fmt.Errorf("key of table %s: %w", t.QualifiedName(), err)
		}
		p.key, p.schemas.Key, p.schemas.Fixed = key, key.Schema(), key.Schema()
		if f.key.JSON {
			p.keyJSON = connect.NewWriter(flatKey(t, o), f.key)
			p.schemas.Key, p.schemas.Fixed = "", p.keyJSON.Fixed()
		}
	}
	value, err := avro.CompileValue(t, o)
	if err != nil {
		return nil, fmt.Errorf("value of table %s: %w", t.QualifiedName(), err)
	}
	p.value, p.schemas.Value = value, value.Schema()
	if f.value.JSON {
		p.valueJSON = connect.NewWriter(flatValue(t, o), f.value)
		p.schemas.Value = ""
	}
	return p, nil
}

func (p *flatTable) Schemas() Schemas { return p.schemas }

func (p *flatTable) Op(c *connectors.Change) (connectors.Op, bool) { return c.Op, true }

func (p *flatTable) AppendHeaders(*pipeline.Chunk, *connectors.Change) error { return nil }

func (p *flatTable) AppendKey(dst []byte, row schema.Row) ([]byte, error) {
	if p.keyJSON == nil {
		return p.key.AppendKey(dst, row)
	}
	if _, err := p.key.AppendKey(dst, row); err != nil { // the same checks, and the same words
		return dst, err
	}
	p.elems = p.elems[:0]
	for _, k := range p.table.Key {
		p.elems = append(p.elems, row[k])
	}
	v := schema.Array(p.elems)
	return p.keyJSON.Append(dst, &v)
}

func (p *flatTable) AppendValue(dst []byte, c *connectors.Change, m *Meta) ([]byte, error) {
	row := c.After
	if c.Op == connectors.OpDelete {
		row = c.Before
	}
	p.meta = avro.Meta{Op: byte(m.Op), Pos: m.Tx.Pos, Seq: m.Seq, Gen: m.Gen, TsMicros: m.Tx.CommitTime}
	if p.valueJSON == nil {
		return p.value.AppendValue(dst, row, &p.meta)
	}
	if _, err := p.value.AppendValue(dst, row, &p.meta); err != nil {
		return dst, err
	}
	p.elems, p.names = append(p.elems[:0], row...), p.names[:0]
	if c.Op != connectors.OpDelete {
		for i := range row {
			if row[i].Kind == schema.KindUnavailable {
				p.names = append(p.names, schema.Text([]byte(p.table.Columns[i].Name)))
			}
		}
	}
	p.elems = append(p.elems, schema.Text([]byte{byte(m.Op)}), schema.Text([]byte(m.Tx.Pos)), schema.Int(m.Seq),
		schema.Int(m.Gen), schema.Int(m.Tx.CommitTime), schema.Array(p.names))
	v := schema.Array(p.elems)
	return p.valueJSON.Append(dst, &v)
}

// flatKey and flatValue are the flat schemas as Connect's, for JSON: names as in Avro.
func flatKey(t *schema.Table, o avro.Options) *connect.Schema {
	s := &connect.Schema{Type: connect.Struct, Name: schemaName(o, "Key")}
	for _, k := range t.Key {
		s.Fields = append(s.Fields, connect.Field{Name: avro.Name(t.Columns[k].Name), Schema: connectType(&t.Columns[k].Type)})
	}
	return s
}

func flatValue(t *schema.Table, o avro.Options) *connect.Schema {
	s := &connect.Schema{Type: connect.Struct, Name: schemaName(o, "Value")}
	add := func(name string, of *connect.Schema) {
		s.Fields = append(s.Fields, connect.Field{Name: name, Schema: of})
	}
	for i := range t.Columns {
		typ := connectType(&t.Columns[i].Type)
		if !t.IsKey(i) {
			typ = typ.Opt()
		}
		add(avro.Name(t.Columns[i].Name), typ)
	}
	add(o.Field(avro.FieldOp), connect.Of(connect.String))
	add(o.Field(avro.FieldPos), connect.Of(connect.String))
	add(o.Field(avro.FieldSeq), connect.Of(connect.Int64))
	add(o.Field(avro.FieldGen), connect.Of(connect.Int64))
	add(o.Field(avro.FieldTs), connect.Named(connect.Int64, "io.debezium.time.MicroTimestamp"))
	add(o.Field(avro.FieldUnavailable), &connect.Schema{Type: connect.Array, Elem: connect.Of(connect.String)})
	return s
}

func schemaName(o avro.Options, last string) string {
	parts := make([]string, 0, len(o.Namespace)+1)
	for _, n := range o.Namespace {
		parts = append(parts, avro.Name(n))
	}
	return strings.Join(append(parts, last), ".")
}

// connectType is a column's Connect type in the flat format; the logical names are Debezium's, which Connect itself lacks.
func connectType(t *schema.Type) *connect.Schema {
	switch t.Kind {
	case schema.KindBool:
		return connect.Of(connect.Boolean)
	case schema.KindFloat32:
		return connect.Of(connect.Float32)
	case schema.KindFloat64:
		return connect.Of(connect.Float64)
	case schema.KindBytes:
		return connect.Of(connect.Bytes)
	case schema.KindDecimal:
		return connect.Named(connect.Bytes, connect.DecimalName,
			connect.Param{Name: connect.ParamScale, Value: fmt.Sprint(t.Scale)}, connect.Param{Name: connect.ParamPrecision, Value: fmt.Sprint(t.Precision)})
	case schema.KindArray:
		return &connect.Schema{Type: connect.Array, Elem: connectType(t.Elem).Opt()}
	case schema.KindMap:
		return &connect.Schema{Type: connect.Map, Elem: connectType(t.Elem).Opt()}
	case schema.KindInt:
		return connectInt(t)
	}
	return connect.Of(connect.String)
}

func connectInt(t *schema.Type) *connect.Schema {
	switch {
	case t.Logical == schema.LogicalDate:
		return connect.Named(connect.Int32, "io.debezium.time.Date")
	case t.Logical == schema.LogicalTime:
		return connect.Named(connect.Int64, "io.debezium.time.MicroTime")
	case t.Logical == schema.LogicalTimestamp || t.Logical == schema.LogicalLocalTimestamp:
		return connect.Named(connect.Int64, "io.debezium.time.MicroTimestamp")
	case t.Bits == 16:
		return connect.Of(connect.Int16)
	case t.Bits == 32:
		return connect.Of(connect.Int32)
	}
	return connect.Of(connect.Int64)
}
