package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/schema"
)

// A value that cannot be published keeps its whole transaction back, and the error names table, column and
// type, never the value. Once its cause is gone the stream goes on at the same place.
func TestBadValueBlocksAndGoesOn(t *testing.T) {
	cases := map[string]struct {
		setup  []string
		typ    string
		raw    map[string]string // of the first start
		bad    string
		words  []string
		secret string
		repair func(p *pgtest)
		want   string // the bad row's value afterwards
	}{
		"timestamp": {typ: "timestamptz", bad: "'294270-05-06 00:00+00'", secret: "294270", words: []string{"beyond what microseconds", "timestamp with time zone"},
			repair: func(p *pgtest) { p.raw[propColumnExclude] = `public\.bad\.v` }, want: "none"},
		"NaN as null": {typ: "numeric(12,2)", bad: "'NaN'", words: []string{"NaN", "numeric(12,2)", "decimal.nonfinite.handling.mode=null"},
			repair: func(p *pgtest) { p.raw[propNonFinite] = "null" }, want: "null"},
		"NaN as text": {typ: "numeric(12,2)", bad: "'NaN'", words: []string{"decimal.handling.mode"},
			repair: func(p *pgtest) { p.raw[propDecimal] = "string" }, want: "NaN"},
		"nested array": {typ: "int[]", bad: "'{{4711},{2}}'", secret: "4711", words: []string{"more than one dimension", "integer[]", "array.handling.mode=string"},
			repair: func(p *pgtest) { p.raw[propArray] = "string" }, want: "{{4711},{2}}"},
		"interval": {typ: "interval", raw: map[string]string{propInterval: "numeric"}, bad: "'177000000 years'", secret: "177000000", words: []string{"out of the range", "interval"},
			repair: func(p *pgtest) { p.raw[propInterval] = "string" }, want: "P177000000Y0M0DT0H0M0S"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(p *pgtest) {
				p.sql(c.setup...)
				p.sql("CREATE TABLE bad(id int PRIMARY KEY, v " + c.typ + ")")
				for k, v := range c.raw {
					p.raw[k] = v
				}
				s := p.open(Options{})
				p.sql("INSERT INTO bad VALUES (1, NULL)", "BEGIN; INSERT INTO bad VALUES (2, NULL); INSERT INTO bad VALUES (3, "+c.bad+"); COMMIT", "INSERT INTO bad VALUES (4, NULL)")
				p.blocksAt(s, 1, append(c.words, "table public.bad", `column "v"`), c.secret)
				boundary := p.boundaryOf()
				s = p.open(Options{}) // in vain
				p.blocksAt(s, 1, c.words, c.secret)
				if p.boundaryOf() != boundary {
					p.Errorf("the boundary moved from %s to %s", boundary, p.boundaryOf())
				}
				c.repair(p)
				s = p.open(Options{})
				got := p.values(s, 3)
				if want := []string{"2:null", "3:" + c.want, "4:null"}; c.want != "none" && !slices.Equal(got, want) {
					p.Errorf("got %v, want %v", got, want)
				}
				if name == "NaN as null" && s.NonFinite() != 1 {
					p.Errorf("counted %d numbers published as null, want 1", s.NonFinite())
				}
			})
		})
	}
}

// blocksAt expects the stream to block after n published changes.
func (p *pgtest) blocksAt(s *Source, n int, words []string, secret string) {
	p.Helper()
	err := p.consume(s, func(connectors.Batch, bool) error { return nil })
	_ = s.Close(p.ctx)
	for _, w := range words {
		p.wantError(err, connectors.ClassBlock, w)
	}
	if secret != "" && strings.Contains(err.Error(), secret) {
		p.Errorf("the error shows the value: %v", err)
	}
	if len(p.lines) != n {
		p.Errorf("published %v", p.lines)
	}
}

