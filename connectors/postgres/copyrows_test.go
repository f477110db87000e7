package postgres

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
	"github.com/tidemark-cdc/tidemark/schema"
)

// textPlan is a table of text columns, the first of which is the key.
func textPlan(columns int) *relation {
	text := func(_ *values.Arena, b []byte) (schema.Value, error) { return schema.Text(b), nil }
	plan := &relation{name: "public.t", table: &schema.Table{Namespace: "public", Name: "t", Key: []int{0}}, key: []int{0}}
	for i := range columns {
		plan.columns = append(plan.columns, column{name: fmt.Sprintf("c%d", i), at: i, decode: text})
		plan.table.Columns = append(plan.table.Columns, schema.Column{Name: fmt.Sprintf("c%d", i)})
	}
	return plan
}

// escapeCopy is what the server's CopyAttributeOutText does.
func escapeCopy(s string) string {
	return strings.NewReplacer("\\", `\\`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`).Replace(s)
}

// Whatever the values are and wherever the output is cut, every row comes out as it went in.
func TestCopyRowsAreWhatWasWritten(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	alphabet := []string{"a", "é", "\t", "\n", "\\", `\N`, "N", "\r", "\b", "\v", "\f", "x", "", "\x01"}
	for range 300 {
		columns := 1 + rnd.IntN(4)
		var want [][]string
		var out bytes.Buffer
		for range rnd.IntN(20) {
			row := make([]string, columns)
			for i := range row {
				if i > 0 && rnd.IntN(4) == 0 {
					row[i] = null
				} else {
					for range rnd.IntN(5) {
						row[i] += alphabet[rnd.IntN(len(alphabet))]
					}
				}
				if i > 0 {
					out.WriteByte('\t')
				}
				if row[i] == null {
					out.WriteString(`\N`)
				} else {
					out.WriteString(escapeCopy(row[i]))
				}
			}
			out.WriteByte('\n')
			want = append(want, row)
		}
		c := newCopyRows(textPlan(columns), []string{"c0"})
		for b := out.Bytes(); len(b) > 0; {
			n := 1 + rnd.IntN(len(b))
			if _, err := c.Write(b[:n]); err != nil {
				t.Fatal(err)
			}
			b = b[n:]
		}
		if len(c.rows) != len(want) || c.total != int64(len(want)) {
			t.Fatalf("%d rows of %d", len(c.rows), len(want))
		}
		for i, row := range c.rows {
			for j, v := range row {
				if (v.Kind == schema.KindNull) != (want[i][j] == null) || (v.Kind == schema.KindString && string(v.Bytes) != want[i][j]) {
					t.Fatalf("row %d column %d: %q, want %q", i, j, v.Bytes, want[i][j])
				}
			}
			if text, ok := c.textOf(row, 0); !ok || string(text) != want[i][0] {
				t.Fatalf("row %d: the key's text is %q, want %q", i, text, want[i][0])
			}
		}
	}
}

// A row with another number of fields than was asked for is an error.
func TestCopyRowsRefuseAnotherWidth(t *testing.T) {
	c := newCopyRows(textPlan(2), nil)
	if _, err := c.Write([]byte("a\tb\nc\n")); err == nil || len(c.rows) != 1 {
		t.Fatalf("%d rows, %v", len(c.rows), err)
	}
	if _, err := c.Write([]byte("a\tb\n")); err == nil {
		t.Fatal("the error did not stay")
	}
}

// BenchmarkSplitCopy splits the lines of a copy of (bigint, text, int, timestamptz, numeric); an op is a line.
func BenchmarkSplitCopy(b *testing.B) {
	for name, line := range map[string]string{
		"plain": "123456\tsome text of thirty characters\t4711\t2026-11-30 10:00:00.123456+00\t123.45",
		"null":  "123456\tsome text of thirty characters\t\\N\t2026-11-30 10:00:00.123456+00\t123.45",
	} {
		b.Run(name, func(b *testing.B) {
			own, fields := []byte(line), make([][]byte, 0, 5)
			b.ReportAllocs()
			for b.Loop() {
				fields = splitCopy(fields[:0], own, 5)
			}
			if len(fields) != 5 {
				b.Fatal(len(fields))
			}
		})
	}
}
