package postgres

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// BenchmarkChunk reads chunks of 20,000 rows, over and over; an operation is a row.
func BenchmarkChunk(b *testing.B) {
	list := os.Getenv(envURLs)
	if list == "" {
		b.Skip("set " + envURLs)
	}
	u, err := url.Parse(strings.Split(list, ",")[0])
	if err != nil {
		b.Fatal(err)
	}
	p := newPgtest(b, u)
	p.sql("CREATE TABLE t(id bigint PRIMARY KEY, v text, n int, at timestamptz, price numeric(12,2))",
		"INSERT INTO t SELECT g, 'some text of thirty characters', g % 1000, now(), g / 7.0 FROM generate_series(1, 200000) g", "VACUUM ANALYZE t")
	r := p.openReader(p.open(Options{}))
	q := connectors.ChunkQuery{Table: "public.t", Limit: 20_000}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n > 0 && n%q.Limit != 0 {
			continue
		}
		c := p.chunk(r, q)
		if q.After = c.Next; c.Done {
			q.After = ""
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
