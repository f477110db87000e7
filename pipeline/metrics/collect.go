package metrics

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// lags is the age of the newest published source transaction, by connector, as of the scrape.
type lags struct {
	now func() time.Time
	mu  sync.Mutex
	of  map[string]int64 // microseconds since the Unix epoch
}

var lagDesc = prometheus.NewDesc("tidemark_lag_seconds",
	"Now less the commit time of the newest source transaction that was published; on an idle database the time since its last change.", []string{"connector"}, nil)

func (l *lags) set(connector string, micros int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[connector] = micros
}

// Describe implements prometheus.Collector.
func (l *lags) Describe(to chan<- *prometheus.Desc) { to <- lagDesc }

// Collect implements prometheus.Collector.
func (l *lags) Collect(to chan<- prometheus.Metric) {
	l.mu.Lock()
	of := maps.Clone(l.of)
	l.mu.Unlock()
	for name, micros := range of {
		lag := max(0, l.now().Sub(time.UnixMicro(micros)).Seconds()) // the database's clock may be ahead
		to <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, lag, name)
	}
}

// Table is how far the newest snapshot of a table has come.
type Table struct {
	Name  string // qualified
	Rows  int64  // published
	Total int64  // estimate of all; -1: unknown
	Again int64  // rows read in vain
	Chunk int64  // rows of the last chunk
	Open  bool   // there is something left to read
}

// tables asks the connectors how far their tables have been read.
type tables struct {
	mu                            sync.Mutex
	ask                           map[string]func() []Table
	rows, total, again, chunk, to *prometheus.Desc
}

func newTables() *tables {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"connector", "table"}, nil)
	}
	return &tables{
		ask:   map[string]func() []Table{},
		rows:  desc("tidemark_snapshot_rows", "Rows that the table's newest snapshot has published."),
		total: desc("tidemark_snapshot_rows_estimated", "Estimate of all rows of the snapshot as it began; absent where unknown."),
		again: desc("tidemark_snapshot_rows_again_total", "Rows that were read in vain since the start: changed meanwhile, or with a chunk that was read again."),
		chunk: desc("tidemark_snapshot_chunk_rows", "Rows of the last chunk, as tuned; 0 where none was read since the start."),
		to:    desc("tidemark_snapshot_done", "1 where the table's newest snapshot has ended, 0 while it is read."),
	}
}

func (t *tables) set(connector string, ask func() []Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ask == nil {
		delete(t.ask, connector)
		return
	}
	t.ask[connector] = ask
}

// Describe implements prometheus.Collector.
func (t *tables) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.rows, t.total, t.again, t.chunk, t.to} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (t *tables) Collect(to chan<- prometheus.Metric) {
	t.mu.Lock()
	ask := maps.Clone(t.ask)
	t.mu.Unlock()
	for _, connector := range slices.Sorted(maps.Keys(ask)) {
		seen := map[string]bool{}
		for _, table := range ask[connector]() {
			if seen[table.Name] {
				continue
			}
			seen[table.Name] = true
			done := 1.0
			if table.Open {
				done = 0
			}
			for _, m := range []struct {
				desc  *prometheus.Desc
				kind  prometheus.ValueType
				value float64
			}{
				{t.rows, prometheus.GaugeValue, float64(table.Rows)}, {t.total, prometheus.GaugeValue, float64(table.Total)},
				{t.again, prometheus.CounterValue, float64(table.Again)}, {t.chunk, prometheus.GaugeValue, float64(table.Chunk)}, {t.to, prometheus.GaugeValue, done},
			} {
				if m.value >= 0 {
					to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value, connector, table.Name)
				}
			}
		}
	}
}
