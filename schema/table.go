package schema

import "strings"

// Logical refines a Kind: what the number or text means.
type Logical uint8

// The logical types.
const (
	LogicalNone           Logical = iota
	LogicalDate                   // KindInt: days since 1970-01-01, proleptic Gregorian
	LogicalTime                   // KindInt: microseconds since midnight; 24:00:00 is 86,400,000,000
	LogicalTimestamp              // KindInt: microseconds since 1970-01-01T00:00:00Z, an instant
	LogicalLocalTimestamp         // KindInt: microseconds since 1970-01-01T00:00:00, without a zone
	LogicalUUID                   // KindString: 36 lower-case characters
	LogicalJSON                   // KindString: the text as the database sends it
	LogicalEnum                   // KindString: one of Type.Labels as of the catalogue read
)

// Sentinels for infinite dates and timestamps, the same in every path.
const (
	InfinityDate              = int64(1<<31 - 1)
	NegativeInfinityDate      = int64(-1 << 31)
	InfinityTimestamp         = int64(1<<63 - 1)
	NegativeInfinityTimestamp = int64(-1 << 63)
)

// Type is the type of a column or of an array's elements.
type Type struct {
	Kind      Kind
	Logical   Logical
	Bits      int      // KindInt without Logical: 16, 32 or 64
	Precision int      // KindDecimal: digits, from 1
	Scale     int      // KindDecimal: digits after the point, 0 to Precision
	Elem      *Type    // KindArray: never an array itself; KindMap: the type of the values
	Labels    []string // LogicalEnum: in the enum's order
	Name      string   // the database's own name of the type, such as "character varying(30)"
	OID       uint32   // the engine's id of the type, 0 where it has none
	Base      string   // the engine's internal name of the type, or of the one below a domain, such as "int4" or "hstore"; empty where unknown
	Modifier  int32    // the engine's modifier of the type Base names (PostgreSQL: atttypmod), -1 where it has none
	Domain    bool     // a domain over the type that Base names
}

// Column is a column of a table version.
type Column struct {
	Name    string // as in the database, unquoted, UTF-8
	Type    Type
	NotNull bool // declared NOT NULL (or part of the primary key)
	// External says that the engine stores large values of the column apart, so that the log may lack those which an update left alone.
	External bool
	Default  string // the default's expression as the database prints it; empty where there is none
}

// Table is one immutable version of a table: what was in force at a change.
// A changed table is a new Table with a higher Version.
type Table struct {
	ID        uint64 // the engine's own id of the table (PostgreSQL: OID)
	Database  string
	Namespace string // schema; empty where the engine has none
	Name      string
	Columns   []Column
	Key       []int  // indexes into Columns, in key order; empty: keyless
	Identity  string // replica identity: "default", "full", "nothing" or "index <name>"; empty where the engine has none
	Version   int    // from 1, local to this process
}

// QualifiedName returns namespace.name, unquoted, for messages and offsets.
func (t *Table) QualifiedName() string {
	if t.Namespace == "" {
		return t.Name
	}
	return t.Namespace + "." + t.Name
}

// ColumnIndex returns the index of the named column, or -1.
func (t *Table) ColumnIndex(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// IsKey reports whether column i is part of the key.
func (t *Table) IsKey(i int) bool {
	for _, k := range t.Key {
		if k == i {
			return true
		}
	}
	return false
}

// KeyColumns returns the names of the key columns, in key order.
func (t *Table) KeyColumns() []string {
	names := make([]string, len(t.Key))
	for i, k := range t.Key {
		names[i] = t.Columns[k].Name
	}
	return names
}

// KeyTypes returns the database's names of the key columns' types, in key order.
func (t *Table) KeyTypes() string {
	names := make([]string, len(t.Key))
	for i, k := range t.Key {
		names[i] = t.Columns[k].Type.Name
	}
	return strings.Join(names, ",")
}
