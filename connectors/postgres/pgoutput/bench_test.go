package pgoutput

import "testing"

// benchRow is the row of the streaming benchmark: bigint, text of 30, int,
// timestamptz, numeric(12,2).
func benchRow() Tuple {
	return tuple(text("123456"), text("abcdefghijklmnopqrstuvwxyz0123"), text("4242"),
		text("2024-02-29 12:34:56.789012+00"), text("123456.78"))
}

func benchmarkDecode(b *testing.B, m message) {
	src := m.encode()
	var d Decoder
	b.ReportAllocs()
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, err := d.Decode(src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeInsert(b *testing.B) {
	benchmarkDecode(b, &Insert{RelationID: 16385, New: benchRow()})
}

func BenchmarkDecodeUpdateFull(b *testing.B) {
	benchmarkDecode(b, &Update{RelationID: 16385, OldKind: OldFull, Old: benchRow(), New: benchRow()})
}

func BenchmarkDecodeBegin(b *testing.B) {
	benchmarkDecode(b, &Begin{FinalLSN: 0x16_B374D848, CommitTime: unixToY2K, Xid: 753})
}

func BenchmarkReferenceInsert(b *testing.B) {
	src := (&Insert{RelationID: 16385, New: benchRow()}).encode()
	b.ReportAllocs()
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, err := parseReference(src); err != nil {
			b.Fatal(err)
		}
	}
}
