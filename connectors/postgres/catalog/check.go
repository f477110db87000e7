package catalog

import (
	"context"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// Selector is one member of a table include list.
type Selector struct {
	Text    string // as configured
	Matches func(schema, table string) bool
}

// CheckConfig is what Check looks at.
type CheckConfig struct {
	Conn        ConnConfig
	Slot        string
	Failover    bool
	HasOffsets  bool              // the stream has stored offsets: its slot must exist
	Publication PublicationConfig // Tables is filled in by Check
	// Captured tells whether a table is in the connector's set; nil: all.
	Captured   func(schema, table string) bool
	Include    []Selector                          // members of table.include.list
	KeyColumns func(schema, table string) []string // message.key.columns of a table; nil: none
}

// Check looks at everything a start would need and returns every problem at once; it changes
// nothing. It goes on past whatever fails.
func Check(ctx context.Context, cfg CheckConfig) []connectors.Problem { return nil }
