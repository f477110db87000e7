package consumers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

var setup = []string{
	`CREATE TYPE mood AS ENUM ('sad', 'ok')`,
	`CREATE TABLE kinds(id bigint PRIMARY KEY, yes boolean, small smallint, whole int, large bigint, r real, d double precision, amount numeric(12,2), fine numeric(38,10),
		free numeric, words text, short varchar(10), raw bytea, day date, at timestamptz, wall timestamp, clock time, u uuid, doc jsonb, feeling mood, span interval,
		tags int[], names text[], sums numeric(6,2)[], days date[], stamps timestamptz[])`,
	`CREATE TABLE pair(b text, a int, n int, s text, PRIMARY KEY (a, b))`,
	`CREATE TABLE stamped(day date, n numeric(8,3), u uuid, at timestamptz, raw bytea, v int, PRIMARY KEY (day, n, u, at, raw))`,
	`CREATE TABLE wide(id int PRIMARY KEY, n int, big text); ALTER TABLE wide ALTER big SET STORAGE EXTERNAL`,
	`CREATE TABLE moved(id int PRIMARY KEY, n int, big text); ALTER TABLE moved ALTER big SET STORAGE EXTERNAL`,
	`CREATE TABLE keyless(n int, s text); ALTER TABLE keyless REPLICA IDENTITY FULL`,
}

var tables = []table{
	{"kinds", []string{"id"}, []string{"id", "yes", "small", "whole", "large", "r", "d", "amount", "fine", "free", "words", "short", "raw", "day", "at", "wall", "clock", "u",
		"doc", "feeling", "span", "tags", "names", "sums", "days", "stamps"}},
	{"pair", []string{"a", "b"}, []string{"a", "b", "n", "s"}},
	{"stamped", []string{"day", "n", "u", "at", "raw"}, []string{"day", "n", "u", "at", "raw", "v"}},
	{"wide", []string{"id"}, []string{"id", "n", "big"}},
	{"moved", []string{"id"}, []string{"id", "n", "big"}},
	{"keyless", nil, []string{"n", "s"}},
}

var work = []string{
	`INSERT INTO kinds VALUES
		(1, true, -32768, 2147483647, -9223372036854775808, 1.5, -0.1, 12.50, 1234567890123456789012345678.0123456789, 1.10, 'é𝄞', 'x', '\x00ff', '2026-11-30',
			'2026-11-30 10:00:00.123456+00', '1999-12-31 23:59:59.5', '23:59:59.999999', '6f8c3a52-0c1f-4d38-9f7e-0a1b2c3d4e5f', '{"a": [1, null]}', 'ok', '1 year 2 days', '{1,NULL,-3}', '{a,NULL,"b c"}',
			'{1.10,-2.00,NULL}', '{1969-12-31,2000-02-29}', '{"2026-11-30 10:00:00.5+00",NULL}'),
		(2, false, 32767, -2147483648, 9223372036854775807, 'NaN', 'Infinity', -1299.01, -0.0000000001, 'NaN', '', '', '', '0001-01-01',
			'0001-01-01 00:00:00+00', '9999-12-31 23:59:59.999999', '00:00:00', '00000000-0000-0000-0000-000000000000', '[]', 'sad', '-1 days', '{}', '{}', '{}', '{}', '{}'),
		(3, NULL, 0, 0, 0, '-Infinity', 0, 0, 0, 0, NULL, NULL, NULL, '9999-12-31', '9999-12-31 23:59:59.999999+00', '1970-01-01', '12:00', NULL, 'null', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
		(4, NULL, NULL, NULL, NULL, NULL, NULL, -128.00, -0.01, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`,
	`UPDATE kinds SET amount = amount + 0.01, at = at + '1 microsecond' WHERE id IN (1, 4)`,
	`UPDATE kinds SET id = 40 WHERE id = 4`,
	`DELETE FROM kinds WHERE id = 3`,
	`BEGIN; INSERT INTO kinds(id, words) VALUES (3, 'again'), (5, 'brief'); UPDATE kinds SET words = 'and again' WHERE id = 3; DELETE FROM kinds WHERE id = 5; COMMIT`,
	`INSERT INTO pair SELECT 'k' || i, i, 0, repeat('s', i) FROM generate_series(1, 60) i`,
	`BEGIN; ` + strings.Repeat(`UPDATE pair SET n = n + 1 WHERE a <= 3; `, 40) + `COMMIT`,
	`BEGIN; DELETE FROM pair WHERE a = 1; INSERT INTO pair VALUES ('k1', 1, -1, 'second'); DELETE FROM pair WHERE a = 1; INSERT INTO pair VALUES ('k1', 1, -2, NULL); UPDATE pair SET n = -3 WHERE a = 1; COMMIT`,
	`UPDATE pair SET a = a + 1000 WHERE a BETWEEN 10 AND 19`,
	`BEGIN; UPDATE pair SET a = 2000 WHERE a = 20; UPDATE pair SET a = 20, n = 7 WHERE a = 2000; UPDATE pair SET b = 'other' WHERE a = 21; COMMIT`,
	`DELETE FROM pair WHERE a BETWEEN 30 AND 39`,
	`INSERT INTO pair SELECT 'k' || i, i, 1, 'back' FROM generate_series(35, 36) i`,
	`BEGIN; INSERT INTO pair VALUES ('never', 0, 0, NULL); ROLLBACK`,
	`INSERT INTO stamped VALUES ('2026-11-30', 1.5, '6f8c3a52-0c1f-4d38-9f7e-0a1b2c3d4e5f', '2026-11-30 10:00:00.000001+00', '\x', 1), ('1969-12-31', -128, '6f8c3a52-0c1f-4d38-9f7e-0a1b2c3d4e5f', '1969-12-31 23:59:59.999999+00', '\x80', 2), ('2026-11-30', 0, '6f8c3a52-0c1f-4d38-9f7e-0a1b2c3d4e5f', '2026-11-30', '\x00', 3)`,
	`UPDATE stamped SET v = v + 10`, `UPDATE stamped SET n = 255.999 WHERE v = 11`, `DELETE FROM stamped WHERE v = 13`,
	`INSERT INTO wide SELECT i, 0, repeat('w', 9000) FROM generate_series(1, 3) i`,
	`UPDATE wide SET n = n + 1`, `UPDATE wide SET big = repeat('v', 5000) WHERE id = 2`, `UPDATE wide SET n = n + 1`, `DELETE FROM wide WHERE id = 1`,
	`INSERT INTO moved SELECT i, 0, repeat('m', 9000) FROM generate_series(1, 3) i`, `UPDATE moved SET id = id + 10, n = 1`, `UPDATE moved SET n = 2 WHERE id > 11`,
	`INSERT INTO keyless VALUES (1, 'a'), (1, 'a'), (2, NULL)`, `UPDATE keyless SET s = 'b' WHERE n = 1`, `DELETE FROM keyless WHERE n = 2`,
}

