package badinput

import (
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

// A value without a form keeps its whole transaction back, the sentence names table, column and type and the way
// out, never the value, and after the way out the stream goes on at the same place.
func badValues(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	s.sql("ALTER TABLE public.t ADD n numeric(12,2), ADD at timestamptz")
	p := s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (1, 'before', 1.5)")
	s.published("t", 1)
	for _, c := range []struct {
		insert, property, value string
		words                   []string
		ids                     []int
	}{
		{"BEGIN; INSERT INTO public.t VALUES (2, 'whole', 2); INSERT INTO public.t VALUES (3, 'bad', 'NaN'); COMMIT", "decimal.nonfinite.handling.mode", "null",
			[]string{"table public.t", `column "n" of type numeric(12,2)`, "decimal.nonfinite.handling.mode=null"}, []int{1, 2, 3}},
		{"BEGIN; INSERT INTO public.t VALUES (4, 'whole', 2); INSERT INTO public.t VALUES (5, 'bad', 2, '294270-05-06 00:00+00'); COMMIT", "column.exclude.list", `public\.t\.at`,
			[]string{"table public.t", `column "at" of type timestamp with time zone`, "beyond what microseconds since 1970 can hold"}, []int{1, 2, 3, 4, 5}},
	} {
		before := len(s.rows("t"))
		s.sql(c.insert)
		said := p.exit(3)
		s.wants(said, c.words...)
		if strings.Contains(said, "294270") {
			t.Errorf("the value is shown: %s", said)
		}
		s.wants(s.run().exit(3), c.words...)
		if n := len(s.rows("t")); n != before {
			t.Errorf("%d records, %d before", n, before)
		}
		s.connector[c.property] = c.value
		p = s.run()
		p.line(0, "state=RUNNING")
		rows := s.published("t", c.ids...)
		if n, there := rows[2%len(rows)].Value["n"]; n != nil || !there {
			t.Errorf("NaN became %v", n)
		}
	}
	p.stop()
}
