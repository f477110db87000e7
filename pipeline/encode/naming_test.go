package encode

import (
	"strings"
	"testing"

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
