package memstore

import (
	"testing"

	"github.com/tidemark-cdc/tidemark/offsets"
)

func TestApplyKeepsNewest(t *testing.T) {
	p := offsets.TablePartition("s", "t")
	s := New(offsets.Entry{Partition: p, Offset: offsets.Object{{Name: "n", Value: int64(1)}}})
	swapped := offsets.Object{p[2], p[0], p[1]}
	s.Apply(offsets.Entry{Partition: swapped, Offset: offsets.Object{{Name: "n", Value: int64(2)}}})
	got, err := s.Load(t.Context())
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	if n, _ := got[0].Offset.Int("n"); n != 2 {
		t.Errorf("got %d, want the newest", n)
	}
	s.Apply(offsets.Entry{Partition: p})
	if got, _ = s.Load(t.Context()); len(got) != 0 {
		t.Errorf("a tombstone left %v", got)
	}
}
