package assembly

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/snapshot"
)

// TableSet is a connector's table set as stored: names added to the configured lists and removed from them.
type TableSet struct {
	Version        int64    `json:"version"`
	Added, Removed []string `json:"-"`
}

// CapturedTable is a table of the set with what is stored of it.
type CapturedTable struct {
	postgres.CapturedTable
	Topic    string
	Snapshot offsets.Progress
}

// TableSet reads the set among stored entries.
func (c *Connector) TableSet(stored []offsets.Entry) (s TableSet, err error) {
	s.Version, s.Added, s.Removed, err = postgres.SetOf(c.identity().server, stored)
	return s, err
}

// CapturedTables lists the tables of the set as the database has them now.
func (c *Connector) CapturedTables(ctx context.Context, stored []offsets.Entry) ([]CapturedTable, error) {
	if c.engine.captured == nil {
		return nil, fmt.Errorf("connectors of class %s have no table set", c.engine.name)
	}
	server := c.identity().server
	tables, err := c.engine.captured(ctx, c.Config, server, stored)
	if err != nil {
		return nil, err
	}
	p, err := c.open(slog.New(slog.DiscardHandler), func(connectors.State) {})
	if err != nil {
		return nil, err
	}
	defer p.close()
	enc, err := p.encoder()
	if err != nil {
		return nil, err
	}
	out := make([]CapturedTable, len(tables))
	for i, t := range tables {
		out[i] = CapturedTable{CapturedTable: t, Topic: enc.Topic(t.Table)}
		if o, ok := offsets.Find(stored, offsets.TablePartition(server, t.Table.QualifiedName())); ok {
			state, err := offsets.TableStateFrom(o)
			if err != nil {
				return nil, err
			}
			out[i].Topic, out[i].Snapshot = state.Topic, state.Snapshot
		}
	}
	return out, nil
}

// Outcome finds what became of a signal among stored entries.
func (c *Connector) Outcome(stored []offsets.Entry, id string) (o snapshot.Outcome, found bool, err error) {
	state, err := snapshot.ReadStored(c.identity().server, stored)
	if err != nil {
		return o, false, err
	}
	for _, o := range state.Results {
		if o.ID == id {
			return o, true, nil
		}
	}
	return o, false, nil
}
