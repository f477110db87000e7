package assembly

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline/snapshot"
)

// sources makes the connector's sources: the engine's, with snapshots around it where the engine can read tables.
func (p *parts) sources(hooks []any) func() (connectors.Source, error) {
	c, log, report := p.c, p.log, p.report
	cfg := c.snapshots(log, report, hooks)
	end := boundedOf(hooks)
	cfg.UntilCurrent = end != nil && end.marker
	p.signals(&cfg)
	return func() (connectors.Source, error) {
		inner, err := c.engine.source(c.Config, c.identity(), log, report)
		if err != nil {
			return nil, err
		}
		if s, ok := inner.(connectors.Snapshotter); ok {
			made := snapshot.New(cfg, s)
			if end != nil {
				end.took(made)
			}
			return made, nil
		}
		if cfg.Mode != snapshot.ModeNoData && cfg.Mode != snapshot.ModeNever {
			return nil, connectors.Refuse(fmt.Errorf("snapshot.mode: connectors of class %s cannot read tables; set it to no_data", c.engine.name))
		}
		if cfg.UntilCurrent {
			return nil, connectors.Refuse(fmt.Errorf("connectors of class %s cannot tell when they are current: run without --until-current", c.engine.name))
		}
		return inner, nil
	}
}

// snapshots says what is read of tables.
func (c *Connector) snapshots(log *slog.Logger, report connectors.Reporter, hooks []any) snapshot.Config {
	cfg := c.Config
	of := snapshot.Config{
		Server: cfg.String("topic.prefix"), Mode: strings.ToLower(cfg.String("snapshot.mode")), Run: rand.Text(),
		ChunkSize: int(cfg.Int("incremental.snapshot.chunk.size")), RowsPerSecond: int(cfg.Int("snapshot.max.rows.per.second")), Threads: int(cfg.Int("snapshot.max.threads")),
		Report: report, Log: log,
	}
	if c.engine.snapshotTables != nil {
		of.Tables = c.engine.snapshotTables(cfg)
	}
	var all observers
	for _, h := range hooks {
		if o, ok := h.(snapshot.Observer); ok {
			all = append(all, o)
		}
	}
	if len(all) > 0 {
		of.Observer = all
	}
	return of
}

// observers tells each of them.
type observers []snapshot.Observer

func (all observers) Observe(s snapshot.Status) {
	for _, o := range all {
		o.Observe(s)
	}
}
