package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// large are values of every kind that is stored apart, none of which compresses.
var large = map[string]string{
	"ints": "int[]", "longs": "bigint[]", "uuids": "uuid[]", "dates": "date[]", "texts": "varchar[]", "jsons": "json[]",
	"doc": "jsonb", "bin": "bytea", "txt": "text", "num": "numeric",
}

func largeExpression(typ string) string {
	const from = " FROM generate_series(1, 6000) g)"
	switch typ {
	case "int[]", "bigint[]":
		return "(SELECT array_agg((random() * 2000000000)::" + strings.TrimSuffix(typ, "[]") + ")" + from
	case "uuid[]":
		return "(SELECT array_agg(md5(random()::text || g)::uuid)" + from
	case "date[]":
		return "(SELECT array_agg(date '2000-01-01' + (random() * 100000)::int)" + from
	case "varchar[]":
		return "(SELECT array_agg(md5(random()::text || g)::varchar)" + from
	case "json[]":
		return "(SELECT array_agg(to_json(md5(random()::text || g)))" + from
	case "jsonb":
		return "(SELECT jsonb_agg(md5(random()::text || g))" + from
	case "bytea":
		return "(SELECT decode(string_agg(md5(random()::text || g), ''), 'hex')" + from
	case "numeric":
		return "(SELECT ('9' || string_agg(((random() * 899999999 + 100000000)::bigint)::text, ''))::numeric" + from
	}
	return "(SELECT string_agg(md5(random()::text || g), '')" + from
}

// TestUnchangedLargeValues: what an update left alone is unavailable for every type without FULL, the value with it, and never
// NULL; the create half of a key change likewise. Cases 28, 30 and 31.
func TestUnchangedLargeValues(t *testing.T) {
	onEach(t, func(p *pgtest) {
		names, exprs := []string{}, []string{}
		columns := "id int PRIMARY KEY, n int"
		types := map[string]string{}
		for name, typ := range large {
			types[name] = typ
		}
		if _, err := p.conn.Exec(p.ctx, "CREATE EXTENSION hstore"); err == nil {
			types["pairs"] = "hstore"
		}
		for name := range types {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			columns += ", " + name + " " + types[name]
			expr := largeExpression(types[name])
			if types[name] == "hstore" {
				expr = "(SELECT hstore(array_agg(md5(random()::text || g)), array_agg(g::text)) FROM generate_series(1, 6000) g)"
			}
			exprs = append(exprs, expr)
		}
		for _, table := range []string{"a", "f"} {
			p.sql("CREATE TABLE " + table + "(" + columns + ")")
		}
		p.sql("ALTER TABLE f REPLICA IDENTITY FULL")
		s := p.open(Options{})
		for _, table := range []string{"a", "f"} {
			p.sql("INSERT INTO "+table+" SELECT 1, 0, "+strings.Join(exprs, ", "), "UPDATE "+table+" SET n = 1", "UPDATE "+table+" SET id = 2", "DELETE FROM "+table)
		}
		var got []string
		err := p.consume(s, func(b connectors.Batch, stored bool) error {
			if stored {
				return nil
			}
			for _, c := range b.Changes {
				got = append(got, c.Table.Name+string(c.Op)+" "+kinds(c.Before)+" "+kinds(c.After)+" "+kinds(c.OldKey))
			}
			if len(got) >= 10 {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			p.Fatal(err)
		}
		_ = s.Close(p.ctx)
		n := len(names)
		all, none, key := strings.Repeat("v", n+2), "", "v"+strings.Repeat("?", n+1)
		apart := "vv" + strings.Repeat("?", n)
		want := []string{
			"ac " + none + " " + all + " ", "au  " + apart + " ", "ad " + key + "  ", "ac  " + apart + " " + key, "ad " + key + "  ",
			"fc  " + all + " ", "fu " + all + " " + all + " ", "fd " + all + "  ", "fc  " + all + " " + all, "fd " + all + "  ",
		}
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				p.Errorf("change %d of columns %v: got %q, want %q", i, names, got[min(i, len(got)-1)], want[i])
			}
		}
	})
}

// kinds shows a row: v a value, ? unavailable, - NULL.
func kinds(row schema.Row) string {
	var b strings.Builder
	for _, v := range row {
		switch {
		case v.Kind == schema.KindUnavailable:
			b.WriteByte('?')
		case v.Kind == schema.KindNull:
			b.WriteByte('-')
		default:
			b.WriteByte('v')
		}
	}
	return b.String()
}

