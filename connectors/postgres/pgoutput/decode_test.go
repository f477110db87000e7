package pgoutput

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sameMessage compares messages; whether an absent tuple's slice is nil or
// empty depends on earlier messages and means nothing.
func sameMessage(want, got message) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

func TestDecodeSamples(t *testing.T) {
	var d Decoder // shared: what an earlier message left must not show
	for range 2 {
		for _, s := range samples() {
			t.Run(s.name, func(t *testing.T) {
				kind, err := d.Decode([]byte(s.wire))
				if err != nil {
					t.Fatal(err)
				}
				if kind != Kind(s.wire[0]) {
					t.Errorf("kind %v", kind)
				}
				if diff := sameMessage(s.want, d.of(kind)); diff != "" {
					t.Error(diff)
				}
				if got := string(s.want.encode()); got != s.wire {
					t.Errorf("test encoder wrote %q, want %q", got, s.wire)
				}
			})
		}
	}
}

func TestNullAndEmptyDiffer(t *testing.T) {
	var m Insert
	if err := m.Decode([]byte("I\x00\x00\x40\x01N\x00\x03nut\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	for i, wantNil := range []bool{true, true, false} {
		if got := m.New.Columns[i].Data == nil; got != wantNil {
			t.Errorf("column %d: nil %v, want %v", i, got, wantNil)
		}
	}
}

// Every strict prefix of a message lacks something, and says so.
func TestTruncatedInput(t *testing.T) {
	var d Decoder
	for _, s := range append(samples(), recordedSamples(t)...) {
		for n := range len(s.wire) {
			src := []byte(s.wire[:n])
			_, err := d.Decode(src)
			var e *DecodeError
			if !errors.As(err, &e) {
				t.Fatalf("%s cut to %d of %d bytes: %v", s.name, n, len(s.wire), err)
			}
			if !IsDecodeError(fmt.Errorf("wrapped: %w", err)) {
				t.Fatal("IsDecodeError does not unwrap")
			}
			if e.Offset > n || e.Field == "" || e.Reason == "" || n > 0 && e.Kind != Kind(s.wire[0]) {
				t.Fatalf("%s cut to %d bytes: %+v", s.name, n, e)
			}
			if n == 0 {
				err = reflect.New(reflect.TypeOf(s.want).Elem()).Interface().(message).Decode(src)
				if !IsDecodeError(err) {
					t.Fatalf("%s from nothing: %v", s.name, err)
				}
			}
		}
	}
}

func TestTrailingBytes(t *testing.T) {
	var d Decoder
	for _, s := range samples() {
		_, err := d.Decode([]byte(s.wire + "\x00"))
		var e *DecodeError
		if !errors.As(err, &e) || e.Offset != len(s.wire) || !strings.Contains(e.Reason, "1 bytes follow") {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

func TestMalformedInput(t *testing.T) {
	const lsn, time = "\x00\x00\x00\x00\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x00\x00\x02"
	for _, c := range []struct{ name, wire, want string }{
		{"empty", "", "message at byte 0: message kind: needs 1 bytes, 0 left"},
		{"unknown kind", "Zabc", "kind 0x5a at byte 0: message kind: is unknown"},
		{"time", "B" + lsn + "\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x01", "begin at byte 9: commit time: is out of range"},
		{"commit flags", "C\x01" + lsn + lsn + time, "commit at byte 1: flags: is 0x01, not 0"},
		{"no zero", "O" + lsn + "abc", "origin at byte 9: name: has no terminating zero in the 3 bytes left"},
		{"identity", "R\x00\x00\x00\x01s\x00t\x00x\x00\x00", "relation at byte 9: replica identity: is 0x78, not one of d, n, f, i"},
		{"column flags", "R\x00\x00\x00\x01s\x00t\x00d\x00\x01\x02a\x00\x00\x00\x00\x17\xff\xff\xff\xff",
			"relation at byte 12: column flags: is 0x02, not 0 or 1"},
		{"relation columns", "R\x00\x00\x00\x01s\x00t\x00d\x7f\xff\x00a\x00\x00\x00\x00\x17\xff\xff\xff\xff",
			"relation at byte 10: number of columns: is 32767, needs at least 10 bytes each, 11 left in all"},
		{"negative relation columns", "R\x00\x00\x00\x01s\x00t\x00d\x80\x00", "relation at byte 10: number of columns: is negative: -32768"},
		{"insert of key", "I\x00\x00\x00\x01K\x00\x00", "insert at byte 5: tuple kind: is 0x4b, not N"},
		{"tuple columns", "I\x00\x00\x00\x01N\x7f\xffnn", "insert at byte 6: number of columns: is 32767, needs at least 1 bytes each, 2 left in all"},
		{"negative tuple columns", "I\x00\x00\x00\x01N\xff\xffn", "insert at byte 6: number of columns: is negative: -1"},
		{"column kind", "I\x00\x00\x00\x01N\x00\x02nx", "insert at byte 9: kind of column 1 of the new tuple: is 0x78, not one of n, u, t, b"},
		{"column length", "I\x00\x00\x00\x01N\x00\x01t\x00\x00", "insert at byte 9: length of column 0 of the new tuple: needs 4 bytes, 2 left"},
		{"negative length", "I\x00\x00\x00\x01N\x00\x01t\xff\xff\xff\xff", "insert at byte 9: length of column 0 of the new tuple: is negative: -1"},
		{"column value", "D\x00\x00\x00\x01K\x00\x01t\x7f\xff\xff\xffab", "delete at byte 13: value of column 0 of the old tuple: needs 2147483647 bytes, 2 left"},
		{"column missing", "I\x00\x00\x00\x01N\x00\x02t\x00\x00\x00\x01a", "insert at byte 14: kind of column 1 of the new tuple: needs 1 byte, 0 left"},
		{"update mark", "U\x00\x00\x00\x01X\x00\x00", "update at byte 5: tuple kind: is 0x58, not one of K, O, N"},
		{"update second mark", "U\x00\x00\x00\x01K\x00\x01nK\x00\x01n", "update at byte 9: tuple kind: is 0x4b, not N"},
		{"delete mark", "D\x00\x00\x00\x01N\x00\x00", "delete at byte 5: tuple kind: is 0x4e, not K or O"},
		{"relations", "T\x7f\xff\xff\xff\x00\x00\x00\x00\x01", "truncate at byte 1: number of relations: is 2147483647, needs at least 4 bytes each, 4 left in all"},
		{"negative relations", "T\xff\xff\xff\xff\x00", "truncate at byte 1: number of relations: is negative: -1"},
		{"truncate options", "T\x00\x00\x00\x00\x04", "truncate at byte 5: options: is 0x04, has unknown bits"},
		{"message flags", "M\x02" + lsn + "\x00\x00\x00\x00\x00", "message at byte 1: flags: is 0x02, not 0 or 1"},
		{"content", "M\x00" + lsn + "p\x00\x7f\xff\xff\xffx", "message at byte 12: content length: is 2147483647, needs at least 1 bytes each, 1 left in all"},
		{"negative content", "M\x00" + lsn + "p\x00\xff\xff\xff\xff", "message at byte 12: content length: is negative: -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			_, err := d.Decode([]byte(c.wire))
			if !IsDecodeError(err) || err.Error() != "decode pgoutput "+c.want {
				t.Errorf("got  %v\nwant decode pgoutput %s", err, c.want)
			}
			for _, tup := range []Tuple{d.Insert.New, d.Update.New, d.Update.Old, d.Delete.Old} {
				if cap(tup.Columns) > len(c.wire) {
					t.Errorf("allocated %d columns for %d bytes", cap(tup.Columns), len(c.wire))
				}
			}
			if cap(d.Relation.Columns) > 1 || cap(d.Truncate.RelationIDs) > 0 {
				t.Error("allocated before the count was checked")
			}
		})
	}
}

func TestMismatchedKind(t *testing.T) {
	var m Insert
	err := m.Decode([]byte("U\x00\x00\x40\x01N\x00\x00"))
	if want := "decode pgoutput insert at byte 0: message kind: is 0x55, not 0x49"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLaterProtocols(t *testing.T) {
	var d Decoder
	for _, b := range []byte("SEcAbPKrp") {
		kind, err := d.Decode([]byte{b, 0, 0, 0, 1})
		var e *UnexpectedKindError
		if !errors.As(err, &e) || e.Kind != Kind(b) || kind != Kind(b) || IsDecodeError(err) || !IsUnexpectedKind(err) {
			t.Errorf("%q: %v", b, err)
		}
		if !strings.Contains(err.Error(), "unexpected message kind '"+string(b)+"' (") {
			t.Errorf("%q: %v", b, err)
		}
	}
}

func TestKindNames(t *testing.T) {
	seen := map[string]Kind{}
	for b := range 256 {
		name := Kind(b).String()
		if other, ok := seen[name]; ok {
			t.Errorf("%q names 0x%02x and 0x%02x", name, b, byte(other))
		}
		seen[name] = Kind(b)
	}
}

// A value must not be able to grow into its neighbour, and must be the input's
// own bytes.
func TestValuesAliasInput(t *testing.T) {
	src := []byte("I\x00\x00\x40\x01N\x00\x02t\x00\x00\x00\x02abt\x00\x00\x00\x01c")
	var m Insert
	if err := m.Decode(src); err != nil {
		t.Fatal(err)
	}
	a := m.New.Columns[0].Data
	if unsafe.SliceData(a) != &src[13] || cap(a) != 2 {
		t.Errorf("value is not cut out of the input: cap %d", cap(a))
	}
}

// What may be kept must not change with later messages or with the input.
func TestRelationIsACopy(t *testing.T) {
	var d Decoder
	src := []byte("R\x00\x00\x40\x01public\x00t\x00d\x00\x01\x01id\x00\x00\x00\x00\x14\xff\xff\xff\xff")
	if _, err := d.Decode(src); err != nil {
		t.Fatal(err)
	}
	kept := d.Relation
	other := strings.NewReplacer("public", "secret", "id", "xx", "\x14", "\x15").Replace(string(src))
	copy(src, other)
	if _, err := d.Decode(src); err != nil {
		t.Fatal(err)
	}
	want := Relation{16385, "public", "t", 'd', []RelationColumn{{1, "id", 20, -1}}}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Error(diff)
	}
	if !kept.Columns[0].Key() || (&RelationColumn{}).Key() {
		t.Error("Key does not follow bit 0 of the flags")
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	var d Decoder
	for _, s := range samples() {
		switch Kind(s.wire[0]) {
		case KindOrigin, KindRelation, KindType:
			continue
		}
		src := []byte(s.wire)
		n := testing.AllocsPerRun(100, func() {
			if _, err := d.Decode(src); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", s.name, n)
		}
	}
}
