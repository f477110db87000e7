package encode

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Compaction may lose a value only where the log may lack it and the topic is compacted.
func TestCheckUnavailable(t *testing.T) {
	table := func(change func(*schema.Table)) *schema.Table {
		u := ordersTable()
		u.Columns[1].External = true
		change(u)
		return u
	}
	same := func(*schema.Table) {}
	for name, tc := range map[string]struct {
		table  *schema.Table
		policy string
		warns  bool
	}{
		"compacted":             {table(same), "compact", true},
		"compacted and deleted": {table(same), "compact,delete", true},
		"deleted":               {table(same), "delete", false},
		"full":                  {table(func(u *schema.Table) { u.Identity = "full" }), "compact", false},
		"nothing large":         {table(func(u *schema.Table) { u.Columns[1].External = false }), "compact", false},
		"only the key":          {table(func(u *schema.Table) { u.Columns[1].External, u.Columns[0].External = false, true }), "compact", false},
	} {
		got := CheckUnavailable(tc.table, "shop.public.orders", tc.policy)
		if (got != "") != tc.warns || tc.warns && !strings.Contains(got, "(columns customer, ") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The stream's own topics hold nothing else.
func TestTransactionTopicIsItsOwn(t *testing.T) {
	for _, c := range []struct {
		topic, override, want string
	}{
		{"", "shop.transaction", "the stream's transactions"},
		{"shop.message", "", "topic.transaction"},
		{"shop.__generations", "", "topic.transaction"},
		{"", "", ""},
	} {
		r := newRig(t, func(cfg *Config) {
			cfg.Transactions, cfg.TransactionTopic = true, c.topic
			if c.override != "" {
				cfg.Overrides = map[string]string{"public.orders": c.override}
			}
		})
		err := r.Prepare(context.Background(), 1, []*schema.Table{ordersTable()}, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || connectors.ClassOf(err) != connectors.ClassRefused || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("topic %q, override %q: %v", c.topic, c.override, err)
		}
	}
}
