package integration

import (
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// A TRUNCATE that blocks goes on at its place once it is published or passed over, and stands in every partition between the
// rows before it and those after. Case 53.
func TestTruncateIsPublished(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		for operations, truncates := range map[string]int{"none": 3, "t": 0} {
			s := stream(t, major, harness.Options{
				Setup:     []string{"CREATE TABLE a(id int PRIMARY KEY, v text)"},
				Connector: map[string]string{"topic.creation.default.partitions": "3"},
			})
			w := s.Run()
			s.SQL("INSERT INTO a SELECT g, 'before' FROM generate_series(1, 20) g")
			s.CaughtUp(soon)
			s.SQL("BEGIN; INSERT INTO a VALUES (21, 'before'); TRUNCATE a; INSERT INTO a SELECT g, 'after' FROM generate_series(1, 20) g; COMMIT")
			if code := w.Wait(soon); code != connectorBlocked || !strings.Contains(w.Message(), "skipped.operations") {
				t.Fatalf("code %d: %s", code, w.Message())
			}
			s.SlotFree()
			s.Configure(map[string]string{"skipped.operations": operations, "topic.creation.default.partitions": "3"})
			w = s.Run()
			s.CaughtUp(soon)
			w.Stop()
			found, after := 0, map[int32]bool{}
			for _, r := range s.Records(harness.Committed) {
				if r.Topic != s.Topic("public", "a") {
					continue
				}
				if r.Op == 't' {
					found++
					after[r.Partition] = true
					if r.Key != nil || r.Seq != 1 {
						t.Errorf("%s: truncate with key %x and ordinal %d", operations, r.Key, r.Seq)
					}
					continue
				}
				v, err := s.Decoder.Decode(r.Value)
				if err != nil {
					t.Fatal(err)
				}
				if text := *v.Columns["v"]; truncates > 0 && (text == "after") != after[r.Partition] {
					t.Errorf("%s: row %s in partition %d, the TRUNCATE before it: %t", operations, text, r.Partition, after[r.Partition])
				}
			}
			if found != truncates {
				t.Errorf("%s: %d records of the TRUNCATE, want %d", operations, found, truncates)
			}
			s.Verify()
		}
	})
}
