package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/snapshot"
)

// Summary is what a bounded run has done.
type Summary struct {
	Connector    string `json:"connector"`
	Transactions int64  `json:"transactions"` // source transactions with something to publish
	Changes      int64  `json:"changes"`      // of the stream
	Rows         int64  `json:"rows"`         // read from tables
	Tables       int    `json:"tables"`       // read to their end
	Failed       int    `json:"failed_tables"`
	Records      int64  `json:"records"` // published
	From         string `json:"from"`    // boundary that was stored, or where the stream begins
	To           string `json:"to"`      // boundary that is stored and acknowledged
	Millis       int64  `json:"duration_ms"`
}

// String is the summary in one line.
func (s Summary) String() string {
	text := fmt.Sprintf("connector %s is current: %d source transactions with %d changes", s.Connector, s.Transactions, s.Changes)
	if s.Rows > 0 || s.Tables > 0 {
		text += fmt.Sprintf(", %d rows read from %d tables", s.Rows, s.Tables)
	}
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d tables not read to their end", s.Failed)
	}
	return text + fmt.Sprintf(", %d records; from %s to %s in %s", s.Records, s.From, s.To, time.Duration(s.Millis)*time.Millisecond)
}

// bounded counts what a run does that ends by itself, and ends it at a marker where it has one. It is one of the pipeline's hooks.
type bounded struct {
	marker   bool
	mu       sync.Mutex
	sources  []*snapshot.Source // one for each start
	records  int64
	from, to string
}

var (
	_ pipeline.CommitHook = (*bounded)(nil)
	_ pipeline.AckHook    = (*bounded)(nil)
)

// boundedOf finds the one among the hooks, nil where there is none.
func boundedOf(hooks []any) *bounded {
	for _, h := range hooks {
		if b, ok := h.(*bounded); ok {
			return b
		}
	}
	return nil
}

// TransactionCommitted counts records; that of a generation's begin is none of the tables'.
func (b *bounded) TransactionCommitted(c pipeline.Committed) {
	if c.Transactions == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records += int64(c.Records)
}

// BoundaryAcknowledged follows the boundary; the first is the start's.
func (b *bounded) BoundaryAcknowledged(o offsets.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, ok := o.Text("boundary_lsn")
	if !ok {
		text = string(o.AppendJSON(nil))
	}
	if b.to = text; b.from == "" {
		b.from = text
	}
}

func (b *bounded) took(s *snapshot.Source) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sources = append(b.sources, s)
}

func (b *bounded) summary(name string, took time.Duration) Summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := Summary{Connector: name, Records: b.records, From: b.from, To: b.to, Millis: took.Milliseconds()}
	for i, s := range b.sources {
		one := s.Summary()
		out.Transactions, out.Changes, out.Rows, out.Tables = out.Transactions+one.Transactions, out.Changes+one.Changes, out.Rows+one.Rows, out.Tables+one.Tables
		if i == len(b.sources)-1 { // an earlier start's was begun again
			out.Failed = one.Failed
		}
	}
	return out
}

// RunUntilCurrent runs until everything is published that was committed in the database when the run began, and every
// table is read whose reading was begun. The summary counts what was read; after a start that failed some of it was read again.
func (c *Connector) RunUntilCurrent(ctx context.Context, log *slog.Logger, report connectors.Reporter, hooks ...any) (Summary, error) {
	return c.runBounded(ctx, &bounded{marker: true}, log, report, hooks)
}

// ReadsTablesOnly reports whether the connector ends by itself once its tables are read (snapshot.mode=initial_only).
func (c *Connector) ReadsTablesOnly() bool {
	return strings.EqualFold(c.Config.String("snapshot.mode"), snapshot.ModeInitialOnly)
}

// RunTables runs a connector that only reads tables.
func (c *Connector) RunTables(ctx context.Context, log *slog.Logger, report connectors.Reporter, hooks ...any) (Summary, error) {
	return c.runBounded(ctx, &bounded{}, log, report, hooks)
}

func (c *Connector) runBounded(ctx context.Context, b *bounded, log *slog.Logger, report connectors.Reporter, hooks []any) (Summary, error) {
	began := time.Now()
	err := c.Run(ctx, log, report, append(hooks[:len(hooks):len(hooks)], b)...)
	return b.summary(c.Name(), time.Since(began)), err
}
