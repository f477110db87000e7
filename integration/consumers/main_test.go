package consumers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

var (
	servers *env.Env
	binary  string
)

func TestMain(m *testing.M) { env.Main(runner{m}, &servers) }

// runner builds the binary around the tests.
type runner struct{ m *testing.M }

func (r runner) Run() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if binary = os.Getenv("TIDEMARK_CONNECTCTL"); binary != "" {
		return r.m.Run()
	}
	var err error
	if binary, err = harness.Build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer harness.Remove(binary)
	return r.m.Run()
}

const soon = 30 * time.Second

// newest is the PostgreSQL version the tests run on: what they look at does not depend on it.
const newest = 18

func stream(t *testing.T, o harness.Options) *harness.Stream {
	t.Helper()
	o.Binary, o.PG, o.Kafka, o.Registry = binary, servers.Postgres(t, newest), servers.Kafka(t), servers.Registry(t)
	return harness.New(t, o)
}

// fields are a record's fields as a consumer sees them.
type fields map[string]*cell

// cell is a value that is not null: the consumer's type of it, and its text as PostgreSQL prints it, an array's as a list.
type cell struct {
	kind  string
	value any
}

func (c *cell) UnmarshalJSON(b []byte) error {
	var pair []any
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return fmt.Errorf("%s is not a type and a value: %w", b, err)
	}
	c.kind, _ = pair[0].(string)
	c.value = pair[1]
	return nil
}

func (f fields) value(name string) any {
	if f[name] == nil {
		return nil
	}
	return f[name].value
}

// record is what a consumer prints of a record or of a row.
type record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp int64
	Key       fields
	Value     fields // nil: tombstone
	Headers   [][2]json.RawMessage
	Body      string
}

// header returns a header's text, empty where there is none.
func (r *record) header(name string) (text string) {
	for _, h := range r.Headers {
		if string(h[0]) == `"`+name+`"` {
			_ = json.Unmarshal(h[1], &text)
		}
	}
	return text
}

// oldKey is the header __old_key, nil where there is none.
func (r *record) oldKey(t *testing.T) (f fields) {
	t.Helper()
	for _, h := range r.Headers {
		if string(h[0]) == `"__old_key"` {
			if err := json.Unmarshal(h[1], &f); err != nil {
				t.Fatal(err)
			}
		}
	}
	return f
}

// run runs a consumer and returns what it printed.
func run(t *testing.T, cmd *exec.Cmd) (out []record) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%.200s: %v\n%s", cmd.Args, err, stderr.String())
	}
	lines := bufio.NewScanner(&stdout)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%.400s: %v", lines.Text(), err)
		}
		out = append(out, r)
	}
	t.Logf("%d lines in %s", len(out), time.Since(began).Round(time.Millisecond))
	return out
}

// table is a table with what is compared of it.
type table struct {
	name    string
	key     []string
	columns []string
}

// line prints a row for comparison.
func (tab *table) line(value func(column string) any) string {
	row := make([]any, len(tab.columns))
	for i, c := range tab.columns {
		row[i] = value(c)
	}
	b, _ := json.Marshal(row)
	return string(b)
}

// rows are the table's rows now as lines, sorted; sql has expressions to take in place of columns.
func (tab *table) rows(s *harness.Stream, sql map[string]string) (lines []string) {
	s.T.Helper()
	cells := make([]string, len(tab.columns))
	for i, c := range tab.columns {
		if c = sql[c]; c == "" {
			c = pgx.Identifier{tab.columns[i]}.Sanitize()
		}
		cells[i] = fmt.Sprintf("CASE WHEN left(pg_typeof(%[1]s)::text, -2) || '[]' = pg_typeof(%[1]s)::text THEN to_jsonb(%[1]s::text::text[]) ELSE to_jsonb(%[1]s::text) END", c)
	}
	rows, err := s.Conn.Query(s.Ctx, "SELECT json_build_array("+strings.Join(cells, ",")+")::text FROM "+tab.name)
	if err != nil {
		s.T.Fatal(err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.T.Fatal(err)
	}
	for _, text := range texts {
		var row []any
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			s.T.Fatal(err)
		}
		b, _ := json.Marshal(row)
		lines = append(lines, string(b))
	}
	slices.Sort(lines)
	return lines
}

// same compares lines that a consumer made with the table's.
func (tab *table) same(t *testing.T, s *harness.Stream, got []string) {
	t.Helper()
	tab.sameAs(t, s, got, nil)
}

// sameAs is same with SQL expressions in place of columns.
func (tab *table) sameAs(t *testing.T, s *harness.Stream, got []string, sql map[string]string) {
	t.Helper()
	want := tab.rows(s, sql)
	slices.Sort(got)
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("%s: the consumer has %d rows, the table %d; first difference:\n  got  %.400s\n  want %.400s", tab.name, len(got), len(want), g, w)
			return
		}
	}
}
