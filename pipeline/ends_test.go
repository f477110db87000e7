package pipeline

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// ending writes a record for each change and one for the end, which says how many there were.
type ending struct {
	copier
	count int
}

func (e *ending) PublishesTransactions() bool { return true }
func (e *ending) BeginTransaction()           { e.count = 0 }

func (e *ending) Encode(ctx context.Context, c *Chunk, b *connectors.Batch, from, limit int) (int, error) {
	next, err := e.copier.Encode(ctx, c, b, from, limit)
	e.count += next - from
	return next, err
}

func (e *ending) EndTransaction(_ context.Context, c *Chunk, b *connectors.Batch) error {
	c.Records = append(c.Records, Record{Topic: "end", Value: fmt.Appendf(nil, "%d: %d", b.Tx.ID, e.count)})
	return nil
}

// given gives batches, then waits for the end of its context.
type given struct {
	batches []connectors.Batch
	done    context.CancelFunc
}

func (g *given) Next(ctx context.Context) (connectors.Batch, error) {
	if len(g.batches) == 0 {
		g.done()
		<-ctx.Done()
		return connectors.Batch{}, ctx.Err()
	}
	b := g.batches[0]
	g.batches = g.batches[1:]
	return b, nil
}

func (g *given) Open(context.Context, []offsets.Entry) (connectors.Opened, error) {
	return connectors.Opened{}, nil
}
func (g *given) Ack(context.Context, offsets.Object) error { return nil }
func (g *given) Close(context.Context) error               { return nil }

// Every transaction has its end, an empty one too, after its changes and with the right count, however it is cut into
// chunks and batches: shared with others, outgrowing a shared chunk, or in parts. A heartbeat has none.
func TestEndsOfTransactions(t *testing.T) {
	change := func(size int) connectors.Change {
		return connectors.Change{After: schema.Row{schema.Bytes(make([]byte, size))}}
	}
	var batches []connectors.Batch
	var want []string
	add := func(id uint64, last bool, n int) {
		size := 100
		if n == 10 { // it looks as if it would fit
			size = 3000
		}
		batches = append(batches, connectors.Batch{Tx: connectors.Transaction{ID: id}, Changes: slices.Repeat([]connectors.Change{change(size)}, n), Last: last, Boundary: sourcetest.Boundary(len(batches) + 1)})
	}
	for id, parts := range [][]int{{1}, {10}, {1}, {0}, {3}, {40}, {5, 7, 0}, {2}, {300, 300}, {0}, {1}} {
		total := 0
		for i, n := range parts {
			add(uint64(id+1), i == len(parts)-1, n)
			total += n
		}
		want = append(want, fmt.Sprintf("%d: %d", id+1, total))
	}
	add(0, true, 0)
	ctx, cancel := context.WithCancel(context.Background())
	q, p := newQueue(), newPool(64<<20, 16<<10)
	enc := &ending{}
	r := &reader{source: &given{batches, cancel}, enc: enc, ends: enc, q: q, pool: p, limit: 14 << 10, hold: 1 << 20}
	q.close(r.run(ctx))
	var got []string
	changes := 0
	for {
		run := q.take(nil, true)
		if run == nil {
			break
		}
		for _, it := range run {
			if it.chunk == nil {
				continue
			}
			for _, rec := range it.chunk.Records {
				if rec.Topic == "end" {
					got = append(got, string(rec.Value))
					continue
				}
				changes++
			}
		}
	}
	if !slices.Equal(got, want) || changes != 670 {
		t.Errorf("%d changes, ends %q, want %q", changes, got, want)
	}
}
