package pgoutput

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pglogrepl"
	"pgregory.net/rapid"
)

// parseReference runs pglogrepl's parser, which panics on short input.
func parseReference(src []byte) (m pglogrepl.Message, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return pglogrepl.Parse(src)
}

// referenceRefuses tells the valid messages pglogrepl does not take: it counts
// on at least one column and one relation.
func referenceRefuses(src []byte) bool {
	return src[0] == 'I' && len(src) == 8 || src[0] == 'T' && len(src) == 6
}

func micros(t time.Time) int64 { return t.UnixMicro() }

func namespace(s string) string {
	if s == "" {
		return "pg_catalog"
	}
	return s
}

func fromTuple(t *pglogrepl.TupleData) (out Tuple) {
	if t == nil {
		return out
	}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, ColumnValue{c.DataType, c.Data})
	}
	return out
}

// fromReference puts pglogrepl's message into this package's type.
func fromReference(m pglogrepl.Message) message {
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		return &Begin{LSN(m.FinalLSN), micros(m.CommitTime), m.Xid}
	case *pglogrepl.CommitMessage:
		return &Commit{LSN(m.CommitLSN), LSN(m.TransactionEndLSN), micros(m.CommitTime)}
	case *pglogrepl.OriginMessage:
		return &Origin{LSN(m.CommitLSN), m.Name}
	case *pglogrepl.RelationMessage:
		out := &Relation{ID: m.RelationID, Namespace: namespace(m.Namespace), Name: m.RelationName, ReplicaIdentity: m.ReplicaIdentity}
		for _, c := range m.Columns {
			out.Columns = append(out.Columns, RelationColumn{c.Flags, c.Name, c.DataType, c.TypeModifier})
		}
		return out
	case *pglogrepl.TypeMessage:
		return &Type{m.DataType, namespace(m.Namespace), m.Name}
	case *pglogrepl.InsertMessage:
		return &Insert{m.RelationID, fromTuple(m.Tuple)}
	case *pglogrepl.UpdateMessage:
		return &Update{m.RelationID, m.OldTupleType, fromTuple(m.OldTuple), fromTuple(m.NewTuple)}
	case *pglogrepl.DeleteMessage:
		return &Delete{m.RelationID, m.OldTupleType, fromTuple(m.OldTuple)}
	case *pglogrepl.TruncateMessage:
		return &Truncate{m.Option, m.RelationIDs}
	case *pglogrepl.LogicalDecodingMessage:
		return &Message{m.Transactional, LSN(m.LSN), []byte(m.Prefix), m.Content}
	}
	return nil
}

// compareReference returns how pglogrepl's reading of src differs from got.
func compareReference(src []byte, got message) string {
	if referenceRefuses(src) {
		return ""
	}
	ref, err := parseReference(src)
	if err != nil {
		return fmt.Sprintf("pglogrepl: %v", err)
	}
	opts := []cmp.Option{cmpopts.EquateEmpty()}
	if outOfReferenceTime(got) {
		opts = append(opts, cmpopts.IgnoreFields(Begin{}, "CommitTime"), cmpopts.IgnoreFields(Commit{}, "CommitTime"))
	}
	return cmp.Diff(fromReference(ref), got, opts...)
}

// outOfReferenceTime: pglogrepl computes times in nanoseconds, which overflow
// 292 years from 1970.
func outOfReferenceTime(m message) bool {
	var at int64
	switch m := m.(type) {
	case *Begin:
		at = m.CommitTime
	case *Commit:
		at = m.CommitTime
	}
	return at > math.MaxInt64/1000 || at < math.MinInt64/1000
}

func TestReferenceReadsSamplesAlike(t *testing.T) {
	var d Decoder
	for _, s := range append(samples(), recordedSamples(t)...) {
		kind, err := d.Decode([]byte(s.wire))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if diff := compareReference([]byte(s.wire), d.of(kind)); diff != "" {
			t.Errorf("%s: %s", s.name, diff)
		}
	}
}

