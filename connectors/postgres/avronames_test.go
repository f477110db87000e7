package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
)

var avroName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Cases 42 and 43: any identifier of the server becomes a legal Avro name that leads back to it, and no two
// become one.
func TestAvroNamesThroughTheStream(t *testing.T) {
	long := strings.Repeat("é", 31) + "x" // 63 bytes, as long as PostgreSQL allows
	columns := []string{
		"id", "Id", "ID", " ", "  ", "_", "__", "1", "2nd", "a.b", `say "hi"`, "it's", "naïve", "таблица", "😀", long, long[:62] + "y", "null", "int", "record", "Key", "Value", "select",
		"_x41_", "_x5f_x41_", "a_x", "op", "__op_", "\u00a0", "\u200b", "e\u0301", "\u00e9", "tab\there", `back\slash`, "-", "{}", "%s",
	}
	tables := [][2]string{{"public", long}, {"Схема", "таблица"}, {"a.b", "c"}, {"_x41_", "null"}, {" ", " "}, {"public", "Key"}, {"public", "key"}}
	onEach(t, func(p *pgtest) {
		for _, name := range tables {
			var decl []string
			for _, c := range columns {
				decl = append(decl, pgx.Identifier{c}.Sanitize()+" text")
			}
			p.sql("CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{name[0]}.Sanitize(), fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s, %s))",
				pgx.Identifier(name[:]).Sanitize(), strings.Join(decl, ", "), pgx.Identifier{" "}.Sanitize(), pgx.Identifier{long}.Sanitize()))
		}
		s := p.open(Options{})
		for _, name := range tables {
			values := make([]string, len(columns))
			for i := range values {
				values[i] = fmt.Sprintf("'v%d'", i)
			}
			p.sql(fmt.Sprintf("INSERT INTO %s VALUES (%s)", pgx.Identifier(name[:]).Sanitize(), strings.Join(values, ",")))
		}
		seen := map[string]string{}
		left := len(tables)
		for left > 0 {
			b, err := s.Next(p.ctx)
			if err != nil {
				p.Fatal(err)
			}
			for _, c := range b.Changes {
				left--
				checkNames(p, &c, columns, seen)
			}
		}
	})
}

func checkNames(p *pgtest, c *connectors.Change, columns []string, seen map[string]string) {
	p.Helper()
	o := avro.Options{Namespace: avro.Namespace("shop", c.Table.Namespace, c.Table.Name)}
	plan, err := avro.CompileValue(c.Table, o)
	if err != nil {
		p.Fatal(err)
	}
	if key, err := avro.CompileKey(c.Table, o); err != nil || !strings.Contains(key.Schema(), avro.Name(c.Table.KeyColumns()[1])) {
		p.Errorf("key of %s: %v", c.Table.QualifiedName(), err)
	}
	body, err := plan.AppendValue(nil, c.After, &avro.Meta{Op: 'c', Pos: "{}"})
	if err != nil {
		p.Fatal(err)
	}
	codec, err := avro.NewCodec(plan.Schema())
	if err != nil {
		p.Fatal(err)
	}
	for i, column := range columns {
		name := avro.Name(column)
		if !avroName.MatchString(name) || avro.Original(name) != column {
			p.Errorf("%q became %q, which leads back to %q", column, name, avro.Original(name))
		}
		if text, ok, err := codec.Text(body, name); err != nil || !ok || string(text) != fmt.Sprintf("v%d", i) {
			p.Errorf("field %s of %s is %q, %v", name, c.Table.QualifiedName(), text, err)
		}
	}
	record := plan.Schema()[:strings.Index(plan.Schema(), `"fields"`)]
	if other, ok := seen[record]; ok {
		p.Errorf("%s and %s share the record %s", other, c.Table.QualifiedName(), record)
	}
	seen[record] = c.Table.QualifiedName()
}

// A column named like a metadata field is found before anything is read, in any table of the database.
func TestMetadataNamesAreFoundAtStart(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql(`CREATE TABLE m(id int PRIMARY KEY, "__unavailable" text)`)
		s := p.newSource(Options{})
		opened, err := s.Open(p.ctx, nil)
		if err != nil {
			p.Fatal(err)
		}
		defer func() { _ = s.Close(p.ctx) }()
		err = errors.Join(ofEach(opened.Tables, func(t *schema.Table) error { return avro.CheckNames(t, avro.Options{}) })...)
		if err == nil || !strings.Contains(err.Error(), "metadata.field.prefix") || !strings.Contains(err.Error(), `"__unavailable"`) {
			p.Errorf("got %v", err)
		}
		err = errors.Join(ofEach(opened.Tables, func(t *schema.Table) error { return avro.CheckNames(t, avro.Options{MetadataPrefix: "cdc_"}) })...)
		if err != nil {
			p.Error(err)
		}
	})
}

func ofEach(tables []*schema.Table, f func(*schema.Table) error) (errs []error) {
	for _, t := range tables {
		errs = append(errs, f(t))
	}
	return errs
}
