// Package connectors is the language between a source and the pipeline: what a
// source reads (changes, in batches of one source transaction), how it is driven
// (Source), which errors pass and which block (Class), and which properties it takes (Spec).
package connectors

import (
	"context"

	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Op is the kind of a change, as it appears in __op.
type Op byte

// The operations.
const (
	OpCreate Op = 'c'
	OpUpdate Op = 'u'
	OpDelete Op = 'd'
	// OpRead is a row as a snapshot read it: After alone is set, and Seq counts from FirstReadSeq.
	OpRead Op = 'r'
	// OpTruncate removed every row of Table; it has neither Before nor After. It concerns every partition of the table's topic.
	OpTruncate Op = 't'
	// OpMessage is a logical message: Message is set, Table and the rows are nil.
	OpMessage Op = 'm'
)

// Message is a message that an application wrote into the log.
type Message struct {
	Prefix        string
	Content       []byte // as written; belongs to the batch
	Transactional bool   // part of its transaction; else written at once, and a boundary of its own
}

// Change is one change of a source transaction: of a row, or one of OpTruncate and OpMessage.
//
// The key is taken from After for OpCreate and OpUpdate and from Before for OpDelete; the
// source guarantees that every key column is present there and not NULL.
type Change struct {
	Op    Op
	Table *schema.Table // immutable: the version in force at this change; nil for OpMessage
	Seq   int64         // ordinal in its commit group, from 0, assigned before any filtering
	// Before is nil where the log has no old image. Columns the log did not carry are KindUnavailable.
	Before schema.Row
	// After is nil for OpDelete. Columns the log did not carry are KindUnavailable.
	After schema.Row
	// OldKey is set on the create half of an update that is two changes: the old row. Where the table
	// has a key its columns are present.
	OldKey schema.Row
	// NewKey is set on the delete half of such an update: the new row.
	NewKey schema.Row
	// Message is set for OpMessage only.
	Message *Message
	// LSN is where the change itself is in the log, as the engine gives it; 0 where it gives none.
	// It is for formats that publish it: the position of a change is Transaction.Pos and Seq.
	LSN uint64
}

// Transaction identifies a source transaction.
type Transaction struct {
	Pos        string // __pos: compact JSON, fixed member order (PostgreSQL: {"lsn":"3D/485795A0"})
	ID         uint64 // the engine's transaction id, 64-bit where it has one; 0 if none
	CommitTime int64  // microseconds since the Unix epoch
	// Places in the log for formats that publish them; 0 where the engine gives none or it is not known.
	BeginLSN    uint64 // of its begin
	EndLSN      uint64 // of its end; known with the last batch
	PreviousLSN uint64 // end of the transaction before it, published or not
	// Snapshot tells formats how rows of OpRead were read; empty for changes.
	Snapshot Snapshot
}

// Snapshot says how rows were read, in Debezium's words.
type Snapshot string

// The ways.
const (
	SnapshotInitial     Snapshot = "true"        // all of a table at one place in the log, where the stream begins
	SnapshotIncremental Snapshot = "incremental" // beside the stream
)

// Batch is a run of changes of one source transaction, in log order. A transaction may take
// many batches; only one with Last set closes it. A batch without changes and with Last set is
// a boundary alone: a heartbeat, or a transaction with nothing to publish.
type Batch struct {
	Tx       Transaction
	Changes  []Change
	Last     bool           // closes its transaction; only then may a Kafka transaction commit
	Boundary offsets.Object // valid where Last: the stream's offset once everything up to here is published
	// Lazy is set on an empty batch whose boundary may wait to be merged with later ones, up
	// to the pipeline's interval; without it the pipeline commits as soon as it can.
	Lazy bool

	// The rest is valid where Last, and commits in the Kafka transaction that holds the boundary.

	Markers  []string        // nonces of the markers written by Mark that the log has since the batch before
	Progress []TableProgress // how far tables have been read with the rows of this batch
	Entries  []offsets.Entry // further entries to store
	Activate bool            // the generation, a baseline that was being built, is whole: it becomes active
	Joined   []*schema.Table // tables captured from here on
	Left     []*schema.Table // tables not captured from here on
}

// Opened is what a source found at its start.
type Opened struct {
	Start    string          // position where this stream starts reading, compact JSON; a new generation begins here
	Boundary offsets.Object  // the stream's offset as reconciled; committed before streaming if it differs from the stored one
	Tables   []*schema.Table // captured tables, for topics and schemas to be checked before streaming
	// Renew begins a new generation although offsets are stored (snapshot.mode=when_needed); they are replaced.
	Renew bool
	// Baseline says that a generation that begins now is a baseline: the whole content of the tables is published in it.
	Baseline bool
	// Exported is the tables' content as of Start, to be published before the stream; nil where there is none. Whoever
	// opened the source closes it.
	Exported Exported
}

// Source reads one database's log.
//
// Open and Next run on one goroutine. Ack may run while Next blocks. Close may be called at any
// time after Open was called, once; it ends every goroutine the source started and makes a blocked Next return.
type Source interface {
	// Open connects, compares server, slot and catalogue with the stored entries, and positions
	// the stream. Nothing is changed at the server before the stored entries were checked.
	Open(ctx context.Context, stored []offsets.Entry) (Opened, error)
	// Next blocks for the next batch. The batch and all memory it refers to, tables aside, are
	// valid until the next call. It never waits for an Ack.
	Next(ctx context.Context) (Batch, error)
	// Ack tells that everything up to the boundary is durably published with its offset.
	// It does not block on the database.
	Ack(ctx context.Context, published offsets.Object) error
	Close(ctx context.Context) error
}

// State is what a connector is doing, in words a person can act on.
type State struct {
	Name   string // "STARTING", "RUNNING", "WAITING", "BLOCKED", "FENCED", "STOPPED"
	Reason string // why, one sentence: "waiting for a lock held by pid 4711 (open since …)"; empty when running
}

// Reporter takes a state change. It must not block, and may be called from any goroutine.
type Reporter func(State)
