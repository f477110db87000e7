package postgres

import (
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/offsets"
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
