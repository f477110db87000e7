package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// openReader opens a reader of an open source, closed with the test.
func (p *pgtest) openReader(s *Source) connectors.Reader {
	p.Helper()
	r, err := s.OpenReader(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func (p *pgtest) chunk(r connectors.Reader, q connectors.ChunkQuery) *connectors.Chunk {
	p.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := r.Chunk(p.ctx, q)
		if err != nil {
			p.Fatalf("%s after %q: %v", q.Table, q.After, err)
		}
		ok, waits := c.Visible.Above()
		if ok {
			return c
		}
		if time.Now().After(deadline) { // autovacuum's transactions too are waited for
			p.Fatalf("the chunk does not count: %s", waits)
		}
	}
}

// pages reads a table in chunks and returns the integers of column n.
func (p *pgtest) pages(r connectors.Reader, q connectors.ChunkQuery, each func(*connectors.Chunk)) (out []int64) {
	p.Helper()
	for range 10_000 {
		c := p.chunk(r, q)
		if len(c.Rows) < q.Limit != c.Done {
			p.Fatalf("%s: %d rows of %d, done %t", q.Table, len(c.Rows), q.Limit, c.Done)
		}
		for _, row := range c.Rows {
			out = append(out, row[c.Table.ColumnIndex("n")].Num)
		}
		if each != nil {
			each(c)
		}
		if c.Free(); c.Done {
			return out
		}
		q.After = c.Next
	}
	p.Fatalf("%s: reading does not end", q.Table)
	return nil
}

// numbers are those of column n as the server orders the rows.
func (p *pgtest) numbers(query string) []int64 {
	p.Helper()
	rows, err := p.conn.Query(p.ctx, query)
	if err != nil {
		p.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		p.Fatal(err)
	}
	return out
}

// keyTypes are key columns and their values, from g.
var keyTypes = [][2]string{
	{"smallint", "(g - 30)::smallint"}, {"integer", "(g * 71 % 61) - 30"}, {"bigint", "(g * 71 % 61 - 30) * 1000000000000"},
	{"numeric", "(g - 30) / 7.0"}, {"numeric", "CASE g WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity' ELSE (g || 'e20')::numeric END"}, {"numeric(12,2)", "(g - 30) / 4.0"},
	{"double precision", "CASE g WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' ELSE (g - 30) / 3.0::float8 END"}, {"money", "((g - 30) * 1.01)::numeric::money"},
	{"text", "md5(g::text)"}, {"text", "chr(200 + g * 7) || g"}, {"text", `CASE WHEN g % 2 = 0 THEN upper(md5(g::text)) ELSE md5(g::text) END || E' \\ '' " \t'`},
	{`text COLLATE "C"`, "chr(60 + g) || 'é'"}, {`text COLLATE public.german`, "CASE WHEN g % 2 = 0 THEN 'Ä' ELSE 'az' END || g"}, {`text COLLATE public.nocase`, "CASE WHEN g % 2 = 0 THEN 'AB' ELSE 'ab' END || g"},
	{"public.citext", "CASE WHEN g % 2 = 0 THEN 'AB' ELSE 'ab' END || g"}, {"public.nick", "CASE WHEN g % 2 = 0 THEN 'AB' ELSE 'ab' END || g"}, {"public.german_text", "CASE WHEN g % 2 = 0 THEN 'Ä' ELSE 'az' END || g"},
	{`public.german_text COLLATE "C"`, "CASE WHEN g % 2 = 0 THEN 'Ä' ELSE 'az' END || g"}, {"varchar(40)", "md5((g + 1)::text)"}, {"char(6)", "rpad(md5(g::text), 1 + g % 3) || g"}, {"name", "md5(g::text)::name"}, {`name COLLATE public.german`, "(md5(g::text) || 'Z')::name"},
	{`"char"`, `chr(40 + g)::"char"`}, {"bytea", "decode(md5(g::text), 'hex')"}, {"boolean", "g % 2 = 0"}, {"date", "CASE g WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' WHEN 3 THEN '0044-03-15 BC' ELSE date '2000-01-01' + g * 31 END"},
	{"time", "time '00:00' + g * interval '1234.567891 s'"}, {"timetz", "(time '00:00' + g * interval '1234 s' || '+0' || g % 7)::timetz"}, {"timestamp", "timestamp '1969-12-31' + (g - 30) * interval '12345.678901 s'"},
	{"timestamptz", "CASE g WHEN 1 THEN 'infinity' WHEN 2 THEN '4713-11-24 00:00:00+00 BC' ELSE timestamptz '2024-03-10 00:00+00' + g * interval '12345.678901 s' END"}, {"interval", "g * interval '1 mon -3 days 04:05:06.789'"},
	{"uuid", "md5(g::text)::uuid"}, {"inet", "('10.0.' || g || '.1/2' || g % 8)::inet"}, {"cidr", "('10.' || g || '.0.0/16')::cidr"}, {"macaddr", "('08:00:2b:01:02:' || lpad(to_hex(g), 2, '0'))::macaddr"},
	{"bit(8)", "(g * 3)::bit(8)"}, {"varbit", "substr((g * 3)::bit(8)::text, 1 + g % 4)::varbit || g::bit(8)"}, {"oid", "(g * 71000000::bigint)::oid"}, {"pg_lsn", "(to_hex(g % 3) || '/' || to_hex(g))::pg_lsn"}, {"xid8", "g::text::xid8"},
	{"public.mood", "(enum_range(NULL::public.mood))[1 + g % 3]::text::public.mood"}, {"public.feeling", "(enum_range(NULL::public.mood))[1 + g % 3]::text::public.feeling"}, {"integer[]", "ARRAY[g % 5, NULL, g]"}, {"text[]", `ARRAY['"' || g, '\,' || g % 3, NULL, 'NULL']`}, {"public.mood[]", "ARRAY[(enum_range(NULL::public.mood))[1 + g % 3], (enum_range(NULL::public.mood))[1 + g / 3 % 3]]"},
	{"jsonb", `jsonb_build_object('a', g, 'b', '"')`}, {"int4range", "int4range(g % 7, 10 + g)"}, {"public.hstore", "public.hstore('k' || g, 'v,\"')"}, {"public.ltree", "('a.b' || g)::public.ltree"}, {"public.address", `ROW('st. "' || g, g % 3, '2024-01-01')::public.address`},
	{"tsvector", "to_tsvector('simple', md5(g::text))"},
}

var keySetup = []string{
	"CREATE COLLATION public.german (provider = icu, locale = 'de-DE')", "CREATE COLLATION public.nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
	"CREATE DOMAIN public.nick AS public.citext CHECK (VALUE <> '')", "CREATE DOMAIN public.german_text AS text COLLATE public.german",
}

// Read in chunks of any size a table's rows come each once, in the order of the server, whatever the type of the key and whatever
// the role's settings are; and each row's key, read again, is that row.
func TestChunksPageByEveryTypeOfKey(t *testing.T) {
	onEach(t, func(p *pgtest) {
		seed := rand.Uint64()
		p.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		p.asRole(append(slices.Clone(hostile), "statement_timeout = 1", "default_transaction_isolation = 'serializable'")...)
		p.sql(typeSetup...)
		p.sql(keySetup...)
		orders := map[string]string{}
		add := func(name, columns, key, values string) {
			p.sql(fmt.Sprintf("CREATE TABLE %s(%s, n int, PRIMARY KEY (%s))", name, columns, key),
				fmt.Sprintf("INSERT INTO %s SELECT %s, g FROM generate_series(1, 60) g ON CONFLICT DO NOTHING", name, values))
			orders[strings.ReplaceAll(strings.ReplaceAll(name, `""`, "\x00"), `"`, "")] = fmt.Sprintf("SELECT n::bigint FROM %s ORDER BY %s", name, key)
		}
		for i, k := range keyTypes {
			add(fmt.Sprintf("public.k%d", i), "k "+k[0], "k", k[1])
			j := rnd.IntN(len(keyTypes))
			add(fmt.Sprintf("public.c%d", i), fmt.Sprintf(`a %s, "B ""x""" %s`, k[0], keyTypes[j][0]), `"B ""x""", a`, k[1]+", "+keyTypes[j][1])
		}
		add(`public."Odd, Näme"`, `"K 'ey" text`, `"K 'ey"`, "md5(g::text)")
		s := p.open(Options{})
		r := p.openReader(s)
		for name, query := range orders {
			var keys []string
			var total int
			got := p.pages(r, connectors.ChunkQuery{Table: name, Limit: 1 + rnd.IntN(70)}, func(c *connectors.Chunk) {
				for _, row := range c.Rows {
					keys = append(keys, c.Key(row))
				}
				total += len(c.Rows)
			})
			if want := p.numbers(query); !slices.Equal(got, want) {
				p.Fatalf("%s: got %v, want %v", name, got, want)
			}
			again := p.chunk(r, connectors.ChunkQuery{Table: name, Again: append(keys, keys[0])})
			if len(again.Rows) != total || again.Done && again.Next != "" {
				p.Fatalf("%s: %d rows were read again, %d times their keys", name, len(again.Rows), total)
			}
			half := p.chunk(r, connectors.ChunkQuery{Table: name, Limit: 1 + total/2, Again: keys})
			if len(half.Rows) != total {
				p.Fatalf("%s: a chunk that reads every row again has %d of %d", name, len(half.Rows), total)
			}
		}
	})
}

// chunkRows reads a table in chunks of two rows.
func (p *pgtest) chunkRows(r connectors.Reader, table string, each func(*schema.Table, schema.Row) error) {
	p.Helper()
	q := connectors.ChunkQuery{Table: table, Limit: 2}
	for {
		c := p.chunk(r, q)
		for _, row := range c.Rows {
			if err := each(c.Table, row); err != nil {
				p.Fatal(err)
			}
		}
		if c.Free(); c.Done {
			return
		}
		q.After = c.Next
	}
}
