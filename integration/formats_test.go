package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// Without a registry, in JSON and Debezium's format, with a worker killed in between: the envelopes build up the
// table's rows, every transaction has one BEGIN and one END, and what the ENDs count is what was published.
func TestDebeziumJSON(t *testing.T) {
	t.Parallel()
	s := stream(t, 18, harness.Options{
		Setup: []string{`CREATE TABLE t(id int PRIMARY KEY, v numeric(10,2), s text NOT NULL DEFAULT 'none')`, `ALTER TABLE t REPLICA IDENTITY FULL`},
		Connector: map[string]string{
			"format": "debezium", "provide.transaction.metadata": "true",
			"key.converter": "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "false",
			"value.converter": "json", "value.converter.schemas.enable": "false", "value.converter.decimal.format": "NUMERIC",
		},
		RegistryURL: "http://127.0.0.1:1", // nobody
	})
	work := func(from int) {
		for i := from; i < from+20; i++ {
			s.SQL(fmt.Sprintf("INSERT INTO t SELECT g, g / 4.0, 'x' FROM generate_series(%d, %d) g", i*100, i*100+9),
				fmt.Sprintf("UPDATE t SET s = 'u%d' WHERE id %% 3 = 0", i), fmt.Sprintf("UPDATE t SET id = id + 50 WHERE id = %d", i*100+1),
				fmt.Sprintf("DELETE FROM t WHERE id = %d", i*100+2))
		}
	}
	w := s.Run()
	work(0)
	w.Kill()
	work(20)
	w = s.Run()
	s.CaughtUp(30 * time.Second)
	w.Stop()

	type row map[string]any
	rows := map[string]row{}
	var published, begins, ends, counted int
	for _, r := range s.Raw(harness.Committed, s.Topics()...) {
		var v struct {
			Op, Status    string
			Before, After row
			EventCount    int `json:"event_count"`
			Source        struct{ Table string }
		}
		if r.Value == nil {
			if _, ok := rows[string(r.Key)]; ok {
				t.Fatalf("a tombstone of %s, which lives", r.Key)
			}
			continue
		}
		if err := json.Unmarshal(r.Value, &v); err != nil {
			t.Fatalf("%v: %s", err, r.Value)
		}
		switch {
		case strings.HasSuffix(r.Topic, ".transaction") && v.Status == "BEGIN":
			begins++
		case strings.HasSuffix(r.Topic, ".transaction"):
			ends++
			counted += v.EventCount
		default:
			published++
			key := string(r.Key)
			if had, ok := rows[key]; ok != (v.Before != nil && v.Op != "c") || ok && fmt.Sprint(had) != fmt.Sprint(v.Before) {
				t.Fatalf("%s of %s: before is %v, the row was %v", v.Op, key, v.Before, had)
			}
			if delete(rows, key); v.After != nil {
				rows[key] = v.After
			}
		}
	}
	if begins != ends || counted != published || published == 0 {
		t.Errorf("%d begins, %d ends that count %d, %d published", begins, ends, counted, published)
	}
	want := s.Query("SELECT count(*) || ' ' || sum(v) || ' ' || count(*) FILTER (WHERE s <> 'x') FROM t")
	var sum float64
	changed := 0
	for _, r := range rows {
		sum += r["v"].(float64)
		if r["s"] != "x" {
			changed++
		}
	}
	if got := fmt.Sprintf("%d %.2f %d", len(rows), sum, changed); got != want {
		t.Errorf("the records build up %s, the table has %s", got, want)
	}
}
