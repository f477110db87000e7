package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-cdc/tidemark/connectors"
)

var (
	colID   = col{"id", oidInt4, true}
	colN    = col{"n", oidInt4, false}
	colBig  = col{"big", oidText, false}
	plainID = col{"id", oidInt4, false}
)

// world is a catalogue of the tables the tests use: a has a key, f has one and full identity, k has
// none and full identity, hidden has a key and is not captured, hiddenless has none and is not captured.
func world() fakeLookup {
	return fakeLookup{
		1: catTable(1, "public.a", 'd', []string{"id"}, colID, colN, colBig),
		2: catTable(2, "public.f", 'f', []string{"id"}, colID, colN, colBig),
		3: catTable(3, "public.k", 'f', nil, plainID, colN),
		4: catTable(4, "public.hidden", 'd', []string{"id"}, colID, colN),
		5: catTable(5, "public.hiddenless", 'f', nil, plainID, colN),
	}
}

func describeWorld(s *script) {
	s.relation(1, "public.a", 'd', colID, colN, colBig)
	s.relation(2, "public.f", 'f', colID, col{"n", oidInt4, true}, col{"big", oidText, true})
	s.relation(3, "public.k", 'f', col{"id", oidInt4, true}, col{"n", oidInt4, true})
	s.relation(4, "public.hidden", 'd', colID, colN)
	s.relation(5, "public.hiddenless", 'f', col{"id", oidInt4, true}, col{"n", oidInt4, true})
}

var hide = map[string]string{propTableExclude: "public.hidden.*", propMessageExclude: "app"}

