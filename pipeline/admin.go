package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// Admin changes the stored offsets of a stopped connector. Every change fences first, so that a
// worker that still runs loses and stops, and commits in one Kafka transaction.
type Admin struct {
	Sink             Sink
	Store            Store
	Server           string // as in Config
	Connector        string
	Group            string
	GenerationsTopic string
}

func (a Admin) config() *Config {
	return &Config{Server: a.Server, Connector: a.Connector, Group: a.Group, GenerationsTopic: a.GenerationsTopic}
}

func (a Admin) fence(ctx context.Context) ([]offsets.Entry, error) {
	if err := a.Sink.Fence(ctx); err != nil {
		return nil, fmt.Errorf("take over from a running worker: %w", err)
	}
	stored, err := a.Store.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("load offsets: %w", err)
	}
	return stored, a.config().checkOwner(stored)
}

// Reset removes the stream's boundary and the state of its tables. The generation's entry stays: the
// next start raises it; so does the table set, whose changes the log may still hold. It returns the entries that were removed.
func (a Admin) Reset(ctx context.Context) (removed []offsets.Entry, err error) {
	stored, err := a.fence(ctx)
	if err != nil {
		return nil, err
	}
	generation, set := offsets.GenerationPartition(a.Server), offsets.SetPartition(a.Server)
	var tombstones []offsets.Entry
	for _, e := range stored {
		if e.Partition.Equal(generation) || e.Partition.Equal(set) {
			continue
		}
		removed = append(removed, e)
		tombstones = append(tombstones, offsets.Entry{Partition: e.Partition})
	}
	if len(removed) == 0 {
		return nil, errors.New("there are no offsets to remove")
	}
	if err := a.Sink.Commit(ctx, tombstones...); err != nil {
		return nil, fmt.Errorf("commit the removed offsets: %w", err)
	}
	return removed, nil
}

// Set replaces the stream's boundary and begins the next generation, at start, with its activation
// record. Where no generation is stored the next start numbers it.
func (a Admin) Set(ctx context.Context, boundary offsets.Object, start string) (generation int64, err error) {
	stored, err := a.fence(ctx)
	if err != nil {
		return 0, err
	}
	cfg := a.config()
	entries := []offsets.Entry{cfg.streamEntry(boundary)}
	if o, ok := offsets.Find(stored, offsets.GenerationPartition(a.Server)); ok {
		g, err := offsets.GenerationFrom(o)
		if err != nil {
			return 0, connectors.Refuse(fmt.Errorf("the stored generation of connector %q cannot be used: %w", a.Connector, err))
		}
		next := offsets.Generation{Number: g.Number + 1, Start: start}
		generation = next.Number
		if err := a.Sink.Write(ctx, cfg.activation(next)); err != nil { // the chunk carries the generation's entry
			return 0, fmt.Errorf("write the activation record: %w", err)
		}
	}
	if err := a.Sink.Commit(ctx, entries...); err != nil {
		return 0, fmt.Errorf("commit the new offset: %w", err)
	}
	return generation, nil
}