var (
	names   = rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 }))
	times   = rapid.Int64Range(math.MinInt64/1000, math.MaxInt64/1000)
	lsns    = rapid.Custom(func(t *rapid.T) LSN { return LSN(rapid.Uint64().Draw(t, "lsn")) })
	content = rapid.SliceOfN(rapid.Byte(), 0, 300)
	columns = rapid.Custom(func(t *rapid.T) ColumnValue {
		c := ColumnValue{Kind: rapid.SampledFrom([]byte("nutb")).Draw(t, "kind")}
		if c.Kind == ColumnText || c.Kind == ColumnBinary {
			c.Data = content.Draw(t, "data")
		}
		return c
	})
	tuples = rapid.Custom(func(t *rapid.T) Tuple {
		return Tuple{rapid.SliceOfN(columns, 0, 40).Draw(t, "columns")}
	})
	relationColumns = rapid.Custom(func(t *rapid.T) RelationColumn {
		return RelationColumn{rapid.ByteRange(0, 1).Draw(t, "flags"), names.Draw(t, "name"), rapid.Uint32().Draw(t, "type"), rapid.Int32().Draw(t, "modifier")}
	})
)

func drawMessage(t *rapid.T) message {
	id := rapid.Uint32().Draw(t, "id")
	switch rapid.SampledFrom([]byte("BCORYIUDTM")).Draw(t, "message") {
	case 'B':
		return &Begin{lsns.Draw(t, "final"), times.Draw(t, "time"), id}
	case 'C':
		return &Commit{lsns.Draw(t, "commit"), lsns.Draw(t, "end"), times.Draw(t, "time")}
	case 'O':
		return &Origin{lsns.Draw(t, "commit"), names.Draw(t, "name")}
	case 'R':
		return &Relation{id, namespace(names.Draw(t, "namespace")), names.Draw(t, "name"),
			rapid.SampledFrom([]byte("dnfi")).Draw(t, "identity"), rapid.SliceOfN(relationColumns, 0, 40).Draw(t, "columns")}
	case 'Y':
		return &Type{id, namespace(names.Draw(t, "namespace")), names.Draw(t, "name")}
	case 'I':
		return &Insert{id, tuples.Draw(t, "new")}
	case 'U':
		m := &Update{RelationID: id, OldKind: rapid.SampledFrom([]byte{0, 'K', 'O'}).Draw(t, "old kind"), New: tuples.Draw(t, "new")}
		if m.OldKind != OldNone {
			m.Old = tuples.Draw(t, "old")
		}
		return m
	case 'D':
		return &Delete{id, rapid.SampledFrom([]byte("KO")).Draw(t, "old kind"), tuples.Draw(t, "old")}
	case 'T':
		return &Truncate{rapid.ByteRange(0, 3).Draw(t, "options"), rapid.SliceOfN(rapid.Uint32(), 0, 40).Draw(t, "ids")}
	default:
		return &Message{rapid.Bool().Draw(t, "tx"), lsns.Draw(t, "lsn"), []byte(names.Draw(t, "prefix")), content.Draw(t, "content")}
	}
}

// Any message is read as it was written, by pglogrepl and by this package, and
// no message before it shows through.
func TestAnyMessage(t *testing.T) {
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		want := drawMessage(t)
		src := want.encode()
		kind, err := d.Decode(src)
		if err != nil {
			t.Fatal(err)
		}
		if diff := sameMessage(want, d.of(kind)); diff != "" {
			t.Fatal(diff)
		}
		if diff := compareReference(src, d.of(kind)); diff != "" {
			t.Fatal(diff)
		}
		cut := rapid.IntRange(0, len(src)-1).Draw(t, "cut")
		if _, err := d.Decode(src[:cut:cut]); !IsDecodeError(err) {
			t.Fatalf("cut to %d bytes: %v", cut, err)
		}
	})
}
