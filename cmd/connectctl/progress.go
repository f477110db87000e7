package main

import (
	"os"
	"strings"
	"sync"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/terminal"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/metrics"
	"github.com/tidemark-cdc/tidemark/pipeline/snapshot"
)

// newBars shows how far tables are read: as bars where text goes to a terminal, else in the log.
func newBars(format string) *terminal.Bars {
	if is, _ := terminal.Size(os.Stderr); !is || !strings.EqualFold(format, "text") {
		return terminal.NewBars(os.Stderr, nil)
	}
	return terminal.NewBars(os.Stderr, func() int {
		_, width := terminal.Size(os.Stderr)
		return width
	})
}

// reading passes on how far one connector's tables are read. It is a hook of the connector.
type reading struct {
	name string
	bars *terminal.Bars

	mu   sync.Mutex
	last []snapshot.TableStatus
}

func newReading(name string, bars *terminal.Bars, count *metrics.Connector) *reading {
	r := &reading{name: name, bars: bars}
	count.Tables(r.metrics)
	return r
}

// Observe implements snapshot.Observer.
func (r *reading) Observe(s snapshot.Status) {
	r.mu.Lock()
	r.last = s.Tables
	r.mu.Unlock()
	r.bars.Show(r.name, s.Paused, barsOf(s.Tables))
}

func (r *reading) metrics() []metrics.Table {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]metrics.Table, len(r.last))
	for i, t := range r.last {
		out[i] = metrics.Table{Name: t.Table, Rows: t.Rows, Total: t.Total, Again: t.Again, Chunk: int64(t.Chunk), Open: isOpen(t.State)}
	}
	return out
}

func isOpen(state string) bool { return (&offsets.Progress{State: state}).Open() }

func barsOf(tables []snapshot.TableStatus) []terminal.Table {
	out := make([]terminal.Table, len(tables))
	for i, t := range tables {
		out[i] = terminal.Table{Name: t.Table, Rows: t.Rows, Total: t.Total, Rate: t.Rate, Left: t.Left, Open: isOpen(t.State), Reason: t.Reason}
	}
	return out
}
