// Package pipeline turns a source's transactions into committed Kafka transactions:
//
//	Fence → Load → Open → { Next → Encode → Write → Commit(+offset) → Ack }
//
// It knows no database and no Kafka client: it drives a connectors.Source, an Encoder and a
// Sink. Ack is called in exactly one function, with a boundary that is committed.
package pipeline

import (
	"context"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Header is one Kafka record header.
type Header struct {
	Key   string
	Value []byte
}

// Record is one Kafka record. Its bytes live in the Chunk that carries it.
type Record struct {
	Topic     string
	Partition int32
	Key       []byte // nil: null key
	Value     []byte // nil: tombstone
	Headers   []Header
	Timestamp int64 // milliseconds since the Unix epoch
}

// Chunk is a slab of encoded records of whole or partial source transactions, and the unit of
// memory accounting. A Sink that was given a chunk owns it until it calls Release, after which
// no byte of it may be touched.
type Chunk struct {
	Records []Record
	Headers []Header        // backing store of Records[i].Headers
	Buf     []byte          // backing store of keys, values and header values
	Entries []offsets.Entry // offset entries (tables, generation) to commit with this chunk's transaction, before the boundary
	Scratch any             // a Sink's own per-chunk storage, kept across reuse

	release func(*Chunk)
	charged int // bytes of the budget it holds; 0 while it is in the pool
}

// recordCost is what a record is taken to cost beside its bytes: its Record and Headers here
// and the client's own copies of both, until the broker has acknowledged it.
const recordCost = 768

// Size returns the memory the chunk's records account for, in bytes.
func (c *Chunk) Size() int { return len(c.Buf) + len(c.Records)*recordCost }

// Reset empties the chunk and keeps its storage.
func (c *Chunk) Reset() {
	c.Records, c.Headers, c.Buf, c.Entries = c.Records[:0], c.Headers[:0], c.Buf[:0], c.Entries[:0]
}

// Release gives the chunk back to the pipeline's pool.
func (c *Chunk) Release() {
	if c.release != nil {
		c.release(c)
	}
}

// Encoder turns a batch into records. It is used by one goroutine.
type Encoder interface {
	// Prepare checks topics, names and key schemas of the tables against the stored entries, before
	// anything is read. It is called once per start, with the generation that applies.
	Prepare(ctx context.Context, generation int64, tables []*schema.Table, stored []offsets.Entry) error
	// Encode appends the records of b.Changes[from:] to c until c is full (c.Size() at or beyond limit bytes;
	// at least one change) and returns the index of the first change not encoded. A table's first use appends
	// its entry to c.Entries. Prepare is called again before any change is encoded a second time.
	Encode(ctx context.Context, c *Chunk, b *connectors.Batch, from, limit int) (next int, err error)
	// Progress appends the tables' entries with the progress of b to c.Entries, after its last change.
	Progress(ctx context.Context, c *Chunk, b *connectors.Batch) error
}

// TransactionEncoder is an Encoder that counts what a source transaction has, or publishes its end.
type TransactionEncoder interface {
	// PublishesTransactions reports whether EndTransaction appends records, of empty transactions too.
	PublishesTransactions() bool
	// BeginTransaction is called before a transaction is encoded, and again before it is encoded anew.
	BeginTransaction()
	// EndTransaction appends what follows the transaction's last change to c, which may have no change of it.
	EndTransaction(ctx context.Context, c *Chunk, b *connectors.Batch) error
}

// Sink is the transactional producer of one start; after an error it is closed and a new one made.
// It reports its own waits: it alone knows what the broker says.
type Sink interface {
	// Fence makes this the sole writer of its transactional id; offsets read after it are final.
	Fence(ctx context.Context) error
	// Write produces the chunk's records in order; it opens a Kafka transaction if none is open. It may
	// return before they are durable; it takes ownership of c also when it returns an error.
	Write(ctx context.Context, c *Chunk) error
	// Commit produces the entries of the chunks written since the last Commit, then entries, and commits;
	// nothing need have been written. Nil means everything written since the last
	// Commit is durable and visible. An error leaves the outcome unknown: fence anew and reload.
	Commit(ctx context.Context, entries ...offsets.Entry) error
	// Abort discards what was written since the last Commit.
	Abort(ctx context.Context) error
	// Close releases the client; an open transaction is aborted.
	Close(ctx context.Context) error
}

// Store reads the stored offsets of this connector: the newest committed entry of every partition.
type Store interface {
	Load(ctx context.Context) ([]offsets.Entry, error)
}

// Generations finds the highest __gen visible in a stream's data topics and activation records, 0 where they are absent or
// empty; without tables, in the activation records alone.
type Generations interface {
	Highest(ctx context.Context, tables []*schema.Table) (int64, error)
}

// TopicInfo is what a record's place in a topic depends on.
type TopicInfo struct {
	Partitions           int32
	MaxMessageBytes      int    // max.message.bytes: largest batch the topic takes; 0 where it may not be read
	CleanupPolicy        string // cleanup.policy; empty where it may not be read
	TimestampBeforeMaxMs int64  // message.timestamp.before.max.ms: how far in the past a record's time may be
	TimestampAfterMaxMs  int64  // message.timestamp.after.max.ms: how far in the future
}