func TestReselect(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propUnavailable] = "reselect"
		p.sql(`CREATE TABLE a(id int, "Key" varchar(10), n int, big text, ints int[], PRIMARY KEY (id, "Key"))`, "ALTER TABLE a ALTER big SET STORAGE EXTERNAL, ALTER ints SET STORAGE EXTERNAL")
		insert := func(id int, fill string) string {
			return fmt.Sprintf("INSERT INTO a VALUES (%d, 'k', 0, repeat('%s', 5000), (SELECT array_agg(g) FROM generate_series(1, 2000) g))", id, fill)
		}
		s := p.open(Options{})
		p.sql(insert(1, "x"), insert(2, "y"), insert(3, "z"), "UPDATE a SET n = 1", "UPDATE a SET id = 9 WHERE id = 1",
			"UPDATE a SET n = 2 WHERE id = 2", "DELETE FROM a WHERE id = 3", "UPDATE a SET big = 'new' WHERE id = 2")
		var got []string
		err := p.consume(s, func(b connectors.Batch, stored bool) error {
			for _, c := range b.Changes {
				if !stored && c.After != nil {
					got = append(got, fmt.Sprintf("%c %d %s %.3s %d", c.Op, c.After[0].Num, kinds(c.After), c.After[3].Bytes, len(c.After[4].Elems)))
				}
			}
			if len(got) >= 9 {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			p.Fatal(err)
		}
		want := []string{
			"c 1 vvvvv xxx 2000", "c 2 vvvvv yyy 2000", "c 3 vvvvv zzz 2000",
			"u 1 vvv??  0", // its key has changed since: nothing is there under the old one
			"u 2 vvvvv new 2000", "u 3 vvv??  0", "c 9 vvvvv xxx 2000", "u 2 vvvvv new 2000", "u 2 vvvvv new 2000",
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			p.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		_ = s.Close(p.ctx)

		s = p.open(Options{})
		p.sql("UPDATE a SET n = 5 WHERE id = 9", "ALTER TABLE a RENAME ints TO others", "UPDATE a SET n = 6 WHERE id = 9", "DROP TABLE a")
		p.lines = nil
		p.until(s, 3) // the first comes again; the table is gone: marked, as without the option
		for i, n := range []string{"5", "6"} {
			if want := "after(9,k," + n + ",?,?)"; !strings.Contains(p.lines[i+1], want) {
				p.Errorf("got %q, want %s", p.lines[i+1], want)
			}
		}
		_ = s.Close(context.Background())
	})
}

// A role that may not read a table is told by the check, and waited for in the stream.
func TestReselectNeedsSelect(t *testing.T) {
	onEach(t, func(p *pgtest) {
		role := p.slot + "_role"
		p.raw[propUnavailable], p.raw[propAutocreate] = "reselect", "disabled"
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int, big text)", "ALTER TABLE a ALTER big SET STORAGE EXTERNAL", "CREATE PUBLICATION tidemark FOR TABLE a")
		p.exec(p.admin, "CREATE ROLE "+role+" LOGIN REPLICATION PASSWORD 'x'")
		p.raw[propUser], p.raw[propPassword] = role, "x"
		cfg, problems := Spec().Parse(p.raw)
		if len(problems) > 0 {
			p.Fatal(problems)
		}
		_, problems, err := Tables(p.ctx, cfg)
		if err != nil || len(problems) != 1 || !strings.Contains(problems[0].String(), "GRANT SELECT ON") {
			p.Errorf("the check says %v, %v", problems, err)
		}
		s := p.open(Options{})
		p.sql("INSERT INTO a VALUES (1, 0, repeat('x', 5000))", "UPDATE a SET n = 1")
		err = p.consume(s, func(connectors.Batch, bool) error { return nil })
		p.wantError(err, connectors.ClassWait, "may not read table public.a")
		_ = s.Close(p.ctx)
		p.sql("GRANT SELECT ON a TO " + role)
		p.until(p.open(Options{}), 2)
		if !strings.Contains(p.lines[1], "after(1,1,xxx") {
			p.Errorf("got %.60q", p.lines)
		}
	})
}
