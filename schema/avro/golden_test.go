package avro

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-cdc/tidemark/schema"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got+"\n" != string(want) {
		t.Errorf("%s differs (go test -update writes it)\ngot  %s\nwant %s", path, got, want)
	}
}

// orders is a small table of a shop with names that need mangling.
func orders() *schema.Table {
	t := tableOf([]schema.Type{intType(64, "bigint"), decimal(12, 2), typ(schema.KindString, "character varying(30)"), mood, arrayOf(mood)}, 1, 0)
	t.Name = "Bestellungen 2"
	for i, n := range []string{"id", "größe", `say "hi"`, "mood", "__moods"} {
		t.Columns[i].Name = n
	}
	return t
}

func TestGolden(t *testing.T) {
	all := tableOf(allTypes(), 0, 1, 8, 14, 18, 24)
	for _, c := range []struct {
		name  string
		table *schema.Table
		o     Options
	}{
		{"types", all, options},
		{"orders", orders(), Options{Namespace: Namespace("shop.prod", "public", "Bestellungen 2")}},
		{"prefix", tableOf([]schema.Type{intType(64, "")}, 0), Options{MetadataPrefix: "_tm_"}},
	} {
		key, value := compile(t, c.table, c.o)
		newJudge(t, key.Schema())
		newJudge(t, value.Schema())
		golden(t, c.name+".key.avsc", key.Schema())
		golden(t, c.name+".value.avsc", value.Schema())
	}
}

// The key's text is fixed for a generation, so nothing about a column but its name and Avro
// type may show in it.
func TestKeySchemaIgnoresTheRest(t *testing.T) {
	a, b := orders(), orders()
	b.Columns[0].Type.Name, b.Columns[0].NotNull, b.Columns[0].Type.OID = "int8", false, 99
	b.Columns[1].Type.Name = "numeric"
	b.Columns[2].Name = "other"
	b.ID, b.Identity, b.Version = 9, "full", 9
	ka, _ := compile(t, a, options)
	kb, _ := compile(t, b, options)
	if ka.Schema() != kb.Schema() {
		t.Errorf("key schemas differ\n%s\n%s", ka.Schema(), kb.Schema())
	}
	b.Columns[1].Type.Scale = 3
	if kb, _ = compile(t, b, options); ka.Schema() == kb.Schema() {
		t.Error("another scale does not show in the key schema")
	}
}
