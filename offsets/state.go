package offsets

// The partitions of one stream. Every stream has one generation, one boundary, and one entry per table.
// Member order is fixed: the partition's bytes are the record key, and compaction goes by it.

// StreamPartition is the partition of the stream's boundary.
func StreamPartition(server string) Object {
	return Object{{"server", server}}
}

// GenerationPartition is the partition of the stream's generation.
func GenerationPartition(server string) Object {
	return Object{{"server", server}, {"kind", "generation"}}
}

// TablePartition is the partition of one table's state; table is its qualified name.
func TablePartition(server, table string) Object {
	return Object{{"server", server}, {"kind", "table"}, {"table", table}}
}

// SetPartition is the partition of the stream's table set.
func SetPartition(server string) Object {
	return Object{{"server", server}, {"kind", "tables"}}
}

// Names of members of the stream's value that every engine has. The engine adds its own.
const (
	FieldGroup     = "group"     // group.id of the worker that owns the stream
	FieldConnector = "connector" // name of the connector that owns the stream
	FieldPos       = "pos"       // __pos of the last complete source transaction, as text; absent before the first
)

// Generation is the value of the generation's entry.
type Generation struct {
	Number   int64  // from 1
	Start    string // position where it begins, compact JSON
	Baseline bool   // replaces all earlier generations
	// Building is set while a later baseline is not yet whole: it has no activation record so far, and does not count.
	Building bool
}

// TableState is the value of a table's entry.
type TableState struct {
	ID          uint64 // the engine's own id (PostgreSQL: OID)
	Name        string // qualified name
	KeyColumns  string // JSON array of names, in key order; [] where keyless
	KeyTypes    string // the database's names of their types, comma-separated
	Identity    string // replica identity
	KeySchemaID int64  // registry id of the key schema; 0 where keyless
	// ValueSchemaID is the registry id of the value schema last used; 0 where it is not known.
	ValueSchemaID int64
	Topic         string
	Partitions    int64    // partition count of the topic
	Generation    int64    // generation in which it was written
	Snapshot      Progress // of the table's newest snapshot
}
