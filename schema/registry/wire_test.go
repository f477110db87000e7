package registry_test

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-cdc/tidemark/schema/registry"
)

func TestHeaderBytes(t *testing.T) {
	got := registry.AppendHeader([]byte("x"), 0x01020304)
	if want := []byte{'x', 0, 1, 2, 3, 4}; !bytes.Equal(got, want) {
		t.Fatalf("header is % x, want % x", got, want)
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.IntRange(0, math.MaxInt32).Draw(t, "id")
		body := rapid.SliceOf(rapid.Byte()).Draw(t, "body")
		gotID, gotBody, err := registry.ParseHeader(append(registry.AppendHeader(nil, id), body...))
		if err != nil || gotID != id || !bytes.Equal(gotBody, body) {
			t.Fatalf("id %d, body % x, error %v", gotID, gotBody, err)
		}
	})
}

func TestParseHeaderRefuses(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, {0, 0, 0, 1}, {1, 0, 0, 0, 1, 9}, {'{', '"', 'a', '"', ':'}, {0, 0x80, 0, 0, 0}} {
		if id, body, err := registry.ParseHeader(b); err == nil {
			t.Errorf("% x was read as id %d, body % x", b, id, body)
		}
	}
}

func TestAppendHeaderAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { _ = registry.AppendHeader(buf, 7) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSubjects(t *testing.T) {
	if k, v := registry.KeySubject("p.public.t"), registry.ValueSubject("p.public.t"); k != "p.public.t-key" || v != "p.public.t-value" {
		t.Errorf("subjects %q and %q", k, v)
	}
}

// FuzzParseHeader: what is accepted is what AppendHeader writes, byte for byte.
func FuzzParseHeader(f *testing.F) {
	for _, b := range [][]byte{nil, {0, 0, 0, 0, 1}, {0, 127, 255, 255, 255, 9}, {0, 128, 0, 0, 0}, {1, 0, 0, 0, 1}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, body, err := registry.ParseHeader(b)
		if err == nil && (id < 0 || id > math.MaxInt32 || !bytes.Equal(append(registry.AppendHeader(nil, id), body...), b)) {
			t.Fatalf("% x was read as id %d, body % x", b, id, body)
		}
	})
}
