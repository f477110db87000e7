package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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
	Member    uint32   // id of the table's membership: another one after it was taken out and put back; 0 where it has none (all tables, a schema's tables)
}

// Publication is a publication as the catalogue has it now.
type Publication struct {
	Exists    bool
	Name      string
	AllTables bool
	Ops       Operations
	ViaRoot   bool
	Generated bool             // stored generated columns are published (18+)
	Owned     bool             // our role may alter it
	Created   bool             // by the EnsurePublication that returned it
	Tables    []PublishedTable // as the log names them: partition roots with ViaRoot, else leaves; by name
}

// ReadPublication reads a publication; Exists is false where there is none.
func ReadPublication(ctx context.Context, conn *pgx.Conn, name string) (Publication, error) {
	return readPublication(ctx, conn, name, publishedQuery+publishedOrder, name)
}

// ReadPublicationOf reads a publication with one table alone: with a thousand of them all are a hundred times as dear.
func ReadPublicationOf(ctx context.Context, conn *pgx.Conn, name string, table uint32) (Publication, error) {
	return readPublication(ctx, conn, name, publishedQuery+publishedOne, name, table)
}

func readPublication(ctx context.Context, conn *pgx.Conn, name, tables string, args ...any) (Publication, error) {
	p := Publication{Name: name}
	err := conn.QueryRow(ctx, `
SELECT true, puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot,
       coalesce(to_jsonb(p)->>'pubgencols', 'n') = 's', pg_has_role(pubowner, 'USAGE')
  FROM pg_publication p WHERE pubname = $1`, name).Scan(&p.Exists, &p.AllTables, &p.Ops.Insert, &p.Ops.Update, &p.Ops.Delete,
		&p.Ops.Truncate, &p.ViaRoot, &p.Generated, &p.Owned)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return Publication{}, fmt.Errorf("read publication %s: %w", name, err)
	}
	rows, err := conn.Query(ctx, tables, args...)
	if err != nil {
		return Publication{}, fmt.Errorf("read tables of publication %s: %w", name, err)
	}
	p.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (PublishedTable, error) {
		var t PublishedTable
		err := row.Scan(&t.OID, &t.Schema, &t.Name, &t.RowFilter, &t.Columns, &t.Member)
		return t, err
	})
	if err != nil {
		return Publication{}, fmt.Errorf("read tables of publication %s: %w", name, err)
	}
	return p, nil
}

// The view's columns differ from version to version (attnames, rowfilter: 15+), so they are
// read as JSON. From 18 on attnames is exact; before, generated columns are never published.
const publishedQuery = `
SELECT c.oid, n.nspname::text, c.relname::text, coalesce(j.v->>'rowfilter', ''),
       array(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND (j.v->'attnames' IS NULL OR jsonb_typeof(j.v->'attnames') = 'null' OR j.v->'attnames' ? a.attname::text)
                AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000)
              ORDER BY a.attnum),
       coalesce((SELECT r.oid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = $1 AND r.prrelid = c.oid), 0)
  FROM pg_publication_tables t
  JOIN pg_namespace n ON n.nspname = t.schemaname
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
 CROSS JOIN LATERAL (SELECT to_jsonb(t) AS v) j
 WHERE t.pubname = $1`

const publishedOrder = `
 ORDER BY n.nspname::text COLLATE "C", c.relname::text COLLATE "C"`

// One table is told by its names, which the view looks tables up by.
const publishedOne = `
   AND t.schemaname = (SELECT s.nspname FROM pg_class o JOIN pg_namespace s ON s.oid = o.relnamespace WHERE o.oid = $2)
   AND t.tablename = (SELECT o.relname FROM pg_class o WHERE o.oid = $2)`

// missing returns the captured tables the publication does not publish.
func (p Publication) missing(tables []TableRef) []TableRef {
	has := make(map[uint32]bool, len(p.Tables))
	for _, t := range p.Tables {
		has[t.OID] = true
	}
	var out []TableRef
	for _, t := range tables {
		if !has[t.OID] {
			out = append(out, t)
		}
	}
	return out
}

// YoungerThan tells in a sentence that this publication was just created although the slot was
// there before: changes between are an error (14 to 17) or dropped (18), empty otherwise. The
// catalogue does not tell it of publications that others created: a new slot's catalog_xmin
// is held back by every other slot.
func (p Publication) YoungerThan(slot Slot) string {
	if !p.Created || !slot.Exists {
		return ""
	}
	return fmt.Sprintf("publication %s was created after slot %s (confirmed up to %s): changes between them cannot be published (18 drops them, older versions say that the publication does not exist); if the stream has no offsets, drop the slot and let it be created again", p.Name, slot.Name, slot.ConfirmedFlush)
}