func TestChanges(t *testing.T) {
	for _, tc := range []struct {
		name  string
		write func(s *script)
		want  []string
	}{
		{"insert, update, delete", func(s *script) {
			s.insert(1, "1", "10", "x")
			s.update(1, 0, nil, "1", "11", unchanged)
			s.delete(1, 'K', "1", null, null)
		}, []string{`0 c public.a v1 after(1,10,x)`, `1 u public.a v1 after(1,11,?)`, `2 d public.a v1 before(1,?,?)`}},
		{"key change takes two ordinals", func(s *script) {
			s.update(1, 'K', []string{"1", null, null}, "2", "10", unchanged)
			s.insert(1, "3", null, "")
		}, []string{`0 d public.a v1 before(1,?,?)`, `1 c public.a v1 after(2,10,?) oldkey(1,?,?)`, `2 c public.a v1 after(3,-,)`}},
		{"an old tuple is no key change", func(s *script) {
			s.update(1, 'K', []string{"1", null, null}, "1", "10", "y")
			s.update(1, 'K', []string{"1", null, null}, unchanged, "10", "y")
		}, []string{`0 u public.a v1 after(1,10,y)`, `1 u public.a v1 after(1,10,y)`}},
		{"full identity carries unchanged values", func(s *script) {
			s.update(2, 'O', []string{"1", "5", "huge"}, "1", "6", unchanged)
			s.update(2, 'O', []string{"1", "6", "huge"}, "2", "6", unchanged)
			s.delete(2, 'O', "2", "6", "huge")
		}, []string{
			`0 u public.f v1 before(1,5,huge) after(1,6,huge)`, `1 d public.f v1 before(1,6,huge)`,
			`2 c public.f v1 after(2,6,huge) oldkey(1,6,huge)`, `3 d public.f v1 before(2,6,huge)`,
		}},
		{"keyless update is delete and create", func(s *script) {
			s.update(3, 'O', []string{"1", "1"}, "1", "2")
			s.delete(3, 'O', "1", "2")
		}, []string{`0 d public.k v1 before(1,1)`, `1 c public.k v1 after(1,2) oldkey(1,1)`, `2 d public.k v1 before(1,2)`}},
		{"ordinals count what is filtered", func(s *script) {
			s.insert(4, "1", "1")
			s.update(4, 'K', []string{"1", null}, "2", "1")
			s.update(4, 0, nil, "2", "2")
			s.update(5, 'O', []string{"1", "1"}, "1", "2")
			s.delete(4, 'K', "2", null)
			s.truncate(4, 5)
			s.logical(true, 7)
			s.insert(1, "1", "1", "x")
		}, []string{`9 c public.a v1 after(1,1,x)`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &script{}
			s.begin(0x100, 7)
			describeWorld(s)
			tc.write(s)
			s.commit()
			var want []string
			for _, w := range tc.want {
				want = append(want, `{"lsn":"0/100"} `+w)
			}
			want = append(want, "boundary 0/130")
			got, err := newRig(t, &s.buf, 0, world(), hide, Options{}).drain(true)
			if !errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBoundaries(t *testing.T) {
	s := &script{}
	s.begin(0x100, 1) // published already: ends at 0x130
	describeWorld(s)
	s.insert(1, "1", "1", "x")
	s.commit()
	s.logical(false, 0x120) // published already
	s.begin(0x130, 2)       // begins where the boundary is
	s.insert(1, "2", "1", "x")
	s.commit()
	s.begin(0x200, 3) // empty
	s.commit()
	s.begin(0x300, 4) // filtered
	s.insert(4, "1", "1")
	s.commit()
	s.logical(false, 0x400)
	s.keepalive(0x500, false) // nobody asked
	s.keepalive(0x600, true)
	s.keepalive(0x600, true) // not moved
	want := []string{
		`{"lsn":"0/130"} 0 c public.a v1 after(2,1,x)`, "boundary 0/160", "boundary 0/600",
	}
	r := newRig(t, &s.buf, 0x130, world(), hide, Options{})
	// The boundary of a stream at rest covers the empty ones before it.
	got, _ := r.drain(true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if pos, _ := r.position.Object("", "").Text("pos"); pos != `{"lsn":"0/130"}` {
		t.Errorf("position %s; want that of the last transaction that published something", pos)
	}
}

func TestNoIdleBoundaryInFlight(t *testing.T) {
	s := &script{}
	s.begin(0x100, 2)
	describeWorld(s)
	s.insert(1, "2", "1", "x")
	s.commit()
	s.keepalive(0x600, true)
	r := newRig(t, &s.buf, 0, world(), hide, Options{})
	got, _ := r.drain(false) // nothing is acknowledged
	if want := "boundary 0/130"; got[len(got)-1] != want {
		t.Errorf("got %s after the transaction, want %s last", got[len(got)-1], want)
	}
}

func TestBlocks(t *testing.T) {
	full := []col{colID, {"n", oidInt4, true}, {"big", oidText, true}}
	for _, tc := range []struct {
		name, want string
		write      func(s *script)
	}{
		{"truncate", `table public.a was truncated`, func(s *script) { s.truncate(4, 1) }},
		{"value", `column "n" of type integer`, func(s *script) { s.insert(1, "1", "secret", "x") }},
		{"null key", `key column "id" is null`, func(s *script) { s.insert(1, null, "1", "x") }},
		{"key not there", `key column "id" is unavailable`, func(s *script) { s.update(1, 0, nil, unchanged, "1", "x") }},
		{"width", `a row has 2 columns`, func(s *script) { s.insert(1, "1", "1") }},
		{"unknown relation", `OID 99`, func(s *script) { s.insert(99, "1") }},
		{"key column type changed", `key column "id" changed from integer to text`, func(s *script) {
			s.relation(1, "public.a", 'd', col{"id", oidText, true}, colN, colBig)
		}},
		{"renamed", `table public.a is now called public.b`, func(s *script) { s.relation(1, "public.b", 'd', colID, colN, colBig) }},
		{"recreated", `was dropped and created again (OID 1 before, 9 now)`, func(s *script) { s.relation(9, "public.a", 'd', colID, colN, colBig) }},
		{"identity", `replica identity changed from default to full`, func(s *script) { s.relation(1, "public.a", 'f', full...) }},
		{"key moved", `the key is (id), but updates and deletes carry (n)`, func(s *script) {
			s.relation(1, "public.a", 'd', plainID, col{"n", oidInt4, true}, colBig)
		}},
		{"key grew", `the key is (id), but updates and deletes carry (id, n)`, func(s *script) {
			s.relation(1, "public.a", 'd', colID, col{"n", oidInt4, true}, colBig)
		}},
		{"key column renamed", `key column "id" is not in the log`, func(s *script) { s.relation(1, "public.a", 'd', col{"ident", oidInt4, true}, colN, colBig) }},
		{"keyless without old row", `carries no old row`, func(s *script) { s.update(3, 0, nil, "1", "1") }},
		{"message on the wrong side", `wrong side`, func(s *script) { s.logical(false, 9) }},
		{"begin twice", `inside another`, func(s *script) { s.begin(0x200, 9) }},
		{"garbage", `decode pgoutput`, func(s *script) { s.wal([]byte{'I', 0}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &script{}
			s.begin(0x100, 7)
			describeWorld(s)
			tc.write(s)
			s.commit()
			r := newRig(t, &s.buf, 0, world(), hide, Options{})
			got, err := r.drain(true)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want …%s…", err, tc.want)
			}
			if connectors.ClassOf(err) != connectors.ClassBlock {
				t.Errorf("class %s, want block", connectors.ClassOf(err))
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows a value: %v", err)
			}
			if len(got) > 0 {
				t.Errorf("handed out %v", got)
			}
			if _, again := r.next(context.Background()); again == nil || again.Error() != err.Error() {
				t.Errorf("then got %v, want the same error", again)
			}
		})
	}
}

func TestColumnsComeAndGo(t *testing.T) {
	s := &script{}
	s.begin(0x100, 7)
	describeWorld(s)
	s.insert(1, "1", "1", "x")
	s.relation(1, "public.a", 'd', colID, colN, colBig)
	s.insert(1, "2", "1", "x")
	s.relation(1, "public.a", 'd', colID, colBig, col{"extra", oidText, false})
	s.insert(1, "3", "x", "e")
	s.commit()
	want := []string{
		`{"lsn":"0/100"} 0 c public.a v1 after(1,1,x)`, `{"lsn":"0/100"} 1 c public.a v1 after(2,1,x)`,
		`{"lsn":"0/100"} 2 c public.a v2 after(3,x,e)`, "boundary 0/130",
	}
	got, _ := newRig(t, &s.buf, 0, world(), nil, Options{}).drain(true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVendorWithoutKeyFlags(t *testing.T) { // case 55
	s := &script{}
	s.begin(0x100, 7)
	s.relation(1, "public.a", 'd', plainID, colN, colBig)
	s.delete(1, 'K', "7", null, null)
	s.update(1, 'K', []string{"8", null, null}, "9", "1", "x")
	s.commit()
	want := []string{
		`{"lsn":"0/100"} 0 d public.a v1 before(7,?,?)`, `{"lsn":"0/100"} 1 d public.a v1 before(8,?,?)`,
		`{"lsn":"0/100"} 2 c public.a v1 after(9,1,x) oldkey(8,?,?)`, "boundary 0/130",
	}
	got, _ := newRig(t, &s.buf, 0, world(), nil, Options{}).drain(true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExcludedColumns(t *testing.T) {
	s := &script{}
	s.begin(0x100, 7)
	describeWorld(s)
	s.insert(1, "1", "1", "x")
	s.commit()
	got, _ := newRig(t, &s.buf, 0, world(), map[string]string{propColumnExclude: `public\.a\.(n|other)`}, Options{}).drain(true)
	if want := `{"lsn":"0/100"} 0 c public.a v1 after(1,x)`; got[0] != want {
		t.Errorf("got %s, want %s", got[0], want)
	}
}

func TestWideXid(t *testing.T) {
	for _, tc := range []struct {
		reference uint64
		xid       uint32
		want      uint64
	}{
		{1000, 7, 7}, {1000, 1001, 1001}, {1<<32 + 5, 0xfffffff0, 0xfffffff0}, {1<<32 - 2, 3, 1<<32 + 3}, {5<<32 + 10, 8, 5<<32 + 8},
	} {
		if got := wideXid(tc.reference, tc.xid); got != tc.want {
			t.Errorf("wideXid(%d, %d) = %d, want %d", tc.reference, tc.xid, got, tc.want)
		}
	}
}

// TestAnySplit: whatever the batch limits and however the bytes arrive, the changes are the same.
func TestAnySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &script{}
		lsn := uint64(0x1000)
		for tx := range rapid.IntRange(1, 4).Draw(t, "transactions") {
			s.begin(lsn, uint32(tx))
			if tx == 0 {
				describeWorld(s)
			}
			for i := range rapid.IntRange(0, 15).Draw(t, "changes") {
				id := fmt.Sprint(i)
				switch rapid.IntRange(0, 4).Draw(t, "change") {
				case 0:
					s.insert(1, id, "1", strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 100, 1000, 9000, 9000, 70_000}).Draw(t, "size")))
				case 1:
					s.update(1, 'K', []string{id, null, null}, "9"+id, "1", unchanged)
				case 2:
					s.update(3, 'O', []string{id, "1"}, id, "2")
				case 3:
					s.insert(4, id, "1")
				case 4:
					s.delete(2, 'O', id, "1", "gone")
				}
			}
			s.commit()
			lsn += 0x1000
		}
		all := s.buf.Bytes()
		whole, err := newRig(t, bytes.NewReader(all), 0, world(), hide, Options{MaxBatchBytes: 4 << 20, MaxBatchChanges: 1 << 20}).drain(true)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("ended with %v", err)
		}
		r := newRig(t, bytes.NewReader(all), 0, world(), hide, Options{
			MaxBatchBytes: minBuffer, MaxBatchChanges: rapid.IntRange(1, 20).Draw(t, "limit"),
		})
		r.conn.rnd = rand.New(rand.NewSource(int64(rapid.IntRange(0, 1000).Draw(t, "seed"))))
		split, err := r.drain(true)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("ended with %v", err)
		}
		if diff := cmp.Diff(changesOf(whole), changesOf(split)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// changesOf leaves the boundaries of empty transactions out: how they merge depends on the reads.
func changesOf(lines []string) []string {
	var out []string
	for _, l := range lines {
		if !strings.HasSuffix(l, "lazy") {
			out = append(out, l)
		}
	}
	return out
}

func TestEmptyOnesMerge(t *testing.T) {
	s := &script{}
	s.begin(0x200, 3)
	s.commit()
	s.begin(0x300, 4)
	describeWorld(s)
	s.insert(4, "1", "1")
	s.commit()
	s.logical(false, 0x400)
	s.begin(0x500, 5)
	r := newRig(t, &s.buf, 0, world(), hide, Options{})
	b, err := r.next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"boundary 0/400 lazy"}, render(b)); diff != "" {
		t.Error(diff)
	}
	if b.Tx.Pos != `{"lsn":"0/3FF"}` {
		t.Errorf("transaction %+v, want that of the message", b.Tx)
	}
}

// A lazy boundary waits in the pipeline; a server that asks for a reply is not kept waiting for it.
func TestRestCoversLazyBoundaries(t *testing.T) {
	s := &script{}
	s.begin(0x200, 3)
	s.commit()
	r := newRig(t, &gapReader{parts: [][]byte{append([]byte(nil), s.buf.Bytes()...), keepalives(0x230, 0x230)}}, 0x100, world(), hide, Options{})
	got, _ := r.drain(false)
	if diff := cmp.Diff([]string{"boundary 0/230 lazy", "boundary 0/230"}, got); diff != "" {
		t.Error(diff)
	}
}

func keepalives(ends ...uint64) []byte {
	s := &script{}
	for _, end := range ends {
		s.keepalive(end, true)
	}
	return s.buf.Bytes()
}

// gapReader gives one part a read.
type gapReader struct{ parts [][]byte }

func (g *gapReader) Read(b []byte) (int, error) {
	if len(g.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, g.parts[0])
	g.parts = g.parts[1:]
	return n, nil
}
