package catalog

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// TimelineSwitch is one line of a timeline history file: Timeline ended at LSN on this lineage.
type TimelineSwitch struct {
	Timeline int32
	LSN      pgoutput.LSN
	Reason   string
}

// TimelineHistory is the ancestry of a timeline, oldest first; empty for timeline 1.
type TimelineHistory []TimelineSwitch

// ReadTimelineHistory fetches the history of a timeline with TIMELINE_HISTORY. Timeline 1 has none.
func ReadTimelineHistory(ctx context.Context, repl *pgconn.PgConn, timeline int32) (TimelineHistory, error) {
	return nil, errSoon
}

// ParseTimelineHistory reads the text of a history file (PostgreSQL: src/backend/access/transam/timeline.c).
func ParseTimelineHistory(content []byte) (TimelineHistory, error) { return nil, errSoon }
