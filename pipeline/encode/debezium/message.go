package debezium

import (
	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// messages writes logical messages.
type messages struct {
	t          *table // for source and transaction
	content    mapping
	key, value *connect.Writer
}

// Truncate writes a truncate like any change of the table.
func (f *Format) Truncate(t *schema.Table) (encode.TableFormat, error) { return f.Table(t) }

// Messages writes logical messages.
func (f *Format) Messages() (encode.TableFormat, error) {
	text := connect.Of(connect.String)
	key := connect.Named(connect.Struct, "io.debezium.connector.postgresql.MessageKey")
	key.Fields = []connect.Field{{Name: "prefix", Schema: text.Opt()}}
	content := f.mapBinary(schema.Value{})
	message := connect.Named(connect.Struct, "io.debezium.connector.postgresql.Message")
	message.Fields = []connect.Field{{Name: "prefix", Schema: text.Opt()}, {Name: "content", Schema: content.schema.Opt()}}
	value := connect.Named(connect.Struct, "io.debezium.connector.postgresql.MessageValue")
	value.Fields = []connect.Field{
		{Name: "op", Schema: text}, {Name: "ts_ms", Schema: connect.Of(connect.Int64).Opt()}, {Name: "source", Schema: f.source},
		{Name: "transaction", Schema: f.block}, {Name: "message", Schema: message},
	}
	return &messages{f.newTable(&schema.Table{}), content, connect.NewWriter(key, f.cfg.Key), connect.NewWriter(value, f.cfg.Value)}, nil
}

func (m *messages) Schemas() encode.Schemas {
	return encode.Schemas{Key: m.key.Registered(), Value: m.value.Registered(), Fixed: m.key.Fixed()}
}

func (m *messages) Op(c *connectors.Change) (connectors.Op, bool) { return c.Op, true }

func (m *messages) AppendHeaders(*pipeline.Chunk, *connectors.Change) error { return nil }

func (m *messages) AppendKey(dst []byte, row schema.Row) ([]byte, error) {
	v := schema.Array(row[:1])
	return m.key.Append(dst, &v)
}

func (m *messages) AppendValue(dst []byte, c *connectors.Change, meta *encode.Meta) ([]byte, error) {
	m.t.arena.reset()
	raw := schema.Bytes(c.Message.Content)
	content, err := m.content.convert(&m.t.arena, &raw)
	if err != nil {
		return dst, err
	}
	v := schema.Array([]schema.Value{
		schema.Text([]byte{byte(meta.Op)}), schema.Int(meta.Now / 1_000_000), m.t.sourceValue(c, meta), m.t.blockValue(c, meta),
		schema.Array([]schema.Value{schema.Text([]byte(c.Message.Prefix)), content}),
	})
	return m.value.Append(dst, &v)
}
