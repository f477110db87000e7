package harness

import (
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// Expect tunes a judgement.
type Expect struct {
	Captured func(schema, table string) bool           // nil: every table
	Column   func(schema, table, column string) bool   // nil: every column
	Keys     map[string][]string                       // key columns in place of the primary key, by schema.table
	Topic    func(schema, table string) (topic string) // nil: <prefix>.<schema>.<table>
	After    uint64
}

// Truth reads the judge's slot.
func (s *Stream) Truth(e Expect) *check.Truth {
	s.T.Helper()
	keys := map[string][]string{}
	truth, err := check.ReadTruth(s.Ctx, s.Conn, s.Judge, s.Name, func(schema, table string) []string {
		name := schema + "." + table
		if k, ok := e.Keys[name]; ok {
			return k
		}
		if _, ok := keys[name]; !ok {
			keys[name] = s.primaryKey(schema, table)
		}
		return keys[name]
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return truth
}

func (s *Stream) primaryKey(schema, table string) []string {
	conn := s.Connect() // the other one is reading
	rows, err := conn.Query(s.Ctx, `SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
		WHERE i.indisprimary AND i.indrelid = format('%I.%I', $1::text, $2::text)::regclass ORDER BY array_position(i.indkey::int2[], a.attnum)`, schema, table)
	if err != nil {
		s.T.Fatal(err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.T.Fatal(err)
	}
	return columns
}

// Check compares the topics with the judge's slot, which is used up, and with connectctl verify; it reports what differs.
func (s *Stream) Check(e Expect) *check.Result {
	s.T.Helper()
	truth := s.Truth(e)
	truth.Changes = slices.DeleteFunc(truth.Changes, func(c check.Change) bool {
		return c.Op == 'm' && (*c.Row[0].Text == markPrefix || *c.Row[0].Text == ownPrefix)
	})
	topic := e.Topic
	if topic == nil {
		topic = s.Topic
	}
	res := check.Compare(truth, s.Records(Committed), check.Expectation{
		Decoder: s.Decoder, Column: e.Column, After: e.After,
		Topic: func(schema, table string) string {
			if schema == "" && table == check.Messages {
				return s.MessageTopic()
			}
			if e.Captured != nil && !e.Captured(schema, table) {
				return ""
			}
			return topic(schema, table)
		},
	})
	if res.Bad() {
		s.T.Errorf("the topics are not what the log says: %s", res)
	} else {
		s.T.Logf("judged: %s", res)
	}
	s.Verify()
	s.SlotNotAhead()
	return res
}

// Finish waits until all is published, stops the worker in order and judges.
func (s *Stream) Finish(w *Worker, e Expect) *check.Result {
	s.T.Helper()
	s.CaughtUp(60 * time.Second)
	w.Stop()
	s.SlotFree()
	return s.Check(e)
}

// SameRows checks that replaying a table's topic gives the table's rows.
func (s *Stream) SameRows(schema, table string, columns ...string) {
	s.T.Helper()
	s.SameRowsIn(s.Topic(schema, table), pgx.Identifier{schema, table}.Sanitize(), columns...)
}

// SameRowsIn is SameRows for any topic and what follows FROM.
func (s *Stream) SameRowsIn(topic, from string, columns ...string) {
	s.T.Helper()
	s.sameRows(topic, from, false, columns...)
}

// SameRowsSinceRead is SameRows of what follows the topic's first row that was read from the table, that one included.
func (s *Stream) SameRowsSinceRead(schema, table string, columns ...string) {
	s.T.Helper()
	s.sameRows(s.Topic(schema, table), pgx.Identifier{schema, table}.Sanitize(), true, columns...)
}

func (s *Stream) sameRows(topic, from string, sinceRead bool, columns ...string) {
	s.T.Helper()
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = pgx.Identifier{c}.Sanitize() + "::text"
	}
	rows, err := s.Conn.Query(s.Ctx, "SELECT ARRAY["+strings.Join(cells, ",")+"] FROM "+from)
	if err != nil {
		s.T.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[[]verify.Text])
	if err != nil {
		s.T.Fatal(err)
	}
	whole := func(string) bool { return true } // before-images are used of keyless tables alone
	replay := verify.Fingerprint{Decode: s.Decoder.Images(whole), Tables: map[string]verify.Table{topic: {Columns: columns, Rows: list}}}
	for _, r := range s.Records(Committed) {
		if r.Topic != topic || sinceRead && r.Op != 'r' {
			continue
		}
		sinceRead = false
		replay.Record(r.Verified())
	}
	for _, v := range replay.End() {
		s.T.Error(v)
	}
}
