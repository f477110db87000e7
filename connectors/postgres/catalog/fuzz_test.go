package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/offsets"
)

// FuzzParsePosition: what is accepted of a stored entry comes back when it is written and read again; a refusal says what to do.
func FuzzParsePosition(f *testing.F) {
	p := Position{SystemID: "7301", Timeline: 2, Pos: FormatPos(0x3D485795A0), PosLSN: 0x3D485795A0, BoundaryLSN: 0x3D485795D0, AckedLSN: 1, HighestXID: 1 << 40}
	f.Add(p.Object("g", "c").AppendJSON(nil))
	for _, s := range []string{`{"boundary_lsn":"0/1"}`, `{"boundary_lsn":"0/1","pos":"{\"lsn\":\"0/0\"}"}`, `{"boundary_lsn":"0/1","timeline":1.0,"highest_xid":-1}`, `{"boundary_lsn":"FFFFFFFF/FFFFFFFF","acked_lsn":""}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		o, err := offsets.ParseObject(in)
		if err != nil || o == nil {
			return
		}
		p, err := ParsePosition(o)
		if err != nil {
			if !strings.Contains(err.Error(), "stored offset of the stream") || !strings.Contains(err.Error(), "connectctl offsets reset") {
				t.Fatalf("%q: %v", in, err)
			}
			return
		}
		if xid, ok := o.Int(fieldHighestXID); ok && p.HighestXID != uint64(xid) {
			t.Fatalf("%q: highest transaction %d", in, p.HighestXID)
		}
		back, err := ParsePosition(p.Object("g", "c"))
		if d := cmp.Diff(p, back); err != nil || d != "" {
			t.Fatalf("%q: %v %s", in, err, d)
		}
	})
}

// FuzzTimelineHistory: an accepted history is in order, and each of its ends is found.
func FuzzTimelineHistory(f *testing.F) {
	f.Add([]byte("# comment\n1\t0/3000000\tno recovery target specified\n\n2\t1A/B374D848\tbefore 2024-01-01 00:00:00+00\r\n"))
	f.Add([]byte("2 0/1\n1 0/2"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := ParseTimelineHistory(in)
		if err != nil {
			return
		}
		for i, s := range h {
			if i > 0 && (h[i-1].Timeline >= s.Timeline || h[i-1].LSN > s.LSN) {
				t.Fatalf("%q: %v is not in order", in, h)
			}
			if end, ok := h.EndOf(s.Timeline); !ok || end != s.LSN {
				t.Fatalf("%q: timeline %d ends at %s, %t", in, s.Timeline, end, ok)
			}
		}
	})
}
