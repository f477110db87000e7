package pgoutput

import (
	"bytes"
	"errors"
	"testing"
)

func FuzzBegin(f *testing.F)    { fuzzKind(f, KindBegin) }
func FuzzCommit(f *testing.F)   { fuzzKind(f, KindCommit) }
func FuzzOrigin(f *testing.F)   { fuzzKind(f, KindOrigin) }
func FuzzRelation(f *testing.F) { fuzzKind(f, KindRelation) }
func FuzzType(f *testing.F)     { fuzzKind(f, KindType) }
func FuzzInsert(f *testing.F)   { fuzzKind(f, KindInsert) }
func FuzzUpdate(f *testing.F)   { fuzzKind(f, KindUpdate) }
func FuzzDelete(f *testing.F)   { fuzzKind(f, KindDelete) }
func FuzzTruncate(f *testing.F) { fuzzKind(f, KindTruncate) }
func FuzzMessage(f *testing.F)  { fuzzKind(f, KindMessage) }

// fuzzKind feeds one message's decoder; the input lacks the kind byte.
func fuzzKind(f *testing.F, kind Kind) {
	for _, s := range append(samples(), recordedSamples(f)...) {
		if Kind(s.wire[0]) == kind {
			f.Add([]byte(s.wire[1:]))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		src := append([]byte{byte(kind)}, body...)
		var d Decoder
		m := d.of(kind)
		judge(t, src, m, m.Decode(src))
	})
}

// FuzzDecode feeds two messages to one Decoder: the first must not show in the
// second.
func FuzzDecode(f *testing.F) {
	all := append(samples(), recordedSamples(f)...)
	for i, s := range all {
		f.Add([]byte(s.wire), []byte(all[(i+1)%len(all)].wire))
	}
	for _, b := range []byte("SEcAbPKrpZ") {
		f.Add([]byte{b}, []byte{b, 0, 0, 0, 1})
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var d Decoder
		for _, src := range [][]byte{first, second} {
			kind, err := d.Decode(src)
			if err == nil || !IsUnexpectedKind(err) {
				judge(t, src, d.of(kind), err)
			}
		}
	})
}

// judge holds a decoder's outcome against what is true of any input: an error
// is typed and points into the input; what was accepted is exactly what the
// input says, byte for byte, and what pglogrepl says.
func judge(t *testing.T, src []byte, m message, err error) {
	t.Helper()
	if err != nil {
		var e *DecodeError
		if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(src) || e.Field == "" || e.Reason == "" {
			t.Fatalf("%q: bad error %#v", src, err)
		}
		return
	}
	got := m.encode()
	if k := Kind(src[0]); k == KindRelation || k == KindType {
		// Both spellings of pg_catalog are read alike.
		src = bytes.Clone(src)
		if name := []byte("pg_catalog\x00"); len(src) > 5 && bytes.HasPrefix(src[5:], name) {
			src = append(src[:5], src[5+len(name)-1:]...)
		}
	}
	if !bytes.Equal(got, src) {
		t.Fatalf("decoded %q as what encodes to %q", src, got)
	}
	if diff := compareReference(src, m); diff != "" {
		t.Fatalf("%q: %s", src, diff)
	}
}
