package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Case 50: generated columns are in both a table read and the stream, or in neither; identity columns, partitions
// with columns in another order, and column lists likewise.
func TestColumnsAreTheSameFromTableAndStream(t *testing.T) {
	onEach(t, func(p *pgtest) {
		major := p.conn.PgConn().ParameterStatus("server_version")[:2]
		p.sql("CREATE TABLE g(id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, b int GENERATED ALWAYS AS (a * 2) STORED, c serial)",
			"CREATE TABLE root(id int PRIMARY KEY, a text, b date) PARTITION BY RANGE (id)", "CREATE TABLE leaf1 PARTITION OF root FOR VALUES FROM (0) TO (10)",
			"CREATE TABLE leaf2(b date, dropped int, a text, id int NOT NULL)", "ALTER TABLE leaf2 DROP dropped", "ALTER TABLE root ATTACH PARTITION leaf2 FOR VALUES FROM (10) TO (20)")
		for name, options := range map[string]string{"plain": "", "root": " WITH (publish_via_partition_root)", "generated": " WITH (publish_generated_columns = stored)", "list": ""} {
			if name == "generated" && major != "18" || name == "list" && major == "14" {
				continue
			}
			tables := "g, root"
			if name == "list" {
				tables = "g(id, a), root"
			}
			p.sql("CREATE PUBLICATION " + name + " FOR TABLE " + tables + options)
			p.raw[propPublication], p.raw[propAutocreate], p.raw[propSlot] = name, "disabled", p.slot+"_"+name
			p.raw[propViaRoot] = fmt.Sprint(name == "root")
			p.stored, p.tables = nil, nil
			s := p.open(Options{})
			p.sql("DELETE FROM root", "DELETE FROM g")
			p.sql("INSERT INTO g(a) VALUES (21)", "INSERT INTO root VALUES (1, 'x', '2024-01-01'), (11, 'y', '2024-01-02')")
			streamed := map[string]string{}
			for len(streamed) < 3 {
				b, err := s.Next(p.ctx)
				if err != nil {
					p.Fatal(err)
				}
				for _, c := range b.Changes {
					if c.Op == connectors.OpCreate {
						streamed[columnNames(c.Table)+renderRow(c.After)] = c.Table.Name
					}
				}
			}
			_ = s.Close(p.ctx)
			r := newReading(p)
			read := map[string]string{}
			for _, c := range r.o.captured {
				r.read(p, c.Name, func(t *schema.Table, row schema.Row) error {
					read[columnNames(t)+renderRow(row)] = t.Name
					return nil
				})
			}
			if d := cmp.Diff(read, streamed); d != "" {
				p.Errorf("publication %s: read from the table (-), streamed (+): %s", name, d)
			}
			for row, table := range read {
				if table == "g" && strings.Contains(row, "b") != (name == "generated") {
					p.Errorf("publication %s: %s", name, row)
				}
			}
		}
	})
}

func columnNames(t *schema.Table) string {
	var names []string
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return strings.Join(names, ",")
}

// Case 51: row filter and column list hold for a table read as for the stream, and an update that crosses the
// filter is a create or a delete.
func TestFilteredPublication(t *testing.T) {
	onEach(t, func(p *pgtest) {
		if strings.HasPrefix(p.conn.PgConn().ParameterStatus("server_version"), "14") {
			p.Skip("row filters and column lists came with 15")
		}
		p.sql("CREATE TABLE f(id int, n int, secret text, PRIMARY KEY (id, n))", "CREATE PUBLICATION part FOR TABLE f(id, n) WHERE (n > 10)", "INSERT INTO f VALUES (1, 5, 'x'), (2, 20, 'x')")
		p.raw[propPublication], p.raw[propAutocreate] = "part", "disabled"
		s := p.open(Options{})
		var read []string
		r := newReading(p)
		r.read(p, "f", func(_ *schema.Table, row schema.Row) error { read = append(read, renderRow(row)); return nil })
		if d := cmp.Diff([]string{"(2,20)"}, read); d != "" {
			p.Error(d)
		}
		p.sql("UPDATE f SET n = 50 WHERE id = 1", "UPDATE f SET n = 1 WHERE id = 2")
		p.until(s, 2)
		if d := cmp.Diff([]string{"0 c public.f v1 after(1,50)", "0 d public.f v1 before(2,20)"}, p.lines); d != "" {
			p.Error(d)
		}
	})
}
