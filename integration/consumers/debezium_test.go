package consumers

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// What Debezium's consumers get: its types instead of PostgreSQL's texts.
var enveloped = table{"orders", []string{"id"}, []string{"id", "words", "amount", "yes", "large", "u", "raw", "day", "wall", "at", "tags"}}

var envelopedSQL = map[string]string{
	"day":  `(day - date '1970-01-01')`,
	"wall": `(extract(epoch FROM wall) * 1000000)::bigint`,
	"at":   `to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
}

// Envelopes, read by the same consumers: rows, operations and tombstones are the table's.
func TestOthersReadEnvelopes(t *testing.T) {
	t.Parallel()
	s := stream(t, harness.Options{
		Setup:     []string{`CREATE TABLE orders(id int PRIMARY KEY, words text, amount numeric(12,2), yes boolean, large bigint, u uuid, raw bytea, day date, wall timestamp, at timestamptz, tags text[])`},
		Connector: map[string]string{"format": "debezium"},
	})
	w := s.Run()
	s.SQL(
		`INSERT INTO orders(id) VALUES (2), (3), (4)`,
		`INSERT INTO orders VALUES (1, 'é', -1299.01, true, 9007199254740993, '6f8c3a52-0c1f-4d38-9f7e-0a1b2c3d4e5f', '\x00ff', '1969-12-31', '2026-11-30 10:00:00.123456', '2026-11-30 10:00:00.123456+00', '{a,NULL}')`,
		`UPDATE orders SET words = 'two', amount = 0.01 WHERE id = 2`,
		`UPDATE orders SET id = 30 WHERE id = 3`,
		`DELETE FROM orders WHERE id = 4`,
		`BEGIN; INSERT INTO orders(id, large) VALUES (4, 0), (5, 0); UPDATE orders SET large = large + 1 WHERE id = 4; UPDATE orders SET large = large + 1 WHERE id = 4; DELETE FROM orders WHERE id = 5; COMMIT`,
	)
	s.CaughtUp(soon)
	w.Stop()
	topic := s.Topic("public", "orders")
	kafka, registry := s.KafkaAddr(), s.RegistryURL()
	java := servers.Java(t, "java")
	t.Run("python", func(t *testing.T) {
		got := run(t, servers.Python(t, "python/consume.py", kafka, registry, topic))
		judgeEnvelopes(t, s, got)
		checkKinds(t, afters(t, got), map[string]string{"orders.id": "int", "orders.amount": "Decimal", "orders.raw": "bytes", "orders.day": "int", "orders.wall": "int", "orders.at": "str", "orders.u": "str"})
	})
	t.Run("java", func(t *testing.T) {
		judgeEnvelopes(t, s, run(t, java.Command(t.Context(), "Consume", kafka, registry, servers.Registry(t).CoreURL(), topic)))
	})
	t.Run("streams", func(t *testing.T) {
		var lines []string
		for _, r := range afters(t, run(t, java.Command(t.Context(), "Table", kafka, registry, t.TempDir(), topic))) {
			lines = append(lines, enveloped.line(r.Value.value))
		}
		enveloped.sameAs(t, s, lines, envelopedSQL)
	})
}

// afters replaces envelopes by the row after the change, nil where there is none.
func afters(t *testing.T, got []record) []record {
	t.Helper()
	got = slices.Clone(got)
	for i := range got {
		b, err := json.Marshal(got[i].Value.value("after"))
		if err != nil {
			t.Fatal(err)
		}
		got[i].Value = nil
		if err := json.Unmarshal(b, &got[i].Value); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// judgeEnvelopes replays envelopes as a consumer of Debezium does.
func judgeEnvelopes(t *testing.T, s *harness.Stream, got []record) {
	t.Helper()
	rows := map[string]string{}
	ops := map[any]int{}
	for _, r := range inOrder(t, got, s.Topic("public", "orders")) {
		op, key := r.Value.value("op"), fmt.Sprint(project(enveloped.key, r.Key))
		ops[op]++
		source, _ := r.Value.value("source").(map[string]any)
		if table, _ := source["table"].([]any); len(table) != 2 || table[1] != "orders" {
			t.Errorf("source %v", source)
		}
		after := afters(t, []record{*r})[0].Value
		if (op == "d") != (after == nil) {
			t.Errorf("%v of key %s: after %v", op, key, after)
		}
		delete(rows, key)
		if after != nil {
			rows[key] = enveloped.line(after.value)
		}
	}
	if want := map[any]int{"c": 7, "u": 3, "d": 3}; fmt.Sprint(ops) != fmt.Sprint(want) {
		t.Errorf("operations %v, want %v", ops, want)
	}
	tombstones := 0
	for i := range got {
		if got[i].Value == nil {
			tombstones++
		}
	}
	if tombstones != ops["d"] {
		t.Errorf("%d tombstones of %d deletes", tombstones, ops["d"])
	}
	var lines []string
	for _, line := range rows {
		lines = append(lines, line)
	}
	enveloped.sameAs(t, s, lines, envelopedSQL)
}
