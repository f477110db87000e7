package postgres

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
)

func drained(t *testing.T, s *script, raw map[string]string, after uint64, look fakeLookup) []string {
	t.Helper()
	got, err := newRig(t, &s.buf, after, look, raw, Options{}).drain(true)
	if !errors.Is(err, io.EOF) {
		t.Fatalf("ended with %v", err)
	}
	return got
}

// What is published of a TRUNCATE is the operator's choice; the ordinals are the same with any. Case 53.
func TestTruncates(t *testing.T) {
	write := func() *script {
		s := &script{}
		s.begin(0x100, 7)
		describeWorld(s)
		s.insert(1, "1", "1", "x")
		s.truncate(2, 4, 1) // CASCADE over a table that is not captured
		s.insert(1, "2", "1", "x")
		s.commit()
		return s
	}
	row := []string{`{"lsn":"0/100"} 0 c public.a v1 after(1,1,x)`, `{"lsn":"0/100"} 4 c public.a v1 after(2,1,x)`, "boundary 0/130"}
	published := []string{row[0], `{"lsn":"0/100"} 1 t public.f v1`, `{"lsn":"0/100"} 3 t public.a v1`, row[1], row[2]}
	for operations, want := range map[string][]string{
		"t": row, "none": published, "u": published, "c, T": row[2:], "c": {published[1], published[2], row[2]},
	} {
		raw := map[string]string{propTableExclude: "public.hidden.*", propSkipped: operations}
		got := drained(t, write(), raw, 0, world())
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], " lazy")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", operations, diff)
		}
	}
	if _, problems := Spec().Parse(map[string]string{propSkipped: "t,x"}); !strings.Contains(problemsText(problems), `"x" is not one of c`) {
		t.Errorf("problems %v", problems)
	}
}

