package postgres

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPatterns(t *testing.T) {
	for _, tc := range []struct {
		list string
		want []string
	}{
		{"", nil}, {" public.a , public.b,", []string{"public.a", "public.b"}},
		{`public\.t\d{1,3},b`, []string{`public\.t\d{1,3}`, "b"}}, {`a{1\,2},[,b],\\`, []string{"a{1,2}", "[,b]", `\\`}},
	} {
		if diff := cmp.Diff(tc.want, splitPatterns(tc.list)); diff != "" {
			t.Errorf("%q: %s", tc.list, diff)
		}
	}
	if _, err := parsePatterns("public.(a"); err == nil || !strings.Contains(err.Error(), `"public.(a"`) {
		t.Errorf("got %v, want the bad member named", err)
	}
}

func TestFilter(t *testing.T) {
	for _, tc := range []struct {
		raw  map[string]string
		in   []string
		out  []string
		cols map[string]bool
	}{
		{nil, []string{"public.a", "other.b"}, []string{"pg_catalog.pg_class", "information_schema.tables", "pg_toast.x"}, map[string]bool{"public.a.x": true}},
		{map[string]string{propTableInclude: `public\.(a|b)`}, []string{"public.a", "PUBLIC.B"}, []string{"public.ab", "xpublic.a"}, nil},
		{map[string]string{propTableExclude: `public\.a.*`}, []string{"public.b"}, []string{"public.a", "public.ab"}, nil},
		{map[string]string{propSchemaInclude: "s1,s2", propTableExclude: `s2\.x`}, []string{"s1.x", "s2.y"}, []string{"s2.x", "s3.x"}, nil},
		{map[string]string{propColumnExclude: `public\.a\.secret`}, nil, nil, map[string]bool{"public.a.secret": false, "public.a.open": true, "public.b.secret": true}},
		{map[string]string{propColumnInclude: `public\.a\.(id|x)`}, nil, nil, map[string]bool{"public.a.id": true, "public.a.y": false}},
	} {
		cfg, _ := Spec().Parse(tc.raw)
		f, err := newFilter(cfg)
		if err != nil {
			t.Fatal(err)
		}
		table := func(name string) bool {
			schema, table, _ := strings.Cut(name, ".")
			return f.table(schema, table)
		}
		for _, n := range tc.in {
			if !table(n) {
				t.Errorf("%v: %s is not captured", tc.raw, n)
			}
		}
		for _, n := range tc.out {
			if table(n) {
				t.Errorf("%v: %s is captured", tc.raw, n)
			}
		}
		for n, want := range tc.cols {
			p := strings.SplitN(n, ".", 3)
			if got := f.column(p[0], p[1], p[2]); got != want {
				t.Errorf("%v: column %s captured %t, want %t", tc.raw, n, got, want)
			}
		}
	}
}

func TestConfiguration(t *testing.T) {
	good := map[string]string{propHost: "h", propUser: "u", propDatabase: "d", propSnapshotMode: "never"}
	if _, problems := Spec().Parse(good); len(problems) > 0 {
		t.Errorf("got %v, want no problem", problems)
	}
	for name, tc := range map[string]struct{ value, want string }{
		propSnapshotMode:     {"custom", "nearest is initial"},
		propSlot:             {"Bad Name", "is not a slot name"},
		propPlugin:           {"wal2json", "is not one of pgoutput"},
		propHeartbeat:        {"0", "is not between"},
		propTableInclude:     {"(", "is not a regular expression"},
		propKeyColumns:       {"public.a", "is not of the form"},
		propPort:             {"70000", "is not between 1 and 65535"},
		"tabel.include.list": {"a", "did you mean table.include.list?"},
	} {
		raw := map[string]string{name: tc.value}
		for k, v := range good {
			if k != name {
				raw[k] = v
			}
		}
		_, problems := Spec().Parse(raw)
		if len(problems) != 1 || problems[0].Property != name || !strings.Contains(problems[0].Message, tc.want) {
			t.Errorf("%s=%s: got %v, want …%s…", name, tc.value, problems, tc.want)
		}
	}
	delete(good, propSnapshotMode)
	byDefault, problems := Spec().Parse(good)
	if set, err := newSettings(byDefault); len(problems) > 0 || err != nil || set.snapshot.mode != modeInitial || set.snapshot.threads != 2 {
		t.Errorf("without snapshot.mode: %+v, %v, %v", set.snapshot, problems, err)
	}
	cfg, _ := Spec().Parse(map[string]string{propKeyColumns: `public\.(a|b):x, y;public.c:z`})
	f, err := newFilter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"x", "y"}, {"z"}, nil}, [][]string{f.key("public", "b"), f.key("public", "c"), f.key("public", "d")}); diff != "" {
		t.Error(diff)
	}
}
