package postgres

import (
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// After a start the ids decoded before bound what may be invisible of a table of which a chunk counted, or none was wanted. Of any other
// table there may be transactions in the log before the stream's begin, with ids that were never decoded.
func TestBoundsOfTablesThatWereNeverRead(t *testing.T) {
	o := &opening{position: &catalog.Position{}, states: map[string]offsets.TableState{
		"streamed":  {},
		"joined":    {Snapshot: offsets.Progress{State: offsets.SnapshotPending}},
		"exported":  {Snapshot: offsets.Progress{State: offsets.SnapshotReading, Rows: 7}},
		"in chunks": {Snapshot: offsets.Progress{State: offsets.SnapshotReading, Rows: 7, After: `["7"]`}},
		"read":      {Snapshot: offsets.Progress{State: offsets.SnapshotDone}},
	}}
	o.decision.Position.HighestXID = 1000
	b := newBounds(o)
	for name, want := range map[string]bool{"streamed": true, "joined": false, "exported": false, "in chunks": true, "read": true, "new": false} {
		if highest, _, found := b.of(name); found != want || highest != 1000 {
			t.Errorf("%s: up to %d, known %t; want %t", name, highest, found, want)
		}
	}
}

// A version that was read is newer than the stream's as of then. It is another one once the stream has gone on, though it be alike: what is
// older than the stream's is read again for ever.
func TestAdoptedVersionsAreNewer(t *testing.T) {
	with := func(version int, columns ...string) *schema.Table {
		table := &schema.Table{ID: 1, Namespace: "public", Name: "a", Version: version}
		for _, c := range columns {
			table.Columns = append(table.Columns, schema.Column{Name: c})
		}
		return table
	}
	c := &captured{tables: map[string]*schema.Table{}, read: map[string]*schema.Table{}}
	first := with(1, "id")
	c.put(first)
	if got := c.adopt(with(1, "id")); got != first {
		t.Errorf("adopted %+v, want the stream's", got)
	}
	read := c.adopt(with(1, "id", "n"))
	if again := c.adopt(with(1, "id", "n")); read.Version != 2 || again != read || c.adopt(read) != read {
		t.Errorf("adopted %+v, then %+v", read, again)
	}
	c.put(with(3, "id", "m")) // and n is back by now
	if got := c.adopt(read); got.Version != 4 || len(got.Columns) != 2 || read.Version != 2 {
		t.Errorf("adopted %+v; the one before is %+v", got, read)
	}
}