func problemsText(problems []connectors.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

func TestSkippedOperations(t *testing.T) {
	for operations, want := range map[string]string{
		"c": "1u 2d 3d 5d", "u": "0c 2d 3d 4c 5d", "d": "0c 1u 4c", "none": "0c 1u 2d 3d 4c 5d", "d,c,u": "",
	} {
		s := &script{}
		s.begin(0x100, 7)
		describeWorld(s)
		s.insert(1, "1", "1", "x")
		s.update(1, 0, nil, "1", "2", "x")
		s.delete(1, 'K', "1", null, null)
		s.update(1, 'K', []string{"3", null, null}, "4", "1", "x") // delete and create
		s.delete(1, 'K', "4", null, null)
		s.commit()
		var got []string
		for _, l := range drained(t, s, map[string]string{propSkipped: operations}, 0, world()) {
			if f := strings.Fields(l); len(f) > 3 {
				got = append(got, f[1]+f[2])
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("without %s: got %v, want %s", operations, got, want)
		}
	}
}

// Messages stand in order with the rows; one outside of a transaction has a position of its own, before the
// commit that follows it and after the one before. Cases 5 and 6.
func TestLogicalMessages(t *testing.T) {
	write := func() *script {
		s := &script{}
		s.begin(0x100, 7)
		describeWorld(s)
		s.insert(1, "1", "1", "x")
		s.logical(true, 0x90)
		s.insert(1, "2", "1", "x")
		s.commit()
		s.logical(false, 0x180)
		s.begin(0x180, 8)
		s.logical(true, 0x170)
		s.commit()
		return s
	}
	rows := []string{`{"lsn":"0/100"} 0 c public.a v1 after(1,1,x)`, `{"lsn":"0/100"} 2 c public.a v1 after(2,1,x)`, "boundary 0/130"}
	all := []string{
		rows[0], `{"lsn":"0/100"} 1 m app hi true`, rows[1], rows[2],
		`{"lsn":"0/17F"} 0 m app hi false`, "boundary 0/180", `{"lsn":"0/180"} 0 m app hi true`, "boundary 0/1B0",
	}
	for name, tc := range map[string]struct {
		raw  map[string]string
		want []string
	}{
		"all":          {nil, all},
		"included":     {map[string]string{propMessageInclude: "other,A.*"}, all},
		"not included": {map[string]string{propMessageInclude: "other"}, append(rows[:3:3], "boundary 0/1B0 lazy")},
		"excluded":     {map[string]string{propMessageExclude: "app"}, append(rows[:3:3], "boundary 0/1B0 lazy")},
	} {
		if diff := cmp.Diff(tc.want, drained(t, write(), tc.raw, 0, world())); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if diff := cmp.Diff(all[6:], drained(t, write(), nil, 0x180, world())); diff != "" {
		t.Errorf("read again after the message's boundary: %s", diff)
	}
}

// The ordinals of a table that is not captured come from the log alone: what the catalogue has made of the
// table meanwhile, or that it is gone, changes none.
func TestOrdinalsComeFromTheLog(t *testing.T) {
	full := []col{{"id", oidInt4, true}, {"n", oidInt4, true}}
	write := func() *script {
		s := &script{}
		s.begin(0x100, 7)
		describeWorld(s)
		s.update(4, 'K', []string{"1", null}, "2", "1") // key changed: two
		s.update(4, 'K', []string{"2", null}, "2", "5") // not changed: one
		s.relation(4, "public.hidden", 'f', full...)    // identity FULL from here on
		s.update(4, 'O', []string{"2", "5"}, "3", "5")  // no key known: one
		s.relation(4, "public.hidden", 'i', plainID, col{"n", oidInt4, true})
		s.update(4, 'K', []string{null, "5"}, "3", "6")    // the index's column changed: two
		s.relation(4, "public.hidden", 'd', plainID, colN) // a vendor without flags: one
		s.update(4, 'K', []string{"3", null}, "4", "6")
		s.insert(1, "1", "1", "x")
		s.commit()
		return s
	}
	gone, rekeyed, full2 := world(), world(), world()
	delete(gone, 4)
	rekeyed[4] = catTable(4, "public.hidden", 'd', []string{"n"}, plainID, col{"n", oidInt4, true})
	full2[4] = catTable(4, "public.hidden", 'f', nil, plainID, colN)
	for name, look := range map[string]fakeLookup{"as it was": world(), "gone": gone, "another key": rekeyed, "full, no key": full2} {
		for _, raw := range []map[string]string{hide, {propTableExclude: "public.hidden.*", propKeyColumns: `public\.hidden:n`}} {
			got := drained(t, write(), raw, 0, look)
			if want := `{"lsn":"0/100"} 7 c public.a v1 after(1,1,x)`; got[0] != want {
				t.Errorf("%s: got %s, want %s", name, got[0], want)
			}
		}
	}
}

func TestTruncateAndMessagesOnServers(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propSkipped] = "none"
		p.sql("CREATE TABLE a(id int PRIMARY KEY)", "CREATE TABLE b(id int PRIMARY KEY REFERENCES a)", "CREATE TABLE c(id int PRIMARY KEY REFERENCES b)")
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1)",
			"BEGIN; INSERT INTO a VALUES (2); SELECT pg_logical_emit_message(true, 'app', 'one'); TRUNCATE a RESTART IDENTITY CASCADE; INSERT INTO a VALUES (3); SELECT pg_logical_emit_message(false, 'now', 'two'); COMMIT",
			"SELECT pg_logical_emit_message(false, 'app', ''::text), pg_logical_emit_message(true, 'app', '\\x00ff'::bytea)")
		p.until(s, 10)
		_ = s.Close(p.ctx)
		want := []string{
			"0 c public.a v1 after(1)", "0 m now two false", "0 c public.a v1 after(2)", "1 m app one true",
			"2 t public.a v1", "3 t public.b v1", "4 t public.c v1", "5 c public.a v1 after(3)", "0 m app  false", "0 m app \x00\xff true",
		}
		if diff := cmp.Diff(want, p.lines); diff != "" {
			p.Error(diff)
		}
		// Nothing of it comes again.
		s = p.open(Options{})
		p.sql("INSERT INTO a VALUES (4)")
		p.until(s, 11)
		if want := "0 c public.a v1 after(4)"; p.lines[10] != want {
			p.Errorf("got %s, want %s", p.lines[10], want)
		}
		_ = s.Close(context.Background())
	})
}
