package avro

import (
	"fmt"
	"strconv"

	"github.com/tidemark-cdc/tidemark/schema"
)

// Properties of a value's fields. They are for people and tools; no consumer needs them.
const (
	propertyColumn = "tidemark.column" // the column's name, where the field's differs
	propertyType   = "tidemark.type"   // the database's name of the type
	propertyLabels = "tidemark.labels" // an enum's labels, in order
)

// KeySchema returns the text of the key's schema: names and types of the key columns in key
// order and nothing else, because the text is fixed for a generation.
func KeySchema(t *schema.Table, o Options) (string, error) {
	if len(t.Key) == 0 {
		return "", fmt.Errorf("table %s has no key", t.QualifiedName())
	}
	b := appendRecord(nil, "Key", o)
	for i, k := range t.Key {
		if i > 0 {
			b = append(b, ',')
		}
		c := &t.Columns[k]
		b = append(appendString(append(b, `{"name":`...), Name(c.Name)), `,"type":`...)
		var err error
		if b, err = appendType(b, &c.Type); err != nil {
			return "", fmt.Errorf("column %q of table %s: %w", c.Name, t.QualifiedName(), err)
		}
		b = append(b, '}')
	}
	return string(append(b, `]}`...)), nil
}

// ValueSchema returns the text of the value's schema in the flat format.
func ValueSchema(t *schema.Table, o Options) (string, error) {
	if err := CheckNames(t, o); err != nil {
		return "", err
	}
	b := appendRecord(nil, "Value", o)
	for i := range t.Columns {
		var err error
		if b, err = appendField(b, &t.Columns[i], t.IsKey(i)); err != nil {
			return "", fmt.Errorf("column %q of table %s: %w", t.Columns[i].Name, t.QualifiedName(), err)
		}
		b = append(b, ',')
	}
	for i, f := range metadataFields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(append(b, `{"name":`...), o.Field(f)), `,"type":`...)
		switch f {
		case FieldOp, FieldPos:
			b = append(b, `"string"}`...)
		case FieldSeq, FieldGen:
			b = append(b, `"long"}`...)
		case FieldTs:
			b = append(b, `{"type":"long","logicalType":"timestamp-micros"}}`...)
		case FieldUnavailable:
			b = append(b, `{"type":"array","items":"string"},"default":[]}`...)
		}
	}
	return string(append(b, `]}`...)), nil
}

func appendRecord(b []byte, name string, o Options) []byte {
	b = append(append(append(b, `{"type":"record","name":"`...), name...), '"')
	if len(o.Namespace) > 0 {
		b = appendString(append(b, `,"namespace":`...), namespace(o.Namespace))
	}
	return append(b, `,"fields":[`...)
}

func appendField(b []byte, c *schema.Column, key bool) ([]byte, error) {
	name := Name(c.Name)
	b = append(appendString(append(b, `{"name":`...), name), `,"type":`...)
	if !key {
		b = append(b, `["null",`...)
	}
	b, err := appendType(b, &c.Type)
	if err != nil {
		return nil, err
	}
	if !key {
		b = append(b, `],"default":null`...)
	}
	if name != c.Name {
		b = appendString(append(b, `,"`+propertyColumn+`":`...), c.Name)
	}
	if c.Type.Name != "" {
		b = appendString(append(b, `,"`+propertyType+`":`...), c.Type.Name)
	}
	labels := c.Type.Labels
	if c.Type.Kind == schema.KindArray && c.Type.Elem != nil {
		labels = c.Type.Elem.Labels
	}
	if len(labels) > 0 {
		b = append(b, `,"`+propertyLabels+`":[`...)
		for i, l := range labels {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, l)
		}
		b = append(b, ']')
	}
	return append(b, '}'), nil
}

// appendType appends the Avro type, without any property that is not part of the type.
func appendType(b []byte, t *schema.Type) ([]byte, error) {
	switch t.Kind {
	case schema.KindBool:
		return append(b, `"boolean"`...), nil
	case schema.KindInt:
		return appendIntType(b, t)
	case schema.KindFloat32:
		return append(b, `"float"`...), nil
	case schema.KindFloat64:
		return append(b, `"double"`...), nil
	case schema.KindString:
		if t.Logical == schema.LogicalUUID {
			return append(b, `{"type":"string","logicalType":"uuid"}`...), nil
		}
		return append(b, `"string"`...), nil
	case schema.KindBytes:
		return append(b, `"bytes"`...), nil
	case schema.KindDecimal:
		if t.Precision < 1 || t.Scale < 0 || t.Scale > t.Precision {
			return nil, fmt.Errorf("type %s: precision %d and scale %d are not those of an Avro decimal", t.Name, t.Precision, t.Scale)
		}
		b = strconv.AppendInt(append(b, `{"type":"bytes","logicalType":"decimal","precision":`...), int64(t.Precision), 10)
		return append(strconv.AppendInt(append(b, `,"scale":`...), int64(t.Scale), 10), '}'), nil
	case schema.KindArray:
		if t.Elem == nil || t.Elem.Kind == schema.KindArray {
			return nil, fmt.Errorf("type %s: an array needs an element type that is not an array", t.Name)
		}
		b, err := appendType(append(b, `{"type":"array","items":["null",`...), t.Elem)
		return append(b, `]}`...), err
	case schema.KindMap:
		if t.Elem == nil {
			return nil, fmt.Errorf("type %s: a map needs a type of its values", t.Name)
		}
		b, err := appendType(append(b, `{"type":"map","values":["null",`...), t.Elem)
		return append(b, `]}`...), err
	}
	return nil, fmt.Errorf("type %s: no Avro type for kind %s", t.Name, t.Kind)
}

func appendIntType(b []byte, t *schema.Type) ([]byte, error) {
	switch t.Logical {
	case schema.LogicalDate:
		return append(b, `{"type":"int","logicalType":"date"}`...), nil
	case schema.LogicalTime:
		return append(b, `{"type":"long","logicalType":"time-micros"}`...), nil
	case schema.LogicalTimestamp:
		return append(b, `{"type":"long","logicalType":"timestamp-micros"}`...), nil
	case schema.LogicalLocalTimestamp:
		return append(b, `{"type":"long","logicalType":"local-timestamp-micros"}`...), nil
	}
	switch t.Bits {
	case 16, 32:
		return append(b, `"int"`...), nil
	case 64:
		return append(b, `"long"`...), nil
	}
	return nil, fmt.Errorf("type %s: no Avro type for an integer of %d bits", t.Name, t.Bits)
}
