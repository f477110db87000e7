// Package metrics counts what connectors do and shows it as Prometheus text over HTTP.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
)

// states are those a connector can be in.
var states = []string{"STARTING", "RUNNING", "WAITING", "BLOCKED", "FENCED", "STOPPED"}

// Registry holds the metrics of one process.
type Registry struct {
	reg   *prometheus.Registry
	now   func() time.Time
	sizes *tables

	transactions, records, bytes, acknowledged *prometheus.CounterVec
	commits                                    *prometheus.HistogramVec
	newest, ackTime, state                     *prometheus.GaugeVec
	lags                                       *lags
}

// New returns a registry with the process's own metrics and none of a connector.
func New() *Registry {
	label := []string{"connector"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, label)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append(label, labels...))
	}
	r := &Registry{
		reg: prometheus.NewRegistry(), now: time.Now,
		transactions: counter("tidemark_transactions_total", "Source transactions with records that were committed to Kafka."),
		records:      counter("tidemark_records_total", "Records committed to Kafka, without offsets."),
		bytes:        counter("tidemark_bytes_total", "Bytes of keys, values and headers of these records."),
		acknowledged: counter("tidemark_acknowledged_total", "Boundaries acknowledged to the database."),
		commits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidemark_commit_duration_seconds", Help: "Time of a Kafka transaction from its first record to the end of its commit.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900},
		}, label),
		newest:  gauge("tidemark_newest_commit_timestamp_seconds", "Commit time, by the database's clock, of the newest source transaction that was published."),
		ackTime: gauge("tidemark_acknowledged_timestamp_seconds", "When a boundary was last acknowledged to the database."),
		state:   gauge("tidemark_connector_state", "1 for the state the connector is in, 0 for the others.", "state"),
	}
	r.lags = &lags{of: map[string]int64{}, now: func() time.Time { return r.now() }}
	r.sizes = newTables()
	r.reg.MustRegister(r.transactions, r.records, r.bytes, r.acknowledged, r.commits, r.newest, r.ackTime, r.state, r.lags, r.sizes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Connector returns the metrics of one connector, all at zero. It is a hook of the pipeline.
func (r *Registry) Connector(name string) *Connector {
	c := &Connector{
		r: r, name: name,
		transactions: r.transactions.WithLabelValues(name), records: r.records.WithLabelValues(name), bytes: r.bytes.WithLabelValues(name),
		acknowledged: r.acknowledged.WithLabelValues(name), commits: r.commits.WithLabelValues(name),
	}
	c.State(connectors.State{Name: "STARTING"})
	return c
}

// Connector counts what one connector does. All methods may be called from any goroutine and do not block.
type Connector struct {
	r                                          *Registry
	name                                       string
	transactions, records, bytes, acknowledged prometheus.Counter
	commits                                    prometheus.Observer
}

var (
	_ pipeline.CommitHook = (*Connector)(nil)
	_ pipeline.AckHook    = (*Connector)(nil)
)

// TransactionCommitted counts a committed Kafka transaction.
func (c *Connector) TransactionCommitted(s pipeline.Committed) {
	c.transactions.Add(float64(s.Transactions))
	c.records.Add(float64(s.Records))
	c.bytes.Add(float64(s.Bytes))
	c.commits.Observe(s.Duration.Seconds())
	if s.SourceTime != 0 {
		c.r.newest.WithLabelValues(c.name).Set(float64(s.SourceTime) / 1e6)
		c.r.lags.set(c.name, s.SourceTime)
	}
}

// BoundaryAcknowledged counts an acknowledgement.
func (c *Connector) BoundaryAcknowledged(offsets.Object) {
	c.acknowledged.Inc()
	c.r.ackTime.WithLabelValues(c.name).Set(float64(c.r.now().UnixMilli()) / 1e3)
}

// State notes the state the connector is in.
func (c *Connector) State(s connectors.State) {
	for _, name := range states {
		v := 0.0
		if name == s.Name {
			v = 1
		}
		c.r.state.WithLabelValues(c.name, name).Set(v)
	}
}

// Tables sets where to ask, at each scrape, how far the connector's tables have been read; nil for nowhere.
func (c *Connector) Tables(ask func() []Table) { c.r.sizes.set(c.name, ask) }
