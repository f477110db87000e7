package catalog

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// Operations is a set of what a publication publishes.
type Operations struct{ Insert, Update, Delete, Truncate bool }

// AllOperations is what a publication of ours publishes.
var AllOperations = Operations{Insert: true, Update: true, Delete: true, Truncate: true}

// PublicationMode says what may be done to the publication (publication.autocreate.mode).
type PublicationMode string

// The modes.
const (
	AllTables PublicationMode = "all_tables" // created FOR ALL TABLES where missing
	Filtered  PublicationMode = "filtered"   // created for the captured tables; grows with them, never shrinks
	Disabled  PublicationMode = "disabled"   // must exist, never changed
	NoTables  PublicationMode = "no_tables"  // created empty where missing, never changed after
)

// PublicationConfig is what EnsurePublication works to.
type PublicationConfig struct {
	Name             string
	Mode             PublicationMode
	Tables           []TableRef    // captured tables
	ViaPartitionRoot bool          // publish_via_partition_root of a publication to be created
	LockTimeout      time.Duration // longest wait for one lock attempt; 0 means 2 s
	Wait             time.Duration // longest wait in all; 0 means 60 s
}

// PublishedTable is a table as the publication publishes it.
type PublishedTable struct {
	TableRef
	Columns   []string // the published columns, by attnum
	RowFilter string   // SQL, empty: none
}

// Publication is a publication as the catalogue has it now.
type Publication struct {
	Exists    bool
	Name      string
	AllTables bool
	Ops       Operations
	ViaRoot   bool
	Generated bool             // stored generated columns are published (18+)
	Tables    []PublishedTable // as the log names them: partition roots with ViaRoot, else leaves; by name
}

// ReadPublication reads a publication; Exists is false where there is none.
func ReadPublication(ctx context.Context, conn *pgx.Conn, name string) (Publication, error) {
	return Publication{}, errSoon
}

// EnsurePublication creates or extends the publication as its mode allows and returns it as it
// is then. Waiting for a lock is bounded and reported with the process that holds it (from a
// second connection, opened only while waiting); when the time is over the error names it and
// is of the wait class. A missing publication, or missing rights, is refused.
func EnsurePublication(ctx context.Context, conn *pgx.Conn, cfg PublicationConfig, report connectors.Reporter) (Publication, error) {
	return Publication{}, errSoon
}

// Coverage returns what the publication lacks for the captured tables: tables, operations
// (update and delete only where a table has a key or full identity), key columns outside a
// column list. keys holds each table's key by its OID.
func (p Publication) Coverage(tables []*Table, keys map[uint32][]string) []connectors.Problem {
	return nil
}

// YoungerThanSlot tells in a sentence that the publication was created or changed at or after
// the point the slot's catalogue snapshot stands at, so that changes before it would be an
// error (14 to 17) or lost (18); empty where it was not.
func YoungerThanSlot(ctx context.Context, conn *pgx.Conn, publication, slot string) (string, error) {
	return "", errSoon
}
