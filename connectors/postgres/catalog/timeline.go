package catalog

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"
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

// EndOf returns where the timeline ended on this lineage.
func (h TimelineHistory) EndOf(timeline int32) (pgoutput.LSN, bool) {
	for _, s := range h {
		if s.Timeline == timeline {
			return s.LSN, true
		}
	}
	return 0, false
}

// ReadTimelineHistory fetches the history of a timeline with TIMELINE_HISTORY. Timeline 1 has none.
func ReadTimelineHistory(ctx context.Context, repl *pgconn.PgConn, timeline int32) (TimelineHistory, error) {
	if timeline <= 1 {
		return nil, nil
	}
	file, err := pglogrepl.TimelineHistory(ctx, repl, timeline)
	if err != nil {
		return nil, fmt.Errorf("read the history of timeline %d: %w", timeline, err)
	}
	return ParseTimelineHistory(file.Content)
}

// ParseTimelineHistory reads the text of a history file: lines of timeline, tab, LSN, tab,
// reason; # begins a comment (PostgreSQL: src/backend/access/transam/timeline.c).
func ParseTimelineHistory(content []byte) (TimelineHistory, error) {
	var history TimelineHistory
	for i, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return nil, fmt.Errorf("timeline history, line %d: %q is not a timeline and an LSN", i+1, line)
		}
		timeline, err := strconv.ParseInt(fields[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("timeline history, line %d: %q is not a timeline", i+1, fields[0])
		}
		lsn, err := pgoutput.ParseLSN(fields[1])
		if err != nil {
			return nil, fmt.Errorf("timeline history, line %d: %w", i+1, err)
		}
		if n := len(history); n > 0 && (history[n-1].Timeline >= int32(timeline) || history[n-1].LSN > lsn) {
			return nil, fmt.Errorf("timeline history, line %d: timeline %d at %s does not follow timeline %d at %s", i+1, timeline, lsn, history[n-1].Timeline, history[n-1].LSN)
		}
		history = append(history, TimelineSwitch{int32(timeline), lsn, strings.Join(fields[2:], " ")})
	}
	return history, nil
}
