package offsets

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParseObject: what is accepted is what encoding/json reads, and comes back when it is written and read again.
func FuzzParseObject(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":-2.5e3,"c":"x\u0000","d":null,"e":true}`, `["c",{"server":"s"}]`, `{"a":[`, `null`, `{"a":"\ud800"}`, `{"a":-0,"b":1e2,"c":9007199254740993}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if o, err := ParseObject(in); err == nil {
			back, err := ParseObject(o.AppendJSON(nil))
			if err != nil || !cmp.Equal(back, o) {
				t.Fatalf("%q: %s came back as %v (%v)", in, o, back, err)
			}
			asJSON(t, in, o)
		}
		if c, p, err := ParseKey(in); err == nil {
			if c2, p2, err := ParseKey(AppendKey(nil, c, p)); err != nil || c2 != c || !p2.Equal(p) {
				t.Fatalf("%q: key came back as %q %v (%v)", in, c2, p2, err)
			}
		}
	})
}

// asJSON compares an object with what encoding/json reads; nothing at all is a tombstone.
func asJSON(t *testing.T, in []byte, o Object) {
	t.Helper()
	if len(bytes.TrimSpace(in)) == 0 {
		return
	}
	var want, got map[string]any
	if err := json.Unmarshal(in, &want); err != nil || len(want) != len(o) {
		t.Fatalf("%q is accepted as %s; encoding/json: %v, %d members", in, o, err, len(want))
	}
	if err := json.Unmarshal(o.AppendJSON(nil), &got); err != nil || !cmp.Equal(got, want) {
		t.Fatalf("%q is written as %s (%v)", in, o, err)
	}
}

// FuzzStates: what is accepted of a table's or a generation's entry comes back when it is written and read again.
func FuzzStates(f *testing.F) {
	f.Add([]byte(`{"id":-1,"name":"a","key_columns":"","key_types":"","identity":"f","key_schema_id":0,"topic":"t","partitions":1,"generation":1,"snapshot":"done","snapshot_ended_ms":2}`))
	full := TableState{ID: 1 << 63, Name: "public.t", KeyColumns: `["id"]`, KeyTypes: "bigint", Identity: "default", KeySchemaID: 7, ValueSchemaID: 8, Topic: "t", Partitions: 3, Generation: 2,
		Snapshot: Progress{State: SnapshotReading, ID: "a", Kind: "initial", After: `["1"]`, Again: `["2"]`, Where: "x", Key: `["y"]`, Rows: 1, Total: -1, Pos: `{"lsn":"0/1"}`, Seq: 1 << 50, Began: 1, Ended: 2, Reason: "z"}}
	f.Add(full.Object().AppendJSON(nil))
	f.Add(Generation{Number: 3, Start: `{"lsn":"0/1"}`, Baseline: true, Building: true}.Object().AppendJSON(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		o, err := ParseObject(in)
		if err != nil {
			return
		}
		if s, err := TableStateFrom(o); err == nil {
			if ended, _ := o.Int(fieldSnapshotEnded); s.Snapshot.State != "" && s.Snapshot.Ended != ended {
				t.Fatalf("%q ended at %d", in, s.Snapshot.Ended)
			}
			if back, err := TableStateFrom(s.Object()); err != nil || !cmp.Equal(back, s) {
				t.Fatalf("%q: %+v came back as %+v (%v)", in, s, back, err)
			}
		}
		if g, err := GenerationFrom(o); err == nil {
			if back, err := GenerationFrom(g.Object()); err != nil || back != g {
				t.Fatalf("%q: %+v came back as %+v (%v)", in, g, back, err)
			}
		}
	})
}
