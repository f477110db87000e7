package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
)

// guarantees says what a read_committed consumer sees, per delivery mode.
var guarantees = map[string]string{
	ModeTransactional: "every committed change once, in order; a crash at any point loses nothing and repeats nothing, as far as Kafka keeps what it acknowledged",
	ModeIdempotent:    "at least once: after a crash the last unrecorded batch may repeat, with the same positions; no fencing, so order holds with one running worker",
}

// Describe shows guarantee, what the brokers' settings miss for it, positions, tables and what the database says.
// What cannot be asked is said in its place.
func (c *Connector) Describe(ctx context.Context) ([]connectors.Fact, error) {
	p, err := c.open(slog.New(slog.DiscardHandler), func(connectors.State) {})
	if err != nil {
		return nil, err
	}
	defer p.close()
	mode := c.Config.String("delivery.mode")
	facts := []connectors.Fact{
		{Name: "connector", Value: fmt.Sprintf("%s (%s), topic prefix %s", c.Name(), c.engine.name, c.Config.String("topic.prefix"))},
		{Name: "guarantee", Value: mode + ": " + guarantees[mode]},
	}
	if mode == ModeTransactional {
		facts = append(facts, connectors.Fact{Name: "transactional id", Value: c.TransactionalID()})
	}
	facts = append(facts, c.describeKafka(ctx, p)...)
	db, err := c.engine.describe(ctx, c.Config)
	if err != nil {
		db = []connectors.Fact{{Name: "server", Value: err.Error()}}
	}
	return append(facts, db...), nil
}

func (c *Connector) describeKafka(ctx context.Context, p *parts) []connectors.Fact {
	if err := kafkaconf.Reach(ctx, p.consume); err != nil {
		return []connectors.Fact{{Name: "kafka", Value: err.Error()}}
	}
	stored, err := p.load(ctx)
	if err != nil {
		return []connectors.Fact{{Name: "offsets", Value: err.Error()}}
	}
	server := c.identity().server
	var facts []connectors.Fact
	topics := []string{c.offsetsTopic(), c.generationsTopic()}
	if o, ok := offsets.Find(stored, offsets.GenerationPartition(server)); ok {
		if g, err := offsets.GenerationFrom(o); err == nil {
			facts = append(facts, connectors.Fact{Name: "generation", Value: fmt.Sprintf("%d, from %s", g.Number, g.Start)})
		}
	}
	if o, ok := offsets.Find(stored, offsets.StreamPartition(server)); ok {
		for _, f := range o {
			facts = append(facts, connectors.Fact{Name: "offset " + f.Name, Value: fmt.Sprint(f.Value)})
		}
	} else {
		facts = append(facts, connectors.Fact{Name: "offset", Value: "none stored"})
	}
	for _, e := range SortEntries(stored) {
		if kind, _ := e.Partition.Text("kind"); kind != "table" {
			continue
		}
		t, err := offsets.TableStateFrom(e.Offset)
		if err != nil {
			facts = append(facts, connectors.Fact{Name: "table", Value: err.Error()})
			continue
		}
		topics = append(topics, t.Topic)
		facts = append(facts, connectors.Fact{Name: "table " + t.Name, Value: fmt.Sprintf("topic %s, %d partitions, key %s, replica identity %s", t.Topic, t.Partitions, t.KeyColumns, t.Identity)})
	}
	missing, err := p.topics.Guarantee(ctx, topics...)
	if err != nil {
		missing = []string{err.Error()}
	}
	if len(missing) == 0 {
		missing = []string{"nothing"}
	}
	for _, m := range grouped(missing) {
		facts = append(facts, connectors.Fact{Name: "brokers miss", Value: m})
	}
	return facts
}

// grouped joins sentences that say the same of several topics.
func grouped(missing []string) []string {
	names := map[string][]string{}
	var out []string
	for _, m := range missing {
		rest, ok := strings.CutPrefix(m, "topic ")
		name, what, cut := strings.Cut(rest, " ")
		if !ok || !cut {
			out = append(out, m)
			continue
		}
		if names[what] == nil {
			out = append(out, what)
		}
		names[what] = append(names[what], name)
	}
	for i, what := range out {
		switch list := names[what]; {
		case len(list) == 1:
			out[i] = "topic " + list[0] + " " + what
		case len(list) > 4:
			out[i] = fmt.Sprintf("%s and %d more topics, each: %s", strings.Join(list[:3], ", "), len(list)-3, what)
		case len(list) > 1:
			out[i] = "topics " + strings.Join(list, ", ") + ", each: " + what
		}
	}
	return out
}
