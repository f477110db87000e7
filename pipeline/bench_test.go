package pipeline

import (
	"context"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/offsets/memstore"
	"github.com/tidemark-cdc/tidemark/schema"
)

// endless gives n transactions of one batch, always the same memory.
type endless struct {
	n, i int
	b    connectors.Batch
	done chan struct{}
}

func (s *endless) Open(context.Context, []offsets.Entry) (connectors.Opened, error) {
	return connectors.Opened{Boundary: sourcetest.Boundary(0)}, nil
}

func (s *endless) Next(ctx context.Context) (connectors.Batch, error) {
	if s.i == s.n {
		<-ctx.Done()
		return connectors.Batch{}, ctx.Err()
	}
	s.i++
	if s.i == s.n {
		s.b.Boundary = sourcetest.Boundary(s.n)
	}
	return s.b, nil
}

func (s *endless) Ack(_ context.Context, o offsets.Object) error {
	if n, _ := o.Int(sourcetest.FieldEnd); n == int64(s.n) {
		close(s.done)
	}
	return nil
}

func (s *endless) Close(context.Context) error { return nil }

type discard struct{}

func (discard) Fence(context.Context) error                    { return nil }
func (discard) Write(_ context.Context, c *Chunk) error        { c.Release(); return nil }
func (discard) Commit(context.Context, ...offsets.Entry) error { return nil }
func (discard) Abort(context.Context) error                    { return nil }
func (discard) Close(context.Context) error                    { return nil }

// copier makes a record of 150 bytes of every change.
type copier struct{}

func (copier) Prepare(context.Context, int64, []*schema.Table, []offsets.Entry) error { return nil }

func (copier) Progress(_ context.Context, c *Chunk, b *connectors.Batch) error {
	for _, p := range b.Progress {
		c.Entries = append(c.Entries, offsets.Entry{Partition: offsets.TablePartition(server, p.Table.QualifiedName()), Offset: offsets.TableState{Snapshot: p.Progress}.Object()})
	}
	return nil
}

func (copier) Encode(_ context.Context, c *Chunk, b *connectors.Batch, from, limit int) (int, error) {
	for ; from < len(b.Changes) && c.Size() < limit; from++ {
		at := len(c.Buf)
		c.Buf = append(c.Buf, b.Changes[from].After[0].Bytes...)
		c.Records = append(c.Records, Record{Topic: "t", Value: c.Buf[at:len(c.Buf):len(c.Buf)]})
	}
	return from, nil
}

// What the pipeline itself costs for a change, in transactions of 1 and of 1,000.
func BenchmarkRun(b *testing.B) {
	for name, size := range map[string]int{"single": 1, "thousand": 1000} {
		b.Run(name, func(b *testing.B) {
			src := &endless{n: b.N/size + 1, done: make(chan struct{})}
			src.b.Last, src.b.Boundary = true, sourcetest.Boundary(1)
			for range size {
				src.b.Changes = append(src.b.Changes, connectors.Change{After: schema.Row{schema.Bytes(make([]byte, 150))}})
			}
			ctx, cancel := context.WithCancel(context.Background())
			result := make(chan error, 1)
			b.ReportAllocs()
			go func() {
				result <- Run(ctx, Config{
					NewSource: func() (connectors.Source, error) { return src, nil }, NewSink: func() (Sink, error) { return discard{}, nil },
					Encoder: copier{}, Store: memstore.New(), Generations: highest(0), Linger: -1,
					Server: "s", Connector: "c", Group: "g", GenerationsTopic: "gens",
				})
			}()
			<-src.done
			cancel()
			if err := <-result; err != nil {
				b.Fatal(err)
			}
		})
	}
}
