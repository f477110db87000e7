package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
)

// emit writes a logical message of a transaction.
func (s *script) emit(prefix, content string) {
	b := binary.BigEndian.AppendUint64([]byte{'M', 1}, s.final-1)
	b = append(append(b, prefix...), 0)
	s.wal(append(binary.BigEndian.AppendUint32(b, uint32(len(content))), content...))
}

// Our messages take their ordinal and are never published; markers come out once, with the batch that closes their transaction,
// which is not put off. What only looks like ours is a message like any other.
func TestMarkersCloseTheirTransaction(t *testing.T) {
	look := fakeLookup{1: catTable(1, "public.a", 'd', []string{"id"}, colID)}
	s := &script{}
	s.begin(0x1000, 1)
	s.commit()
	s.begin(0x2000, 2)
	s.emit(ourPrefix, `{"marker":"one"}`)
	s.commit()
	s.begin(0x3000, 3)
	s.emit(ourPrefix, `{"chunk":"public.a"}`)
	s.commit()
	s.begin(0x4000, 4)
	s.relation(1, "public.a", 'd', colID)
	s.emit(ourPrefix, `{"marker":"two"}`)
	s.insert(1, "7")
	s.emit(ourPrefix, `{"marker":"two","x":1}`)
	s.emit(ourPrefix, `{"marker": "two"}`)
	s.emit("other", `{"marker":"two"}`)
	s.commit()
	s.begin(0x5000, 5)
	s.commit()
	for size := range 4 {
		r := newRig(t, bytes.NewReader(s.buf.Bytes()), 0, look, nil, Options{MaxBatchChanges: size})
		marked := map[string][]string{}
		seqs := []int64{}
		for {
			b, err := r.next(context.Background())
			if err != nil {
				break
			}
			for _, c := range b.Changes {
				seqs = append(seqs, c.Seq)
			}
			if len(b.Markers) > 0 {
				marked[b.Tx.Pos] = append(marked[b.Tx.Pos], b.Markers...)
				if b.Lazy || !b.Last {
					t.Fatalf("batches of %d: the batch with a marker is put off", size)
				}
			}
		}
		if !slices.Equal(marked[`{"lsn":"0/2000"}`], []string{"one"}) || !slices.Equal(marked[`{"lsn":"0/4000"}`], []string{"two"}) || len(marked) != 2 {
			t.Fatalf("batches of %d: markers %v", size, marked)
		}
		if want := []int64{1, 2, 3, 4}; !slices.Equal(seqs, want) {
			t.Fatalf("batches of %d: ordinals %v, want %v", size, seqs, want)
		}
	}
}

// A marker written while the stream is quiet comes out soon, once, and Wake makes a blocked Next return at the same boundary;
// rows that are published there sort after everything before it and before everything after.
func TestMarkAndWake(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE t(id int PRIMARY KEY)")
		s := p.open(Options{})
		last := uint64(0)
		position := func() {
			at, err := catalog.ParsePos(s.Position())
			if err != nil || uint64(at) < last || at >= p.boundaryOf() {
				p.Fatalf("position %s after %x, before %s: %v", s.Position(), last, p.boundaryOf(), err)
			}
			last = uint64(at)
		}
		position()
		for i := range 20 {
			time.AfterFunc(time.Duration(i%3)*time.Millisecond, s.Wake)
			before := p.boundaryOf()
			b, err := s.Next(p.ctx)
			if err != nil || !b.Last || !b.Lazy || len(b.Changes) > 0 || b.Tx.ID != 0 {
				p.Fatalf("%+v: %v", b, err)
			}
			p.stored = b.Boundary
			if p.boundaryOf() != before {
				p.Fatalf("the boundary moved from %s to %s", before, p.boundaryOf())
			}
			position()
		}
		for _, nonce := range []string{"a", `b"'ü`} {
			if err := s.Mark(p.ctx, nonce); err != nil {
				p.Fatal(err)
			}
			p.sql("INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t")
			seen := 0
			err := p.consume(s, func(b connectors.Batch, stored bool) error {
				if !stored {
					return nil
				}
				position()
				if slices.Contains(b.Markers, nonce) {
					seen++
				}
				if len(b.Changes) > 0 {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) || seen != 1 {
				p.Fatalf("marker %q was seen %d times: %v", nonce, seen, err)
			}
		}
	})
}
