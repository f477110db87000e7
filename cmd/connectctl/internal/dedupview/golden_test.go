package dedupview

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldens are the views of the golden files: every dialect over every engine.
func goldens() map[string]*Spec {
	out := map[string]*Spec{}
	for _, dialect := range Dialects() {
		for _, engine := range Engines() {
			s := &Spec{Topic: "shop.public.orders", Dialect: dialect, Engine: engine, Table: []string{"cdc", "shop_public_orders"}, View: []string{"cdc", "orders"},
				Key: []string{"region", "id"}, Columns: []Column{ColumnOf("id"), ColumnOf("region"), ColumnOf("Order"), ColumnOf("gr_xf6__xdf_e")}}
			if engine != SQLServer {
				s.Generations = []string{"cdc", "shop___generations"}
			}
			out[dialect+"-"+engine] = s
		}
	}
	return out
}

func TestGoldens(t *testing.T) {
	for name, s := range goldens() {
		got, err := s.SQL()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		file := filepath.Join("testdata", name+".sql")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is not what SQL writes; compare and write it anew with -update:\n%s", file, got)
		}
	}
}

// TestGoldensParse has every golden read by a parser of its dialect: here for the databases the tests do not run, too.
func TestGoldensParse(t *testing.T) {
	p := python(t, "grammar")
	for name, s := range goldens() {
		if s.Dialect == "clickhouse" {
			continue // the parser does not know a view's comment there; the tests run it
		}
		sql, err := s.SQL()
		if err != nil {
			t.Fatal(err)
		}
		trees, err := p.ask("grammar", []string{s.Dialect}, sql)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var kinds []string
		for _, tree := range trees {
			kinds = append(kinds, fmt.Sprint(tree["kind"]))
		}
		want := []string{"Create"}
		if s.Dialect == "postgres" || s.Dialect == "duckdb" {
			want = append(want, "Comment")
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("%s is read as %v, want %v", name, kinds, want)
		} else if n := whole(trees[0]["selects"]); n < 5 {
			t.Errorf("%s is read as %d queries", name, n)
		}
	}
	bad, err := p.ask("grammar", []string{"snowflake"}, "CREATE VIEW v AS SELECT a FROM b WHERE (a")
	if err == nil && bad[0]["kind"] == "Create" {
		t.Error("the parser takes anything")
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Spec)
		says string
	}{
		{"dialect", func(s *Spec) { s.Dialect = "oracle" }, `dialect "oracle" is not one of bigquery, clickhouse,`},
		{"engine", func(s *Spec) { s.Engine = "postgres" }, `engine "postgres" is not one of postgresql, mysql, sqlserver`},
		{"topic", func(s *Spec) { s.Topic = "a\nDROP TABLE b" }, "is not a topic's name"},
		{"no key", func(s *Spec) { s.Key = nil }, "has no key"},
		{"unknown key", func(s *Spec) { s.Key = []string{"Id"} }, "key column Id is not among the columns id, Part No"},
		{"key twice", func(s *Spec) { s.Key = []string{"id", "id"} }, "key column id is named twice"},
		{"column twice", func(s *Spec) { s.Columns = append(s.Columns, ColumnOf("id")) }, "column id is named twice"},
		{"case", func(s *Spec) { s.Dialect = "duckdb"; s.Columns = append(s.Columns, ColumnOf("ID")) }, "columns id and ID are one column"},
		{"folded", func(s *Spec) { s.Fold = "upper"; s.Columns = append(s.Columns, ColumnOf("ID")) }, "columns id and ID are one column"},
		{"fold", func(s *Spec) { s.Fold = "title" }, "is not upper or lower"},
		{"metadata", func(s *Spec) { s.Columns = append(s.Columns, ColumnOf("__op")) }, "column __op is named twice"},
		{"control", func(s *Spec) { s.Columns = append(s.Columns, Column{"a\nb", "a"}) }, "control character"},
		{"view", func(s *Spec) { s.View = s.Table }, "the view cannot have the table's name"},
		{"table", func(s *Spec) { s.Table = nil }, "the table has no name"},
	} {
		s := &Spec{Topic: "t", Dialect: "postgres", Engine: MySQL, Table: []string{"t"}, View: []string{"v"}, Key: []string{"id"}, Columns: []Column{ColumnOf("id"), ColumnOf("Part No")}}
		if _, err := s.SQL(); err != nil {
			t.Fatal(err)
		}
		c.edit(s)
		if _, err := s.SQL(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

func TestOwnNamesAreFree(t *testing.T) {
	s := &Spec{Topic: "t", Dialect: "postgres", Engine: MySQL, Table: []string{"t"}, View: []string{"v"}, Key: []string{"TM_n"}, Columns: []Column{ColumnOf("TM_n"), ColumnOf("tm__at")}}
	sql, err := s.SQL()
	if err != nil || !strings.Contains(sql, "AS tm___at") || strings.Contains(sql, " tm_n") {
		t.Error(err, sql)
	}
}

func TestParseName(t *testing.T) {
	for in, want := range map[string]string{
		"t": "t", "s.t": "s|t", "my-project.s.t": "my-project|s|t", `"a.b".c`: "a.b|c", `"a""b"`: `a"b`, "`x.y`.z": "x.y|z",
		"": "!", ".": "!", "a.": "!", ".a": "!", `"a`: "!", `a"b`: "!", `"a"b`: "!", `""`: "!", "a\nb": "!",
	} {
		parts, err := ParseName(in)
		if got := strings.Join(parts, "|"); (err != nil) != (want == "!") || err == nil && got != want {
			t.Errorf("%q: %q %v, want %q", in, parts, err, want)
		}
	}
}

func TestEngineOf(t *testing.T) {
	for _, e := range Engines() {
		for _, p := range places(e) {
			if got, err := EngineOf(p); got != e || err != nil {
				t.Errorf("%s: %s %v, want %s", p, got, err, e)
			}
		}
	}
	if _, err := EngineOf("{}"); err == nil {
		t.Error("{} has an engine")
	}
}

func TestFromSchemas(t *testing.T) {
	field := func(name string) string { return `{"name":"` + name + `","type":["null","string"]}` }
	schema := func(names ...string) string {
		var fields []string
		for _, n := range names {
			fields = append(fields, field(n))
		}
		return `{"type":"record","name":"R","fields":[` + strings.Join(fields, ",") + `]}`
	}
	s := Spec{Topic: "t"}
	if err := s.FromSchemas(schema("id", "gr_xf6__xdf_e"), schema("a", "gr_xf6__xdf_e", "id", "m_op", "m_pos", "m_seq", "m_gen", "m_ts_us", "m_unavailable")); err != nil {
		t.Fatal(err)
	}
	if s.Prefix != "m_" || strings.Join(s.Key, " ") != "id gr_xf6__xdf_e" || len(s.Columns) != 3 || s.Columns[1].Source != "größe" {
		t.Errorf("%+v", s)
	}
	for _, value := range []string{schema("before", "after", "source", "op", "ts_ms", "transaction"), schema("id"), schema("a", "__op", "__pos", "__seq", "__gen", "ts", "__unavailable")} {
		if err := s.FromSchemas("", value); err == nil || !strings.Contains(err.Error(), "not in the flat format") {
			t.Error(err)
		}
	}
}
