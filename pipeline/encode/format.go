package encode

import (
	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Format says what keys and values hold. The flat one is this package's; package debezium has another.
type Format interface {
	// Check returns why a table cannot be published, of names alone.
	Check(t *schema.Table) error
	// Table compiles one version of a table.
	Table(t *schema.Table) (TableFormat, error)
	// Brackets writes the transaction topic's records.
	Brackets() Brackets
	// Truncate compiles what writes truncates of a table: AppendValue alone is called, with a change without rows.
	Truncate(t *schema.Table) (TableFormat, error)
	// Messages compiles what writes logical messages: Change.Message is set, the row is the prefix, content and transactional.
	Messages() (TableFormat, error)
}

// TableFormat writes the records of one version of a table. What it appends has no wire format's
// header. After an error the buffer is as long as before.
type TableFormat interface {
	Schemas() Schemas
	// Op is the operation a change of a row is published as; false where it is no record of its own.
	Op(c *connectors.Change) (connectors.Op, bool)
	AppendKey(dst []byte, row schema.Row) ([]byte, error)
	AppendValue(dst []byte, c *connectors.Change, m *Meta) ([]byte, error)
	// AppendHeaders appends the format's own headers to c.Headers, their bytes to c.Buf.
	AppendHeaders(c *pipeline.Chunk, change *connectors.Change) error
}

// Schemas are what a registry must know of a key and a value.
type Schemas struct {
	Key, Value string // texts; empty where a converter needs no registry, or there is no key
	Fixed      string // what the key's bytes depend on beside the row: fixed for a generation; empty where keyless
}

// Meta is what a value says about its change beside the change.
type Meta struct {
	Op    connectors.Op
	Tx    *connectors.Transaction
	Seq   int64
	Gen   int64
	Total int64 // ordinal of the record among those of its transaction, from 1; 0 where transactions are not published
	Own   int64 // ordinal among those of its table
	Now   int64 // wall clock, nanoseconds since the Unix epoch
}

// Brackets writes the records that begin and end a source transaction. What it appends has no wire format's header.
type Brackets interface {
	Schemas() Schemas
	Begins() bool // whether there is a record for the begin
	AppendKey(dst []byte, b *Bracket) ([]byte, error)
	AppendValue(dst []byte, b *Bracket) ([]byte, error)
}

// Bracket is the begin or the end of a source transaction.
type Bracket struct {
	End    bool
	Tx     *connectors.Transaction
	Gen    int64
	Events int64 // records published of it, tombstones aside; of the end only
	Counts []Count
}

// Count is how many records of a transaction are of one table.
type Count struct {
	Table  string // qualified name
	Events int64
}
