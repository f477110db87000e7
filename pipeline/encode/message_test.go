package encode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
)

// A TRUNCATE is one record in each partition, all with one pair, between the rows before and after it;
// a message is a record of its own topic with an ordinal of its own. Case 53.
func TestTruncatesAndMessages(t *testing.T) {
	table, keyless := ordersTable(), logTable()
	message := func(prefix, content string, transactional bool) connectors.Change {
		return connectors.Change{Op: connectors.OpMessage, Message: &connectors.Message{Prefix: prefix, Content: []byte(content), Transactional: transactional}}
	}
	r := newRig(t, nil)
	r.topics.info["shop.public.orders"] = pipeline.TopicInfo{Partitions: 3}
	r.topics.info["shop.public.log"] = pipeline.TopicInfo{Partitions: 2}
	r.prepare(t, 4, nil, table)
	c, err := r.encode(
		connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "Åsa")},
		message("app", "one", true),
		connectors.Change{Op: connectors.OpTruncate, Table: table},
		connectors.Change{Op: connectors.OpTruncate, Table: keyless},
		connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "Åsa")},
		message("app", "", false),
		message("größe", "\x00\xff", true),
		connectors.Change{Op: connectors.OpTruncate, Table: table},
	)
	if err != nil {
		t.Fatal(err)
	}
	path, got := filepath.Join("testdata", "truncate-message.txt"), r.dump(t, c)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
	for _, e := range c.Entries {
		if name, _ := e.Partition.Text("table"); name == "message" {
			t.Error("messages are no table of the source, but have an entry")
		}
	}
	// Truncates are no version of the table's values: the next one would be judged against them.
	for subject, want := range map[string]int{"shop.public.orders-value": 1, "shop.public.orders-truncate-value": 1} {
		n := 0
		for known := range r.registry.ids {
			if text, ok := strings.CutPrefix(known, subject); ok && strings.HasPrefix(text, "{") {
				n++
			}
		}
		if n != want {
			t.Errorf("subject %s has %d schemas, want %d", subject, n, want)
		}
	}
	again, err := r.encode(message("app", "one", true))
	if err != nil || len(again.Records) != 1 || len(r.topics.forgotten) != 2 {
		t.Errorf("the topic of the messages was asked for %v: %v", r.topics.forgotten, err)
	}
}

func TestTruncatesAndMessagesBlock(t *testing.T) {
	table := ordersTable()
	large := connectors.Change{Op: connectors.OpMessage, Message: &connectors.Message{Prefix: "app", Content: []byte(strings.Repeat("secret", 200_000))}}
	for name, tc := range map[string]struct {
		policy string
		change connectors.Change
		want   string
	}{
		"compacted topic": {"compact", connectors.Change{Op: connectors.OpTruncate, Table: table}, "skipped.operations=t"},
		"large message":   {"delete", large, "max.request.size"},
	} {
		r := newRig(t, nil)
		r.topics.info["shop.public.orders"] = pipeline.TopicInfo{Partitions: 3, CleanupPolicy: tc.policy}
		r.prepare(t, 4, nil, table)
		_, err := r.encode(tc.change)
		if err == nil || connectors.ClassOf(err) != connectors.ClassBlock || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v (%s)", name, err, connectors.ClassOf(err))
		}
	}
	r := newRig(t, func(c *Config) { c.Overrides = map[string]string{"public.x": "shop.message"} })
	x := &schema.Table{Namespace: "public", Name: "x"}
	if problems := r.CheckNames([]*schema.Table{x}); len(problems) != 1 || !strings.Contains(problems[0].Error(), "logical messages") {
		t.Errorf("a table with the topic of the messages: %v", problems)
	}
}
