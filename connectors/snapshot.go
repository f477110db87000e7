package connectors

import (
	"context"
	"errors"

	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// FirstReadSeq is the first ordinal of rows that were read from a table, not from the log: they sit at a boundary, after the
// changes of the transaction whose position they carry, and count on from here.
const FirstReadSeq = int64(1) << 50

// ErrEnd is returned by Next of a bounded source: everything up to its end was handed out.
var ErrEnd = errors.New("the bounded run has come to its end")

// TableProgress is how far a table has been read, to be stored in the table's entry.
type TableProgress struct {
	Table    *schema.Table
	Progress offsets.Progress
}

// Snapshotter is a Source that can read the rows its tables have, beside its stream.
type Snapshotter interface {
	Source
	// OpenReader opens a connection of its own to read rows with. The source must be open.
	OpenReader(ctx context.Context) (Reader, error)
	// Position is the __pos of rows that are published at the boundary last handed out (before the first Next, at
	// the one Open returned). It is called on Next's goroutine.
	Position() string
	// Wake makes a blocked Next return an empty, lazy batch at its next boundary; before a Next it counts for that one. It may be
	// called from any goroutine, and does not block.
	Wake()
	// Mark writes a marker with the nonce into the log; the batch that closes its transaction has it in Markers. It may be
	// called from any goroutine.
	Mark(ctx context.Context, nonce string) error
}

// Reader reads rows over one connection. It is used by one goroutine at a time.
//
// An error of ClassWait passes with the connection: close the reader and open another. Any other is the snapshot's own: it
// fails alone and the stream goes on.
type Reader interface {
	// Chunk reads rows in key order.
	Chunk(ctx context.Context, q ChunkQuery) (*Chunk, error)
	// Copy reads a whole table as it is at one place in the log, for tables without a key. f is called for each run
	// of rows, which are valid until it returns; the place is known before the first.
	Copy(ctx context.Context, q CopyQuery, f func(CopyRows) error) error
	// Table describes a captured table, by qualified name, as Chunk reads it now, with an estimate of its rows (-1: unknown).
	Table(ctx context.Context, name string) (t *schema.Table, rows int64, err error)
	Close(ctx context.Context) error
}

// ChunkQuery says which rows a chunk reads.
type ChunkQuery struct {
	Table string   // qualified name
	After string   // where to go on: Chunk.Next of the chunk before; empty for the first
	Limit int      // rows; 0: only those of Again, and Done and Next mean nothing
	Again []string // keys to read besides, as Chunk.Key gave them
	Where string   // condition in the database's language that rows must fulfil; empty for none
	Key   []string // columns to page by in place of the key (surrogate key); nil for the key
	// Initial says that the rows are a table's initial content: those that the configuration selects in place of all, where it does.
	Initial bool
}

// Chunk is what was read at once, and what is known of when.
type Chunk struct {
	Table *schema.Table // the version the rows have
	Rows  []schema.Row  // the memory is the chunk's
	Next  string        // where the next chunk goes on; never empty where rows were read in key order
	Done  bool          // there is nothing after it
	// Visible says which transactions the rows contain.
	Visible Visibility
	// Place is where in the log all those transactions have been streamed.
	Place    Place
	ReadTime int64 // of the database, microseconds since the Unix epoch
	// Key writes a row's key as ChunkQuery.Again takes it; the row is one of the chunk's.
	Key func(schema.Row) string
	// Free, where it is not nil, gives the memory of the rows back to the reader, at most once and from any goroutine. It need not
	// be called; after it nothing of Rows may be used.
	Free func()
}

// Rejecter is a Source some of whose batches have rows of a table's snapshot. One that cannot be published fails that snapshot, and
// not the stream.
type Rejecter interface {
	// Reject is called, on Next's goroutine, for the batch that Next returned last, where a row of it would fail again on the same bytes.
	// It returns what is stored in place of the batch's Progress: the snapshot of its table has failed for the reason. The
	// batch makes no generation active. ok is false where the batch is not of a snapshot.
	Reject(reason error) (progress []TableProgress, ok bool)
}

// Visibility says which transactions a read has seen.
type Visibility interface {
	// Sees reports whether the read has seen the transaction's changes. What one read has seen every read sees that begins after
	// it has ended.
	Sees(tx *Transaction) bool
	// Settled reports whether this read, and so every later one, sees the transaction and all whose id is lower.
	Settled(tx *Transaction) bool
	// Above reports whether every transaction that was handed out or acknowledged before the source was opened is
	// settled: none of them can be in the log and not yet visible. Else waits tells who is waited for, one sentence.
	Above() (ok bool, waits string)
}

// Place is a place in the log between two transactions.
type Place interface {
	// Before reports whether the place lies before the batch's transaction.
	Before(b *Batch) bool
	// Reached reports whether the place lies at or before the boundary that closes the batch.
	Reached(b *Batch) bool
}

// CopyQuery says which table Copy reads.
type CopyQuery struct {
	Table   string // qualified name
	Where   string // condition, empty for none
	Initial bool   // as in ChunkQuery
}

// CopyRows is a run of rows of a Copy.
type CopyRows struct {
	Table    *schema.Table
	Rows     []schema.Row // may be empty: the first call tells the place
	Place    Place        // every row is as of here: what the log has before it is contained, what it has after is not
	ReadTime int64        // of the database, microseconds since the Unix epoch
}

// Exported is the content of the tables as of the stream's start, read in parallel before streaming. It is used by one
// goroutine; Close may be called from any.
type Exported interface {
	// Tables are those to be read, with estimates of their rows (-1: unknown).
	Tables() []ExportedTable
	// Next returns the next rows of any table, io.EOF after the last. They are valid until the call after. Rows of a table
	// that failed have Err set, and no more of it follow: it is read again by chunks.
	Next(ctx context.Context) (ExportedRows, error)
	// Position is the __pos of the rows: no transaction has it.
	Position() string
	Close(ctx context.Context) error
}

// ExportedTable is a table of an Exported.
type ExportedTable struct {
	Table *schema.Table
	Rows  int64 // estimate, -1: unknown
}

// ExportedRows is a run of rows of one table.
type ExportedRows struct {
	Table    *schema.Table
	Rows     []schema.Row
	Last     bool  // the table is complete with these
	Err      error // the table is not complete and will not be
	ReadTime int64 // of the database, microseconds since the Unix epoch
}

// TableSetter is a Source whose set of captured tables can be changed while it runs.
type TableSetter interface {
	// ChangeTables adds and removes tables, by qualified name: what the server sends is changed, then a record with the next
	// version of the set is written into the log, and counts from its place on. Either may be empty. It may be called from any
	// goroutine; the error is one sentence, and nothing is half applied.
	ChangeTables(ctx context.Context, add, remove []string) error
	// Tables returns the version of the set and the qualified names of the captured tables as of the boundary last handed out.
	Tables() (version int64, names []string)
}
