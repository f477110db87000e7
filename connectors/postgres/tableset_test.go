package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// ours writes a transactional message under our prefix.
func (s *script) ours(content string) {
	b := binary.BigEndian.AppendUint64([]byte{'M', 1}, s.final)
	b = append(b, ourPrefix+"\x00"...)
	s.wal(append(binary.BigEndian.AppendUint32(b, uint32(len(content))), content...))
}

// change writes a change of the set, +name adds and -name removes.
func (s *script) change(server string, version int64, tables ...string) {
	c := &setChange{Version: version}
	for _, name := range tables {
		if name[0] == '-' {
			c.Remove = append(c.Remove, name[1:])
			continue
		}
		for oid, t := range world() {
			if t.QualifiedName() == name[1:] {
				c.Add = append(c.Add, addTable{name[1:], oid})
			}
		}
	}
	s.ours(setMessage{server, c}.content())
}

func TestSetMessageForm(t *testing.T) {
	want := `{"server":"shop","tables":{"version":2,"add":[{"name":"public.a","id":7}],"remove":["public.b"]}}`
	if got := (setMessage{"shop", &setChange{2, []addTable{{"public.a", 7}}, []string{"public.b"}}}).content(); got != want {
		t.Errorf("got %s", got)
	}
	for _, content := range []string{"", "{}", `{"server":"shop"}`, `{"server":"shop","tables":{}}`, `{"server":"shop","tables":{"version":0}}`,
		" " + want, want + " ", strings.Replace(want, `"version":2`, `"version":2,"more":1`, 1), `{"marker":"x"}`, want[:len(want)-1]} {
		if _, ok := parseSetMessage([]byte(ourPrefix), []byte(content)); ok {
			t.Errorf("%s was taken", content)
		}
	}
	if _, ok := parseSetMessage([]byte("other"), []byte(want)); ok {
		t.Error("a message of another prefix was taken")
	}
	rapid.Check(t, func(t *rapid.T) {
		m := setMessage{rapid.String().Draw(t, "server"), &setChange{Version: rapid.Int64Min(1).Draw(t, "version"), Remove: rapid.SliceOf(rapid.String()).Draw(t, "remove")}}
		for i, name := range rapid.SliceOf(rapid.String()).Draw(t, "add") {
			m.Tables.Add = append(m.Tables.Add, addTable{name, uint32(i)})
		}
		back, ok := parseSetMessage([]byte(ourPrefix), []byte(m.content()))
		if !ok || back.content() != m.content() {
			t.Fatalf("%s came back as %s", m.content(), back.content())
		}
	})
}

func TestSetEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := tableSet{version: rapid.Int64Min(1).Draw(t, "version"), place: pgoutput.LSN(rapid.Uint64().Draw(t, "place")),
			added: rapid.SliceOf(rapid.String()).Draw(t, "added"), removed: rapid.SliceOf(rapid.String()).Draw(t, "removed")}
		e := s.entry("shop")
		text := e.Offset.AppendJSON(nil)
		o, err := offsets.ParseObject(text)
		if err != nil {
			t.Fatal(err)
		}
		back, err := readSet("shop", []offsets.Entry{{Partition: e.Partition, Offset: o}})
		if err != nil || back.version != s.version || back.place != s.place || !slices.Equal(back.added, s.added) || !slices.Equal(back.removed, s.removed) {
			t.Fatalf("%+v came back as %+v (%v)", s, back, err)
		}
	})
	if s, err := readSet("shop", []offsets.Entry{{Partition: offsets.SetPartition("other"), Offset: offsets.Object{{Name: "version", Value: int64(4)}}}}); err != nil || s.version != 0 {
		t.Errorf("another stream's set was read: %+v %v", s, err)
	}
	_, err := readSet("shop", []offsets.Entry{{Partition: offsets.SetPartition("shop"), Offset: offsets.Object{{Name: "version", Value: "4"}}}})
	if connectors.ClassOf(err) != connectors.ClassRefused {
		t.Errorf("got %v", err)
	}
}

// setLines tells what a batch says of the set.
func setLines(b connectors.Batch) (lines []string) {
	for _, t := range b.Joined {
		lines = append(lines, "joined "+t.QualifiedName())
	}
	for _, t := range b.Left {
		lines = append(lines, "left "+t.QualifiedName())
	}
	for _, e := range b.Entries {
		v, _ := e.Offset.Int("version")
		added, _ := e.Offset.Text("added")
		removed, _ := e.Offset.Text("removed")
		lines = append(lines, fmt.Sprintf("set %d +%s -%s", v, added, removed))
	}
	return lines
}

// drainSet is drain with what the batches say of the set.
func (r *rig) drainSet() (lines []string, err error) {
	for {
		b, err := r.next(context.Background())
		if err != nil {
			return lines, err
		}
		lines = append(append(lines, render(b)...), setLines(b)...)
		if b.Last {
			r.status.ack(r.position.BoundaryLSN)
			if len(b.Entries) > 0 && b.Lazy {
				lines = append(lines, "lazy although it stores something")
			}
		}
	}
}

