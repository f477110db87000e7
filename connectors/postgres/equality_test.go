package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/schema"
)

var updateGolden = flag.Bool("update", false, "write the golden files anew")

// hostile are settings of a role that change the text of values, and hostileEnv is a process that does.
var (
	hostile = []string{
		"DateStyle = 'German, DMY'", "IntervalStyle = 'iso_8601'", "TimeZone = 'Asia/Tokyo'", "extra_float_digits = -15", "bytea_output = 'escape'",
		"client_encoding = 'LATIN1'", "search_path = 'nowhere'", "lc_monetary = 'C.UTF-8'", "lc_numeric = 'C.UTF-8'", "xmlbinary = 'hex'", "quote_all_identifiers = on",
	}
	hostileEnv = map[string]string{
		"LANG": "ko_KR.UTF-8", "LC_ALL": "ko_KR.UTF-8", "PGTZ": "Asia/Tokyo", "PGDATESTYLE": "German", "PGCLIENTENCODING": "LATIN1",
		"PGOPTIONS": "-c IntervalStyle=iso_8601", "TZ": "Asia/Tokyo",
	}
)

// Cases 36, 37, 39, 46 and 47: what a table read and the stream make of every type is the same, byte for byte,
// whatever role and environment say.
func TestEveryTypeIsTheSameFromTableAndStream(t *testing.T) {
	for k, v := range hostileEnv {
		t.Setenv(k, v)
	}
	onEach(t, func(p *pgtest) {
		cases := prepareTypes(p, slices.Clone(typeCases))
		values := equality(p, t, cases)
		compareGolden(p, "types.golden", values)
	})
}

// The modes' representations are the same from both too.
func TestEveryModeIsTheSameFromTableAndStream(t *testing.T) {
	modes := map[string]map[string]string{
		"string": {propDecimal: "string", propInterval: "string", propBinary: "hex", propArray: "string"},
		"double": {propDecimal: "double", propInterval: "numeric", propBinary: "base64", propHstore: "map"},
		"null":   {propNonFinite: "null", propBinary: "base64-url-safe"},
	}
	for name, raw := range modes {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(p *pgtest) {
				for k, v := range raw {
					p.raw[k] = v
				}
				cases := prepareTypes(p, slices.Concat(modeCases, modeOnly[name]))
				values := equality(p, t, cases)
				compareGolden(p, "types-"+name+".golden", values)
			})
		})
	}
}

