package values

import "github.com/tidemark-cdc/tidemark/schema"

// UnknownLabelError says that an enum's value is none of the labels its type had when the
// catalogue was read: a label was added or renamed since.
type UnknownLabelError struct {
	Type  uint32 // OID of the enum
	Label string // never part of the message: it is the value
}

func (e *UnknownLabelError) Error() string { return "is not one of the labels of its enum" }

func mapEnum(info TypeInfo) (schema.Type, Decoder) {
	labels := append([]string(nil), info.Labels...)
	known := make(map[string]bool, len(labels))
	for _, l := range labels {
		known[l] = true
	}
	oid := info.OID
	return schema.Type{Kind: schema.KindString, Logical: schema.LogicalEnum, Labels: labels}, func(_ *Arena, b []byte) (schema.Value, error) {
		if !known[string(b)] {
			return schema.Value{}, &UnknownLabelError{Type: oid, Label: string(b)}
		}
		return schema.Text(b), nil
	}
}