// seedAll plans the captured tables as a start does.
func (r *rig) seedAll(t interface{ Fatal(...any) }, set tableSet) {
	r.plans.set = set
	w := world()
	for _, oid := range slices.Sorted(maps.Keys(w)) {
		if table := w[oid]; r.plans.captures(table.Schema, table.Name) {
			key, err := catalog.KeyFor(table, nil, catalog.AllOperations)
			if err == nil {
				_, err = r.plans.seed(context.Background(), table, key, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	r.view.show(r.plans)
}

// hideOnly leaves the tables out that world says are not captured.
var hideOnly = map[string]string{propTableExclude: "public.hidden.*"}

func TestSetChangesInTheLog(t *testing.T) {
	s := &script{}
	s.begin(0x100, 1)
	describeWorld(s) // also of tables that are not captured, as a publication of all tables has it
	s.insert(1, "1", "1", "x")
	s.insert(4, "1", "1")
	s.update(5, 'O', []string{"1", "1"}, "1", "2")
	s.insert(1, "2", "1", "x")
	s.commit()
	s.begin(0x200, 2)
	s.change("shop", 1, "+public.hidden", "+public.hiddenless", "-public.a")
	s.commit()
	s.begin(0x300, 3)
	s.insert(1, "3", "1", "x")
	s.insert(4, "2", "1")
	s.update(5, 'O', []string{"1", "1"}, "1", "2")
	s.insert(1, "4", "1", "x")
	s.insert(4, "3", "1")
	s.commit()
	s.begin(0x400, 4)
	s.change("shop", 2, "-public.hidden", "+public.a")
	s.commit()
	s.begin(0x500, 5)
	s.insert(1, "5", "1", "x")
	s.insert(4, "4", "1")
	s.commit()
	r := newRig(t, &s.buf, 0, world(), hideOnly, Options{})
	r.seedAll(t, tableSet{})
	got, err := r.drainSet()
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	want := []string{
		`{"lsn":"0/100"} 0 c public.a v1 after(1,1,x)`, `{"lsn":"0/100"} 3 c public.a v1 after(2,1,x)`, "boundary 0/130",
		"boundary 0/230", "joined public.hidden", "joined public.hiddenless", "left public.a", `set 1 +["public.hidden","public.hiddenless"] -["public.a"]`,
		`{"lsn":"0/300"} 1 c public.hidden v1 after(2,1)`, `{"lsn":"0/300"} 2 d public.hiddenless v1 before(1,1)`,
		`{"lsn":"0/300"} 3 c public.hiddenless v1 after(1,2) oldkey(1,1)`, `{"lsn":"0/300"} 5 c public.hidden v1 after(3,1)`, "boundary 0/330",
		"boundary 0/430", "joined public.a", "left public.hidden", `set 2 +["public.a","public.hiddenless"] -["public.hidden"]`,
		`{"lsn":"0/500"} 0 c public.a v1 after(5,1,x)`, "boundary 0/530",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if set, tables, _ := r.view.read(); set.version != 2 || tables["public.a"] != 1 || tables["public.hidden"] != 0 || tables["public.hiddenless"] != 5 {
		t.Errorf("shown are version %d and %v", set.version, tables)
	}
}

func TestSetMessagesThatDoNotCount(t *testing.T) {
	stored := tableSet{version: 3, place: 0x150, added: []string{"public.hidden"}}
	s := &script{}
	s.begin(0x100, 1) // the stored set is from later: its offset was set back
	s.change("shop", 2, "-public.hidden")
	s.commit()
	s.begin(0x150, 1)
	s.change("shop", 3, "+public.hidden", "-public.a")
	s.commit()
	s.begin(0x200, 2)
	s.change("other", 9, "+public.hiddenless", "-public.a")
	s.commit()
	s.begin(0x300, 3)
	describeWorld(s)
	s.insert(1, "1", "1", "x")
	s.insert(4, "1", "1")
	s.insert(5, "1", "1")
	s.commit()
	r := newRig(t, &s.buf, 0, world(), hideOnly, Options{})
	r.seedAll(t, stored)
	got, _ := r.drainSet()
	want := []string{`{"lsn":"0/300"} 0 c public.a v1 after(1,1,x)`, `{"lsn":"0/300"} 1 c public.hidden v1 after(1,1)`, "boundary 0/330"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Two changes that were written before either was read carry one version; both count.
func TestSetChangesWrittenTogether(t *testing.T) {
	s := &script{}
	for i, change := range []string{"+public.hidden", "+public.hiddenless", "+public.hidden", "-public.k"} {
		s.begin(uint64(0x100*(i+1)), 1)
		s.change("shop", int64(max(1, i)), change)
		s.commit()
	}
	r := newRig(t, &s.buf, 0, world(), hideOnly, Options{})
	r.seedAll(t, tableSet{})
	got, _ := r.drainSet()
	want := []string{
		"boundary 0/130", "joined public.hidden", `set 1 +["public.hidden"] -[]`,
		"boundary 0/230", "joined public.hiddenless", `set 2 +["public.hidden","public.hiddenless"] -[]`,
		"boundary 0/330", `set 3 +["public.hidden","public.hiddenless"] -[]`,
		"boundary 0/430", "left public.k", `set 4 +["public.hidden","public.hiddenless"] -["public.k"]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSetBlocks(t *testing.T) {
	renamed := world()
	renamed[4] = catTable(4, "public.elsewhere", 'd', []string{"id"}, colID, colN)
	rekeyed := world()
	rekeyed[4] = catTable(4, "public.hidden", 'd', []string{"n"}, plainID, col{"n", oidInt4, true})
	for _, tc := range []struct {
		name, want string
		version    int64
		look       fakeLookup
	}{
		{"gap", "version 2 here, and the stored offsets know version 0", 2, world()},
		{"renamed", "is now called public.elsewhere", 1, renamed},
		{"another key than before", "table public.hidden has another key", 1, rekeyed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &script{}
			s.begin(0x100, 1)
			s.change("shop", tc.version, "+public.hidden")
			s.commit()
			r := newRig(t, &s.buf, 0, tc.look, hideOnly, Options{})
			r.plans.stored["public.hidden"] = world()[4].State([]string{"id"})
			got, err := r.drainSet()
			if err == nil || !strings.Contains(err.Error(), tc.want) || connectors.ClassOf(err) != connectors.ClassBlock || !strings.Contains(err.Error(), "0/100") {
				t.Errorf("got %v (%s) after %q, want …%s…", err, connectors.ClassOf(err), got, tc.want)
			}
		})
	}
}

// A table that is gone from the catalogue joins when the log describes it.
func TestSetOfATableThatIsGone(t *testing.T) {
	look := world()
	delete(look, 4)
	s := &script{}
	s.begin(0x100, 1)
	s.change("shop", 1, "+public.hidden")
	s.commit()
	s.begin(0x200, 2)
	describeWorld(s)
	s.insert(4, "1", "1")
	s.commit()
	got, _ := newRig(t, &s.buf, 0, look, hideOnly, Options{}).drainSet()
	want := []string{"boundary 0/130", `set 1 +["public.hidden"] -[]`, `{"lsn":"0/200"} 0 c public.hidden v1 after(1,1)`, "boundary 0/230"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// writeTransactions writes random transactions and changes of the set; a published log has each message in a transaction of its own,
// but one with changes around it counts as well.
func writeTransactions(t *rapid.T, s *script) {
	s.begin(0x100, 1)
	describeWorld(s)
	s.commit()
	names := []string{"public.a", "public.f", "public.k", "public.hidden", "public.hiddenless"}
	version := int64(0)
	for i := range rapid.IntRange(2, 25).Draw(t, "transactions") {
		s.begin(uint64(0x200+0x100*i), uint32(i+2))
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			switch oid := uint32(rapid.IntRange(1, 7).Draw(t, "table")); oid {
			case 1, 2:
				s.insert(oid, "1", "2", "x")
				s.update(oid, 'O', []string{"1", "2", "x"}, "1", "3", "y")
			case 3, 4, 5:
				s.update(oid, 'O', []string{"1", "2"}, "1", "3")
				s.delete(oid, 'O', "1", "3")
			default:
				var change []string
				for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID[string]).Draw(t, "names") {
					change = append(change, rapid.SampledFrom([]string{"+", "-"}).Draw(t, "sign")+name)
				}
				server := rapid.SampledFrom([]string{"shop", "shop", "shop", "other"}).Draw(t, "server")
				if server == "shop" {
					version++
				}
				s.change(server, max(1, version-int64(rapid.IntRange(0, 1).Draw(t, "behind"))), change...)
			}
		}
		s.commit()
	}
}

// Wherever a stream is cut and begun again with what was stored, it captures the same changes.
func TestSetIsTheSameOnEveryReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &script{}
		writeTransactions(t, s)
		run := func(after uint64, set tableSet, batches int) (lines []string, _ uint64, _ tableSet, ended bool) {
			r := newRig(t, bytes.NewReader(s.buf.Bytes()), after, world(), hideOnly, Options{MaxBatchChanges: 3})
			r.seedAll(t, set)
			var open []string
			for n := 0; n != batches; n++ {
				b, err := r.next(context.Background())
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Fatal(err)
					}
					return lines, after, set, true
				}
				c := b
				c.Last = false
				open = append(open, render(c)...)
				if !b.Last {
					continue
				}
				lines, open = append(append(lines, open...), setLines(b)...), nil
				after = uint64(r.position.BoundaryLSN)
				if set, err = readSet("shop", append([]offsets.Entry{set.entry("shop")}, b.Entries...)[len(b.Entries):]); set.version == 0 && err != nil {
					set, err = tableSet{}, nil
				}
				if err != nil {
					t.Fatal(err)
				}
				r.status.ack(r.position.BoundaryLSN)
			}
			return lines, after, set, false
		}
		want, _, _, _ := run(0, tableSet{}, -1)
		var got []string
		var after uint64
		var set tableSet
		for ended := false; !ended; {
			var lines []string
			lines, after, set, ended = run(after, set, rapid.IntRange(1, 6).Draw(t, "batches"))
			got = append(got, lines...)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in one run, in parts:\n%s", diff)
		}
	})
}
