package postgres

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/schema"
)

// ids stands for a registry, oneTopic for Kafka: the benchmark is about what happens per change.
type ids struct{}

func (ids) Resolve(context.Context, string, string) (int, error) { return 1, nil }

func (ids) SchemaByID(context.Context, int) (string, error) { return "", nil }

type oneTopic struct{}

func (oneTopic) Ensure(context.Context, string, bool) (pipeline.TopicInfo, error) {
	return pipeline.TopicInfo{Partitions: 3, MaxMessageBytes: 1 << 20}, nil
}
func (oneTopic) Forget(string) {}

// chunker encodes batches as the pipeline's reader does, into one chunk that it empties when full.
type chunker struct {
	enc   pipeline.Encoder
	chunk pipeline.Chunk
	batch connectors.Batch
}

const chunkBytes = 256 << 10

func newChunker(t testing.TB) *chunker {
	enc, err := encode.New(encode.Config{Prefix: "shop", Tombstones: true, Deletes: true, Registry: ids{}, Topics: oneTopic{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := enc.Prepare(t.Context(), 1, []*schema.Table{}, nil); err != nil {
		t.Fatal(err)
	}
	return &chunker{enc: enc}
}

// next reads a batch, encodes it and returns the number of its changes.
func (c *chunker) next(t testing.TB, ctx context.Context, r *rig) int {
	var err error
	if c.batch, err = r.next(ctx); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < len(c.batch.Changes); {
		if from, err = c.enc.Encode(ctx, &c.chunk, &c.batch, from, chunkBytes); err != nil {
			t.Fatal(err)
		}
		if c.chunk.Size() >= chunkBytes {
			c.chunk.Reset()
		}
	}
	return len(c.batch.Changes)
}

// BenchmarkDecodeAndEncode takes a change from the replication protocol's bytes to the Kafka record's; an op is a change.
func BenchmarkDecodeAndEncode(b *testing.B) {
	r, c, ctx := benchStream(b), newChunker(b), context.Background()
	for range 10 { // schemas, slabs and chunk are made
		c.next(b, ctx, r)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		n += c.next(b, ctx, r)
	}
}

// TestNothingIsAllocatedFromWireToRecord: what is allocated belongs to a transaction, not to a change.
func TestNothingIsAllocatedFromWireToRecord(t *testing.T) {
	cols := []col{colID, colBig, colN, {"at", 1184, false}, {"price", 1700, false}}
	s := &script{}
	s.begin(0x100, 1)
	s.relation(1, "public.a", 'd', cols...)
	head := append([]byte(nil), s.buf.Bytes()...)
	s.buf.Reset()
	for i := range 5000 {
		id := fmt.Sprint(i)
		s.insert(1, id, "some text of thirty characters", "42", "2026-11-30 10:00:00.123456+00", "12345.67")
		s.update(1, 'K', []string{id, null, null, null, null}, fmt.Sprint(i+1), unchanged, "43", "2026-11-30 10:00:00.123456+00", "12345.67")
	}
	look := fakeLookup{1: catTable(1, "public.a", 'd', []string{"id"}, cols...)}
	r := newRig(t, io.MultiReader(bytes.NewReader(head), &loop{src: s.buf.Bytes()}), 0, look, nil, Options{})
	c, ctx := newChunker(t), context.Background()
	for range 200 {
		c.next(t, ctx, r)
	}
	changes := 0
	if allocs := testing.AllocsPerRun(100, func() { changes += c.next(t, ctx, r) }); allocs != 0 {
		t.Errorf("%v allocations a batch of %d changes", allocs, changes/101)
	}
}
