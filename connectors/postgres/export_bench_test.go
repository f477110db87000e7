package postgres

import (
	"errors"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// BenchmarkExport reads a table of (bigint, text, int, timestamptz, numeric) in an exported snapshot; an op is a row.
func BenchmarkExport(b *testing.B) {
	list := os.Getenv(envURLs)
	if list == "" {
		b.Skip("set " + envURLs)
	}
	urls := strings.Split(list, ",")
	u, err := url.Parse(strings.TrimSpace(urls[len(urls)-1]))
	if err != nil {
		b.Fatal(err)
	}
	p := newPgtest(b, u)
	p.sql("CREATE TABLE a(id bigint PRIMARY KEY, t text, n int, at timestamptz, price numeric(12,2))",
		"INSERT INTO a SELECT g, 'some text of thirty characters', g % 1000, timestamptz '2026-11-30 10:00:00.123456+00' + g * interval '1 s', g % 100000 / 100.0 FROM generate_series(1, 1000000) g", "VACUUM ANALYZE a")
	p.raw[propSnapshotMode] = "initial"
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		b.StopTimer()
		s := p.newSource(Options{})
		opened, err := s.Open(p.ctx, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for n < b.N {
			var x connectors.ExportedRows
			if x, err = opened.Exported.Next(p.ctx); errors.Is(err, io.EOF) {
				break
			}
			if err != nil || x.Err != nil {
				b.Fatal(err, x.Err)
			}
			n += len(x.Rows)
		}
		b.StopTimer()
		_ = opened.Exported.Close(p.ctx)
		_ = s.Close(p.ctx)
		p.eventually("slot dropped", func() bool {
			_, err := p.admin.Exec(p.ctx, "SELECT pg_drop_replication_slot($1)", p.slot)
			return err == nil
		})
		b.StartTimer()
	}
}