// values reads n changes and returns id and the second column of each.
func (p *pgtest) values(s *Source, n int) (out []string) {
	p.Helper()
	err := p.consume(s, func(b connectors.Batch, stored bool) error {
		for i := range b.Changes {
			if stored {
				continue
			}
			row := b.Changes[i].After
			text := "none"
			if len(row) > 1 {
				text = string(row[1].Bytes)
				if row[1].Kind == schema.KindNull {
					text = "null"
				}
			}
			out = append(out, fmt.Sprintf("%d:%s", row[0].Num, text))
		}
		if stored && len(out) >= n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		p.Fatalf("after %v: %v", out, err)
	}
	return out
}

// Case 40: a label that was added keeps its type's OID and leaves no trace in the log.
func TestEnumGrows(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TYPE mood AS ENUM ('a', 'b')", "CREATE SCHEMA other", "CREATE TYPE other.mood AS ENUM ('x')", "CREATE DOMAIN feeling AS mood",
			"CREATE TABLE e(id int PRIMARY KEY, v mood, vs mood[], d feeling, o other.mood)", "CREATE TABLE k(v mood PRIMARY KEY)")
		s := p.open(Options{})
		p.sql("INSERT INTO e VALUES (1, 'a', '{a,b}', 'b', 'x')", "ALTER TYPE mood ADD VALUE 'c' AFTER 'a'",
			"INSERT INTO e VALUES (2, 'c', '{c,NULL}', 'c', 'x')", "ALTER TYPE other.mood ADD VALUE 'y'", "ALTER TYPE mood ADD VALUE 'd'",
			"BEGIN; INSERT INTO e VALUES (3, 'a', '{}', 'a', 'x'); INSERT INTO e VALUES (4, 'd', '{d}', 'd', 'y'); UPDATE e SET v = 'd' WHERE id = 1; COMMIT",
			"INSERT INTO k VALUES ('d')")
		var tables []*schema.Table
		err := p.consume(s, func(b connectors.Batch, stored bool) error {
			for _, c := range b.Changes {
				if !stored {
					tables = append(tables, c.Table)
				}
			}
			if stored && len(p.lines) >= 6 {
				return errEnough
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			p.Fatal(err)
		}
		seqs := strings.Join(p.lines, "\n")
		for _, want := range []string{"0 c public.e v1 after(1,a,", "0 c public.e v2 after(2,c,", "0 c public.e v2 after(3,a,", "1 c public.e v3 after(4,d,", "2 u public.e v3 after(1,d,", "0 c public.k"} {
			if !strings.Contains(seqs, want) {
				p.Errorf("no %s… in\n%s", want, seqs)
			}
		}
		last := tables[len(tables)-2]
		for column, want := range map[string]string{"v": "a,c,b,d", "vs": "a,c,b,d", "d": "a,c,b,d", "o": "x,y"} {
			if got := strings.Join(labels(&columnOf(last, column).Type), ","); got != want {
				p.Errorf("labels of %s: %s, want %s", column, got, want)
			}
		}
	})
}

// Two arrays that differ in their bounds alone are two keys of the database, so they must not become one.
func TestArrayKeysKeepApart(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TABLE bad(v int[] PRIMARY KEY, n int[])")
		s := p.open(Options{})
		p.sql("INSERT INTO bad VALUES ('{4711,2}', '[0:1]={1,2}')", "INSERT INTO bad VALUES ('[0:1]={4711,2}')")
		p.blocksAt(s, 1, []string{"table public.bad", `column "v" of type integer[]`, "array.handling.mode=string"}, "4711")
	})
}

// A table read that meets a label added since the table was planned is planned again.
func TestTableReadMeetsNewLabel(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TYPE mood AS ENUM ('a')", "CREATE TABLE e(id int PRIMARY KEY, v mood)")
		r := newReading(p)
		p.sql("ALTER TYPE mood ADD VALUE 'b'", "INSERT INTO e VALUES (1, 'b')")
		oid := r.o.captured[0].OID
		read := func() (got string, err error) {
			err = newTableRead(r.plans.tables[oid], r.o.captured[0], "", "").each(p.ctx, r.o.sql, func(row schema.Row) error { got = renderRow(row); return nil })
			return got, err
		}
		_, err := read()
		var unknown *values.UnknownLabelError
		if !errors.As(err, &unknown) {
			p.Fatalf("got %v", err)
		}
		if _, err := r.plans.relabel(p.ctx, oid, unknown); err != nil {
			p.Fatal(err)
		}
		if got, err := read(); err != nil || got != "(1,b)" {
			p.Errorf("%s %v", got, err)
		}
	})
}

// A label that was renamed while the connector was stopped is in the log and nowhere else.
func TestRenamedLabel(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TYPE mood AS ENUM ('secret', 'b')", "CREATE TABLE bad(id int PRIMARY KEY, v mood)")
		s := p.open(Options{})
		p.sql("INSERT INTO bad VALUES (1, 'b')")
		p.until(s, 1)
		_ = s.Close(p.ctx)
		p.sql("INSERT INTO bad VALUES (2, 'secret')", "ALTER TYPE mood RENAME VALUE 'secret' TO 'open'", "INSERT INTO bad VALUES (3, 'open')")
		words := []string{"table public.bad", `column "v" of type public.mood`, "renamed after this place of the log", propUnknownLabels}
		p.blocksAt(p.open(Options{}), 1, words, "secret")
		p.raw[propUnknownLabels] = "accept"
		if got, want := p.values(p.open(Options{}), 2), []string{"2:secret", "3:open"}; !slices.Equal(got, want) {
			p.Errorf("accepted %v, want %v", got, want)
		}
	})
}

func TestRenamedLabelBack(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.sql("CREATE TYPE mood AS ENUM ('old', 'b')", "CREATE TABLE bad(id int PRIMARY KEY, v mood)")
		s := p.open(Options{})
		p.sql("INSERT INTO bad VALUES (1, 'b')")
		p.until(s, 1)
		_ = s.Close(p.ctx)
		p.sql("INSERT INTO bad VALUES (2, 'old')", "ALTER TYPE mood RENAME VALUE 'old' TO 'new'")
		p.blocksAt(p.open(Options{}), 1, []string{"rename it back"}, "")
		p.sql("ALTER TYPE mood RENAME VALUE 'new' TO 'old'")
		if got, want := p.values(p.open(Options{}), 1), []string{"2:old"}; !slices.Equal(got, want) {
			p.Errorf("got %v, want %v", got, want)
		}
	})
}
