package pgoutput

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden text dumps anew")

// recordings hold one message a line, as PostgreSQL 15 wrote them for
// testdata/record.sql; testdata/record.sh makes them.
var recordings = []string{"recorded", "binary"}

func readRecording(t testing.TB, name string) (messages [][]byte) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(data)) {
		src, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, src)
	}
	return messages
}

func recordedSamples(t testing.TB) (out []sample) {
	t.Helper()
	var d Decoder
	for _, name := range recordings {
		for i, src := range readRecording(t, name) {
			out = append(out, sample{fmt.Sprintf("%s.hex:%d", name, i+1), string(src), d.of(Kind(src[0]))})
		}
	}
	return out
}

// What a real server wrote is read as the reviewed text says.
func TestRecorded(t *testing.T) {
	for _, name := range recordings {
		t.Run(name, func(t *testing.T) {
			var d Decoder
			var dump bytes.Buffer
			for i, src := range readRecording(t, name) {
				kind, err := d.Decode(src)
				if err != nil {
					t.Fatalf("message %d: %v", i+1, err)
				}
				dumpMessage(&dump, d.of(kind))
			}
			golden := "testdata/" + name + ".txt"
			if *update {
				if err := os.WriteFile(golden, dump.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, dump.Bytes()) {
				t.Errorf("differs from %s (-update writes it anew):\n%s", golden, dump.Bytes())
			}
		})
	}
}

// A recording that lost a part of the script would prove little.
func TestRecordingCoversEveryMessage(t *testing.T) {
	seen := map[Kind]int{}
	columns := map[byte]int{}
	for _, s := range recordedSamples(t) {
		seen[Kind(s.wire[0])]++
		var d Decoder
		if _, err := d.Decode([]byte(s.wire)); err != nil {
			t.Fatal(err)
		}
		for _, tup := range []Tuple{d.Insert.New, d.Update.Old, d.Update.New, d.Delete.Old} {
			for _, c := range tup.Columns {
				columns[c.Kind]++
			}
		}
	}
	for _, k := range []byte("BCORYIUDTM") {
		if seen[Kind(k)] == 0 {
			t.Errorf("no %v message", Kind(k))
		}
	}
	for _, k := range []byte("nutb") {
		if columns[k] == 0 {
			t.Errorf("no column of kind %c", k)
		}
	}
}

func dumpMessage(w *bytes.Buffer, m message) {
	switch m := m.(type) {
	case *Begin:
		fmt.Fprintf(w, "begin final=%s time=%d xid=%d\n", m.FinalLSN, m.CommitTime, m.Xid)
	case *Commit:
		fmt.Fprintf(w, "commit lsn=%s end=%s time=%d\n", m.CommitLSN, m.EndLSN, m.CommitTime)
	case *Origin:
		fmt.Fprintf(w, "  origin lsn=%s name=%q\n", m.CommitLSN, m.Name)
	case *Relation:
		fmt.Fprintf(w, "  relation %d %q.%q identity=%c\n", m.ID, m.Namespace, m.Name, m.ReplicaIdentity)
		for _, c := range m.Columns {
			fmt.Fprintf(w, "    column %q key=%v type=%d modifier=%d\n", c.Name, c.Key(), c.TypeOID, c.TypeModifier)
		}
	case *Type:
		fmt.Fprintf(w, "  type %d %q.%q\n", m.OID, m.Namespace, m.Name)
	case *Insert:
		fmt.Fprintf(w, "  insert %d\n", m.RelationID)
		dumpTuple(w, "new", m.New)
	case *Update:
		fmt.Fprintf(w, "  update %d\n", m.RelationID)
		if m.OldKind != OldNone {
			dumpTuple(w, string(m.OldKind), m.Old)
		}
		dumpTuple(w, "new", m.New)
	case *Delete:
		fmt.Fprintf(w, "  delete %d\n", m.RelationID)
		dumpTuple(w, string(m.OldKind), m.Old)
	case *Truncate:
		fmt.Fprintf(w, "  truncate %v options=%d\n", m.RelationIDs, m.Options)
	case *Message:
		fmt.Fprintf(w, "  message tx=%v lsn=%s prefix=%q content=%q\n", m.Transactional, m.LSN, m.Prefix, m.Content)
	}
}

func dumpTuple(w *bytes.Buffer, name string, t Tuple) {
	fmt.Fprintf(w, "    %s:", name)
	for _, c := range t.Columns {
		switch {
		case c.Data == nil:
			fmt.Fprintf(w, " %c", c.Kind)
		case len(c.Data) > 100:
			fmt.Fprintf(w, " %c%q…(%d bytes)", c.Kind, c.Data[:10], len(c.Data))
		default:
			fmt.Fprintf(w, " %c%q", c.Kind, c.Data)
		}
	}
	w.WriteByte('\n')
}