// prepareTypes makes what the cases need and their tables; cases that the server does not have are left out.
func prepareTypes(p *pgtest, all []sourcetest.TypeCase) (cases []sourcetest.TypeCase) {
	p.Helper()
	p.asRole(hostile...)
	p.sql(typeSetup...)
	late := func(c sourcetest.TypeCase) int { return strings.Count(c.Name, "postgis") } // only some servers have them
	slices.SortStableFunc(all, func(a, b sourcetest.TypeCase) int { return late(a) - late(b) })
	for _, c := range all {
		if _, err := p.conn.Exec(p.ctx, "SELECT NULL::"+c.Type); err != nil {
			if late(c) > 0 && os.Getenv("TIDEMARK_TEST_POSTGIS") == "" {
				continue
			}
			p.Fatalf("type %s: %v", c.Type, err)
		}
		i := len(cases)
		p.sql(fmt.Sprintf("CREATE TABLE %s(id int PRIMARY KEY, n int, v %s)", c.TableOf(i), c.Type), fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY FULL", c.TableOf(i)))
		if c.Key {
			p.sql(fmt.Sprintf("CREATE TABLE %s(v %s PRIMARY KEY)", c.KeyTableOf(i), c.Type))
		}
		cases = append(cases, c)
	}
	return cases
}

func equality(p *pgtest, t *testing.T, cases []sourcetest.TypeCase) []sourcetest.Value {
	s := p.open(Options{})
	r := newReading(p)
	return equalTo(p, t, s, cases, func(table string, each func(*schema.Table, schema.Row) error) { r.read(p, table, each) })
}

// equalTo compares what a source streams of the cases with what read gives of their tables.
func equalTo(p *pgtest, t *testing.T, s *Source, cases []sourcetest.TypeCase, read func(table string, each func(*schema.Table, schema.Row) error)) []sourcetest.Value {
	return sourcetest.Equal(t, sourcetest.Equality{
		Source: func(*testing.T) connectors.Source { return s },
		Insert: func(_ *testing.T, table string, c sourcetest.TypeCase) {
			for i, v := range c.Values {
				if strings.HasPrefix(table, "eqk_") {
					p.sql(fmt.Sprintf("INSERT INTO %s VALUES (%s)", table, v))
				} else {
					p.sql(fmt.Sprintf("INSERT INTO %s VALUES (%d, 0, %s)", table, i, v))
				}
			}
		},
		Update: func(_ *testing.T, table string) { p.sql("UPDATE " + table + " SET n = 1") },
		Delete: func(_ *testing.T, table string) { p.sql("DELETE FROM " + table) },
		Read:   func(_ *testing.T, table string, each func(*schema.Table, schema.Row) error) { read(table, each) },
	}, cases)
}

// reading is a database planned and connected to as for a snapshot.
type reading struct {
	o     *opening
	plans *planner
}

func newReading(p *pgtest) *reading {
	p.Helper()
	cfg, _ := Spec().Parse(p.raw)
	set, err := newSettings(cfg)
	if err != nil {
		p.Fatal(err)
	}
	r := &reading{o: &opening{set: set}}
	if r.o.sql, err = catalog.Connect(p.ctx, set.conn); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { r.o.abandon(context.Background()) })
	if r.o.pub, err = catalog.EnsurePublication(p.ctx, r.o.sql, set.publication, func(connectors.State) {}); err != nil {
		p.Fatal(err)
	}
	if err := r.o.selectTables(p.ctx); err != nil {
		p.Fatal(err)
	}
	var columns map[uint32][]string
	if r.plans, _, columns, err = r.o.planner(p.ctx); err != nil {
		p.Fatal(err)
	}
	for _, c := range r.o.captured {
		key, err := catalog.KeyFor(c, set.filter.key(c.Schema, c.Name), r.o.operations())
		if err != nil {
			p.Fatal(err)
		}
		if _, err := r.plans.seed(p.ctx, c, key, columns[c.OID]); err != nil {
			p.Fatal(err)
		}
	}
	return r
}

// read reads a table as a snapshot will.
func (r *reading) read(p *pgtest, name string, each func(*schema.Table, schema.Row) error) {
	p.Helper()
	for _, c := range r.o.captured {
		if c.Name != name {
			continue
		}
		order := ""
		if c.Column("id") != nil {
			order = "id"
		}
		k := r.plans.tables[c.OID]
		where := ""
		for _, t := range r.o.pub.Tables {
			if t.OID == c.OID {
				where = t.RowFilter
			}
		}
		err := newTableRead(k, c, where, order).each(p.ctx, r.o.sql, func(row schema.Row) error { return each(k.table, row) })
		if err != nil {
			p.Fatal(err)
		}
		return
	}
	p.Fatalf("table %s is not captured", name)
}

// compareGolden compares what was read with the file. Of what only some servers have, the lines of the others stay.
func compareGolden(p *pgtest, file string, values []sourcetest.Value) {
	p.Helper()
	path := filepath.Join("testdata", file)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.Fatal(err)
	}
	have := map[string]bool{}
	var got strings.Builder
	for _, v := range values {
		have[v.Case] = true
		fmt.Fprintf(&got, "%s\t%s\t%s\t%s\n", v.Case, v.SQL, v.Type, v.JSON)
	}
	var want strings.Builder
	for line := range strings.Lines(string(old)) {
		if name, _, _ := strings.Cut(line, "\t"); have[name] {
			want.WriteString(line)
		} else if *updateGolden && strings.Contains(name, "postgis") {
			got.WriteString(line)
		}
	}
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			p.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want.String(), got.String()); d != "" {
		p.Errorf("%s (write it anew with -update): %s", path, d)
	}
}
