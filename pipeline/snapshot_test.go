package pipeline

import (
	"context"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// script is a source that hands out what it was given, then ends.
type script struct {
	opened  connectors.Opened
	batches []connectors.Batch
}

func (s *script) Open(context.Context, []offsets.Entry) (connectors.Opened, error) {
	return s.opened, nil
}

func (s *script) Next(context.Context) (connectors.Batch, error) {
	if len(s.batches) == 0 {
		return connectors.Batch{}, connectors.ErrEnd
	}
	b := s.batches[0]
	s.batches = s.batches[1:]
	return b, nil
}

func (s *script) Ack(context.Context, offsets.Object) error { return nil }
func (s *script) Close(context.Context) error               { return nil }

// TestBaselineIsActivatedWhenWhole: the first generation is active from its begin, a later baseline not before its source says
// that it is whole, and progress and entries commit with the batch that has them.
func TestBaselineIsActivatedWhenWhole(t *testing.T) {
	table := &schema.Table{Namespace: "public", Name: "t", Columns: []schema.Column{{Name: "id"}, {Name: "v"}}, Key: []int{0}}
	extra := offsets.Entry{Partition: offsets.Object{{Name: "server", Value: server}, {Name: "kind", Value: "extra"}}, Offset: offsets.Object{{Name: "n", Value: int64(1)}}}
	boundary := sourcetest.Boundary(0)
	progress := []connectors.TableProgress{{Table: table, Progress: offsets.Progress{State: offsets.SnapshotDone, Rows: 3, Total: -1}}}
	for _, c := range []struct {
		name    string
		highest int64
		renew   bool
		stored  []offsets.Entry
		last    connectors.Batch
		gens    int // activation records
		open    bool
	}{
		{"first", 0, false, nil, connectors.Batch{}, 1, false},
		{"first, whole", 0, false, nil, connectors.Batch{Activate: true}, 1, false},
		{"later, not whole", 4, false, nil, connectors.Batch{}, 0, true},
		{"later, whole", 4, false, nil, connectors.Batch{Activate: true}, 1, false},
		{"renewed", 0, true, []offsets.Entry{
			{Partition: offsets.StreamPartition(server), Offset: sourcetest.Boundary(0)},
			{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 4}.Object()},
		}, connectors.Batch{Activate: true}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker()
			b.store.Apply(c.stored...)
			last := c.last
			last.Last, last.Boundary, last.Progress, last.Entries = true, boundary, progress, []offsets.Entry{extra}
			cfg := b.config(&encoder{}, nil)
			cfg.Generations = highest(c.highest)
			cfg.NewSource = func() (connectors.Source, error) {
				return &script{opened: connectors.Opened{Start: `{"n":7}`, Boundary: boundary, Baseline: true, Renew: c.renew}, batches: []connectors.Batch{last}}, nil
			}
			if err := Run(context.Background(), cfg); err != nil {
				t.Fatal(err)
			}
			stored, _ := b.store.Load(context.Background())
			o, _ := offsets.Find(stored, offsets.GenerationPartition(server))
			g, err := offsets.GenerationFrom(o)
			if err != nil || !g.Baseline || g.Building != c.open || (c.highest+int64(len(c.stored)) > 0 && g.Number != 5) {
				t.Errorf("stored generation %+v (%v), building should be %v", g, err, c.open)
			}
			if len(b.problems) > 0 {
				t.Error(b.problems)
			}
			if len(b.gens) != c.gens {
				t.Errorf("activation records %v, want %d", b.gens, c.gens)
			}
			if o, ok := offsets.Find(stored, extra.Partition); !ok || !o.Equal(extra.Offset) {
				t.Errorf("the batch's entry is stored as %v", o)
			}
			if _, ok := offsets.Find(stored, offsets.TablePartition(server, "public.t")); !ok {
				t.Error("the progress was not stored")
			}
		})
	}
}
