// Package records reads change records as a consumer sees them: which generations count, and what a record says.
package records

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// Schemas finds the text of a schema by its registry id.
type Schemas interface {
	SchemaByID(ctx context.Context, id int) (string, error)
}

// Decoder renders keys and values as JSON. Bytes in Confluent's wire format are decoded with their
// schema; JSON is passed on; anything else is shown as a JSON string of its bytes. It is not safe for concurrent use.
type Decoder struct {
	schemas Schemas
	codecs  map[int]*avro.Codec
}

// NewDecoder returns a decoder; schemas may be nil where there is no registry.
func NewDecoder(schemas Schemas) *Decoder {
	return &Decoder{schemas: schemas, codecs: map[int]*avro.Codec{}}
}

// AppendJSON appends b as JSON, null where b is nil.
func (d *Decoder) AppendJSON(ctx context.Context, dst, b []byte) ([]byte, error) {
	if b == nil {
		return append(dst, "null"...), nil
	}
	id, body, err := registry.ParseHeader(b)
	if err != nil {
		if json.Valid(b) {
			return append(dst, b...), nil
		}
		text, err := json.Marshal(string(b))
		return append(dst, text...), err
	}
	c, err := d.Codec(ctx, id)
	if err != nil {
		return dst, err
	}
	return c.AppendJSON(dst, body)
}

// Codec returns the codec of a schema id.
func (d *Decoder) Codec(ctx context.Context, id int) (*avro.Codec, error) {
	if c, ok := d.codecs[id]; ok {
		return c, nil
	}
	if d.schemas == nil {
		return nil, fmt.Errorf("the record needs schema %d: say where the schema registry is", id)
	}
	text, err := d.schemas.SchemaByID(ctx, id)
	if err != nil {
		return nil, err
	}
	c, err := avro.NewCodec(text)
	if err != nil {
		return nil, fmt.Errorf("schema %d: %w", id, err)
	}
	d.codecs[id] = c
	return c, nil
}
