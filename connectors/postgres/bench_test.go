package postgres

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// loop repeats a script for ever.
type loop struct {
	src []byte
	at  int
}

func (l *loop) Read(b []byte) (int, error) {
	if l.at == len(l.src) {
		l.at = 0
	}
	n := copy(b, l.src[l.at:])
	l.at += n
	return n, nil
}

// benchStream is a transaction of 1,000 inserts and one of 1,000 key-preserving updates, for ever.
func benchStream(b *testing.B) *rig {
	cols := []col{colID, colBig, colN, {"at", 1184, false}, {"price", 1700, false}}
	look := fakeLookup{1: catTable(1, "public.a", 'd', []string{"id"}, cols...)}
	head, body := &script{}, &script{}
	head.begin(0x100, 1)
	head.relation(1, "public.a", 'd', cols...)
	head.commit()
	body.begin(0x1000, 2)
	for i := range 1000 {
		body.insert(1, fmt.Sprint(i), "some text of thirty characters", "42", "2026-11-30 10:00:00.123456+00", "12345.67")
	}
	body.commit()
	body.begin(0x2000, 3)
	for i := range 1000 {
		body.update(1, 0, nil, fmt.Sprint(i), unchanged, "43", "2026-11-30 10:00:00.123456+00", "12345.67")
	}
	body.commit()
	r := newRig(b, io.MultiReader(&head.buf, &loop{src: body.buf.Bytes()}), 0, look, nil, Options{})
	return r
}

func BenchmarkNext(b *testing.B) {
	r := benchStream(b)
	ctx := context.Background()
	b.ReportAllocs()
	for n := 0; n < b.N; {
		batch, err := r.next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		n += len(batch.Changes)
	}
}

// TestNoAllocationPerChange: what is allocated belongs to a transaction (position and boundary), not to a change.
func TestNoAllocationPerChange(t *testing.T) {
	cols := []col{colID, colBig, colN}
	look := fakeLookup{1: catTable(1, "public.a", 'd', []string{"id"}, cols...)}
	s := &script{}
	s.begin(0x100, 1)
	s.relation(1, "public.a", 'd', cols...)
	head := append([]byte(nil), s.buf.Bytes()...)
	s.buf.Reset()
	for i := range 5000 {
		s.insert(1, fmt.Sprint(i), "text", "42")
		s.update(1, 'K', []string{fmt.Sprint(i), null, null}, fmt.Sprint(i+1), unchanged, "42")
	}
	r := newRig(t, io.MultiReader(bytes.NewReader(head), &loop{src: s.buf.Bytes()}), 0, look, nil, Options{})
	next := func() connectors.Batch {
		b, err := r.next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for range 100 {
		next()
	}
	changes := 0
	allocs := testing.AllocsPerRun(100, func() { changes += len(next().Changes) })
	if allocs != 0 {
		t.Errorf("%v allocations a batch of %d changes", allocs, changes/100)
	}
}
