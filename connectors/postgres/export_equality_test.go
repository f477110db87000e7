package postgres

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/schema"
)

// Every type is exported as it is read from its table otherwise, which TestEveryTypeIsTheSameFromTableAndStream compares with the
// stream, whatever role and environment say.
func TestEveryTypeIsExportedAsItIsRead(t *testing.T) {
	for k, v := range hostileEnv {
		t.Setenv(k, v)
	}
	onEach(t, func(p *pgtest) {
		cases := prepareTypes(p, slices.Clone(typeCases))
		for i, c := range cases {
			var batch strings.Builder
			for n, v := range c.Values {
				fmt.Fprintf(&batch, "INSERT INTO %s VALUES (%d, 0, %s);", c.TableOf(i), n, v)
				if c.Key {
					fmt.Fprintf(&batch, "INSERT INTO %s VALUES (%s);", c.KeyTableOf(i), v)
				}
			}
			p.sql(batch.String())
		}
		_, opened := p.openExport(Options{}, nil)
		exported := map[string][]string{}
		for {
			x, err := opened.Exported.Next(p.ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || x.Err != nil {
				p.Fatal(err, x.Err)
			}
			for _, row := range x.Rows {
				exported[x.Table.Name] = append(exported[x.Table.Name], deepRow(row))
			}
		}
		r := newReading(p)
		compare := func(name string) {
			var want []string
			r.read(p, name, func(_ *schema.Table, row schema.Row) error {
				want = append(want, deepRow(row))
				return nil
			})
			slices.Sort(want)
			slices.Sort(exported[name])
			if len(want) == 0 || !slices.Equal(exported[name], want) {
				p.Errorf("%s: exported\n%q\nread\n%q", name, exported[name], want)
			}
		}
		for i, c := range cases {
			compare(c.TableOf(i))
			if c.Key {
				compare(c.KeyTableOf(i))
			}
		}
	})
}

// deepRow writes a row with all it refers to.
func deepRow(row schema.Row) string {
	var b strings.Builder
	for _, v := range row {
		fmt.Fprintf(&b, "%v %v %x %s;", v.Kind, v.Num, v.Bytes, deepRow(v.Elems))
	}
	return b.String()
}
