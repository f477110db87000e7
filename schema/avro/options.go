package avro

import (
	"fmt"
	"strings"

	"github.com/tidemark-cdc/tidemark/schema"
)

// DefaultMetadataPrefix is the default of the property metadata.field.prefix.
const DefaultMetadataPrefix = "__"

// The metadata fields of a value, without their prefix, in the order of the schema.
const (
	FieldOp          = "op"          // string: c, u, d, r, t or m
	FieldPos         = "pos"         // string: commit position, compact JSON
	FieldSeq         = "seq"         // long: ordinal of the change in its commit group
	FieldGen         = "gen"         // long: generation, from 1
	FieldTs          = "ts_us"       // long, timestamp-micros: commit time
	FieldUnavailable = "unavailable" // array<string>: columns whose value the log did not carry
)

var metadataFields = [...]string{FieldOp, FieldPos, FieldSeq, FieldGen, FieldTs, FieldUnavailable}

// Options say how a table's schemas are named.
type Options struct {
	// Namespace holds the parts of the records' namespace, such as topic prefix, schema and
	// table, unmangled; a dot inside a part is escaped. See Namespace.
	Namespace []string
	// MetadataPrefix begins the names of the metadata fields (property metadata.field.prefix):
	// ASCII letters, digits and underscores. Empty means DefaultMetadataPrefix.
	MetadataPrefix string
}

// Namespace returns the parts of a namespace: those of the topic prefix, which may contain
// dots, and then the given ones, empty ones left out.
func Namespace(prefix string, parts ...string) []string {
	var out []string
	for _, p := range append(strings.Split(prefix, "."), parts...) {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

// Field returns the full name of a metadata field, such as __pos for FieldPos.
func (o Options) Field(name string) string {
	if o.MetadataPrefix == "" {
		return DefaultMetadataPrefix + name
	}
	return o.MetadataPrefix + name
}

// CheckNames reports the first column whose field name is taken by a metadata field or by
// another column, with the way out.
func CheckNames(t *schema.Table, o Options) error {
	if needsEscape(o.Field(FieldOp)) {
		return fmt.Errorf("metadata.field.prefix %q must begin with a letter or underscore and hold only ASCII letters, digits and underscores", o.MetadataPrefix)
	}
	taken := make(map[string]string, len(t.Columns))
	for _, c := range t.Columns {
		name := Name(c.Name)
		for _, f := range metadataFields {
			if name == o.Field(f) {
				return fmt.Errorf("column %q of table %s has the name of a metadata field; set metadata.field.prefix (now %q) to another prefix, or exclude the column",
					c.Name, t.QualifiedName(), o.Field(""))
			}
		}
		if other, ok := taken[name]; ok {
			return fmt.Errorf("columns %q and %q of table %s both become the field %s; exclude or rename one of them", other, c.Name, t.QualifiedName(), name)
		}
		taken[name] = c.Name
	}
	return nil
}
