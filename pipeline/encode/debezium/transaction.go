package debezium

import (
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// brackets writes the transaction topic.
type brackets struct{ key, value *connect.Writer }

// Brackets writes the transaction topic's records.
func (f *Format) Brackets() encode.Brackets {
	text, long := connect.Of(connect.String), connect.Of(connect.Int64)
	key := connect.Named(connect.Struct, "io.debezium.connector.common.TransactionMetadataKey")
	key.Fields = []connect.Field{{Name: "id", Schema: text}}
	collection := connect.Named(connect.Struct, "event.collection")
	collection.Fields = []connect.Field{{Name: "data_collection", Schema: text}, {Name: "event_count", Schema: long}}
	value := connect.Named(connect.Struct, "io.debezium.connector.common.TransactionMetadataValue")
	value.Fields = []connect.Field{
		{Name: "status", Schema: text}, {Name: "id", Schema: text}, {Name: "event_count", Schema: long.Opt()},
		{Name: "data_collections", Schema: &connect.Schema{Type: connect.Array, Elem: collection.Opt(), Optional: true}}, {Name: "ts_ms", Schema: long},
	}
	return &brackets{connect.NewWriter(key, f.cfg.Key), connect.NewWriter(value, f.cfg.Value)}
}

func (b *brackets) Schemas() encode.Schemas {
	return encode.Schemas{Key: b.key.Registered(), Value: b.value.Registered(), Fixed: b.key.Fixed()}
}

func (b *brackets) Begins() bool { return true }

func id(br *encode.Bracket) schema.Value {
	lsn := br.Tx.BeginLSN
	if br.End {
		lsn = br.Tx.EndLSN
	}
	return schema.Text(appendID(nil, br.Tx.ID, lsn))
}

func (b *brackets) AppendKey(dst []byte, br *encode.Bracket) ([]byte, error) {
	v := schema.Array([]schema.Value{id(br)})
	return b.key.Append(dst, &v)
}

func (b *brackets) AppendValue(dst []byte, br *encode.Bracket) ([]byte, error) {
	v := []schema.Value{schema.Text([]byte("BEGIN")), id(br), schema.Null(), schema.Null(), schema.Int(floorDiv(br.Tx.CommitTime, 1000))}
	if br.End {
		counts := make([]schema.Value, len(br.Counts))
		for i, c := range br.Counts {
			counts[i] = schema.Array([]schema.Value{schema.Text([]byte(c.Table)), schema.Int(c.Events)})
		}
		v[0], v[2], v[3] = schema.Text([]byte("END")), schema.Int(br.Events), schema.Array(counts)
	}
	s := schema.Array(v)
	return b.value.Append(dst, &s)
}
