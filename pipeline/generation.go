package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// generation returns the generation that applies and whether it begins now.
//
// A generation begins where none is stored, or where the stream's boundary was removed: then
// it is the highest one known, stored or seen in the data topics, plus 1. None that begins here
// is a baseline unless the source says so: a baseline holds the whole content of its tables (initial snapshot, reset).
// The first one is active from its begin; a later one is built aside and activated when it is whole, since activating it
// sets all earlier ones aside. While no baseline was ever activated, every activated generation is active.
func (c *Config) generation(ctx context.Context, stored []offsets.Entry, opened connectors.Opened) (g offsets.Generation, begins bool, err error) {
	if o, ok := offsets.Find(stored, offsets.GenerationPartition(c.Server)); ok {
		if g, err = offsets.GenerationFrom(o); err != nil {
			return g, false, connectors.Refuse(fmt.Errorf("the stored generation of connector %q cannot be used: %w", c.Connector, err))
		}
		if _, ok := offsets.Find(stored, offsets.StreamPartition(c.Server)); ok && !opened.Renew {
			return g, false, c.checkNewest(ctx, g)
		}
	}
	highest, err := c.Generations.Highest(ctx, opened.Tables)
	if err != nil {
		return g, false, fmt.Errorf("find the highest generation in the data topics: %w", err)
	}
	earlier := max(highest, g.Number)
	return offsets.Generation{Number: earlier + 1, Start: opened.Start, Baseline: opened.Baseline, Building: opened.Baseline && earlier > 0}, true, nil
}

// checkNewest refuses a generation that is not the newest of its topics: whoever began the newer one keeps its offsets
// elsewhere, and the records of two streams would mix. An activation commits with the offsets, so ours is never ahead of them.
func (c *Config) checkNewest(ctx context.Context, g offsets.Generation) error {
	highest, err := c.Generations.Highest(ctx, nil) // the activation records alone
	if err != nil {
		return fmt.Errorf("find the newest generation: %w", err)
	}
	if highest <= g.Number {
		return nil
	}
	return connectors.Refuse(fmt.Errorf("topic %s says that generation %d has begun, and the stored offsets are of generation %d: another worker publishes under topic.prefix %q with another offsets topic, or an old offsets topic was put back; stop that worker or choose another topic.prefix, then connectctl offsets set (or reset) begins the next generation",
		c.GenerationsTopic, highest, g.Number, c.Server))
}

// activation fills a chunk with the record that begins a generation, in the generations topic:
//
//	key   {"gen":1}
//	value {"gen":1,"start":{"lsn":"0/15D6A30"},"baseline":false}
//
// Both are compact JSON with members in this order; start is null where the source names no
// position. The record has no headers and goes to partition 0. It commits with the generation's first offsets entries, that
// of a later baseline when it is whole: until then there is the generation's entry alone.
func (c *Config) activation(g offsets.Generation) *Chunk {
	start := g.Start
	if !json.Valid([]byte(start)) {
		start = "null"
	}
	n := strconv.FormatInt(g.Number, 10)
	made := &Chunk{Entries: []offsets.Entry{{Partition: offsets.GenerationPartition(c.Server), Offset: g.Object()}}}
	if !g.Building {
		made.Records = []Record{{
			Topic:     c.GenerationsTopic,
			Key:       []byte(`{"gen":` + n + `}`),
			Value:     []byte(`{"gen":` + n + `,"start":` + start + `,"baseline":` + strconv.FormatBool(g.Baseline) + `}`),
			Timestamp: nowMillis(),
		}}
	}
	return made
}

// streamEntry is the stream's entry: its owner, then the source's own members.
func (c *Config) streamEntry(boundary offsets.Object) offsets.Entry {
	o := make(offsets.Object, 0, len(boundary)+2)
	o = append(o, offsets.Field{Name: offsets.FieldGroup, Value: c.Group}, offsets.Field{Name: offsets.FieldConnector, Value: c.Connector})
	for _, f := range boundary {
		if f.Name != offsets.FieldGroup && f.Name != offsets.FieldConnector {
			o = append(o, f)
		}
	}
	return offsets.Entry{Partition: offsets.StreamPartition(c.Server), Offset: o}
}

// checkOwner refuses offsets of a worker that ours would not fence: the transactional id is made of group and connector.
func (c *Config) checkOwner(stored []offsets.Entry) error {
	o, ok := offsets.Find(stored, offsets.StreamPartition(c.Server))
	if !ok {
		return nil
	}
	group, _ := o.Text(offsets.FieldGroup)
	if group == "" || group == c.Group {
		return nil
	}
	return connectors.Refuse(fmt.Errorf("the offsets of connector %q were written under group.id %q, this worker has %q: it would not fence a worker of the other group; set group.id to %q",
		c.Connector, group, c.Group, group))
}