// One stream, read by everyone: what each makes of it is the tables.
func TestOthersRead(t *testing.T) {
	t.Parallel()
	s := stream(t, harness.Options{Setup: setup})
	w := s.Run()
	s.SQL(work...)
	s.Finish(w, harness.Expect{})
	topics := s.Topics()
	if len(topics) != len(tables) {
		t.Fatalf("topics %v, want %d", topics, len(tables))
	}
	abort(s, oneEach(s.Records(harness.Committed)))
	kafka, registry := s.KafkaAddr(), s.RegistryURL()
	java := servers.Java(t, "java")
	t.Run("group", func(t *testing.T) { // returns when all have read
		t.Run("python", func(t *testing.T) {
			t.Parallel()
			judge(t, s, run(t, servers.Python(t, "python/consume.py", append([]string{kafka, registry}, topics...)...)), pythonKinds)
		})
		t.Run("java", func(t *testing.T) {
			t.Parallel()
			judge(t, s, run(t, java.Command(t.Context(), "Consume", append([]string{kafka, registry, servers.Registry(t).CoreURL()}, topics...)...)), javaKinds)
		})
		t.Run("streams", func(t *testing.T) {
			t.Parallel()
			keyed := []table{tables[0], tables[1], tables[2]} // a KTable keeps the last value, where the contract has a consumer keep a column the log left out
			args := []string{kafka, registry, t.TempDir()}
			for _, tab := range keyed {
				args = append(args, s.Topic("public", tab.name))
			}
			sameState(t, s, run(t, java.Command(t.Context(), "Table", args...)), keyed)
		})
		t.Run("duckdb", func(t *testing.T) {
			t.Parallel()
			current(t, s, tables[:4]) // of moved the view shows null where a key changed over an unchanged large value
		})
	})
}

// current loads tables' topics into DuckDB and compares the views of connectctl.
func current(t *testing.T, s *harness.Stream, tables []table) {
	t.Helper()
	views := map[string]string{}
	for _, tab := range tables {
		topic := s.Topic("public", tab.name)
		code, sql, errs := s.Ctl("dedup-view", topic, "--worker", s.WorkerFile, "--dialect", "duckdb", "--table", "loaded", "--view", "current")
		if code != 0 {
			t.Fatalf("dedup-view: code %d\n%s", code, errs)
		}
		views[topic] = sql
	}
	ask, _ := json.Marshal(views)
	cmd := servers.Python(t, "python/duck.py", s.KafkaAddr(), s.RegistryURL())
	cmd.Stdin = bytes.NewReader(ask)
	got := run(t, cmd)
	for _, tab := range tables {
		var lines []string
		for _, r := range got {
			if r.Topic == s.Topic("public", tab.name) {
				lines = append(lines, tab.line(r.Value.value))
			}
		}
		tab.same(t, s, lines)
	}
}

// oneEach is one record of each partition.
func oneEach(records []check.Record) []check.Record {
	seen := map[string]bool{}
	return slices.DeleteFunc(records, func(r check.Record) bool {
		at := fmt.Sprint(r.Topic, r.Partition)
		defer func() { seen[at] = true }()
		return seen[at]
	})
}

// abort writes records nobody may see behind the others: a reader of committed ones passes over them.
func abort(s *harness.Stream, records []check.Record) {
	s.T.Helper()
	cl := s.Client(kgo.TransactionalID(s.Name+"-aborted"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := cl.BeginTransaction(); err != nil {
		s.T.Fatal(err)
	}
	for _, r := range records {
		if err := cl.ProduceSync(s.Ctx, &kgo.Record{Topic: r.Topic, Partition: r.Partition, Key: []byte("no key"), Value: []byte("no value")}).FirstErr(); err != nil {
			s.T.Fatal(err)
		}
	}
	if err := cl.EndTransaction(s.Ctx, kgo.TryAbort); err != nil {
		s.T.Fatal(err)
	}
}
