package snapshot

import (
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// Rows fly until a boundary handed out with them or later is acknowledged, whichever of those a group of commits ends with.
func TestRowsFlyUntilTheyAreCommitted(t *testing.T) {
	at := func(n int64) *connectors.Batch {
		return &connectors.Batch{Boundary: offsets.Object{{Name: "n", Value: n}}}
	}
	var f flight
	before, chunk, stream, next, after := at(1), at(1), at(2), at(2), at(3)
	f.leaves(before, 0)
	f.leaves(chunk, mostFlying-1)
	f.leaves(stream, 0)
	if f.full() {
		t.Error("one row is left")
	}
	f.leaves(next, 1)
	f.leaves(after, 0)
	if !f.full() {
		t.Error("not full")
	}
	if f.lands(before.Boundary) || !f.full() {
		t.Error("an equal boundary that was handed out before the rows tells nothing of them")
	}
	if !f.lands(stream.Boundary) || f.full() || f.rows != 1 {
		t.Errorf("%d rows fly after the first chunk was committed", f.rows)
	}
	if !f.lands(after.Boundary) || f.rows != 0 || len(f.out) != 0 {
		t.Errorf("%d rows fly after everything was committed", f.rows)
	}
}
