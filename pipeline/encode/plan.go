package encode

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// table is what stays the same for a table within a start, whatever its versions.
type table struct {
	name    string // qualified
	topic   string
	info    pipeline.TopicInfo
	keyID   int    // 0 where the key's converter needs no registry
	keyText string // what the key's bytes depend on; empty where keyless
	events  int64  // records of the transaction at hand
	stored  offsets.TableState
	// snapshot is how far this generation has read the table.
	snapshot offsets.Progress
	plan     *plan // of the newest version
}

// plan encodes the rows of one version of a table.
type plan struct {
	table      *schema.Table
	of         *table
	format     TableFormat
	keyed      bool
	valueID    int // 0 where the value's converter needs no registry
	limit      int // largest record in bytes
	truncate   TableFormat
	truncateID int
	limitCause string // what to raise where a record is larger
	state      offsets.TableState
}

// Prepare checks names, topics and keys of the tables before anything is read, and forgets what the last start has written.
func (e *Encoder) Prepare(ctx context.Context, generation int64, tables []*schema.Table, stored []offsets.Entry) error {
	e.generation = generation
	e.genText = fmt.Appendf(nil, "%d", generation)
	e.tables, e.plans, e.topics, e.last = map[string]*table{}, map[*schema.Table]*plan{}, map[string]taken{}, nil
	e.messages = nil
	e.stored = map[string]offsets.TableState{}
	for _, s := range stored {
		if kind, _ := s.Partition.Text("kind"); kind != "table" || s.Offset == nil {
			continue
		}
		state, err := offsets.TableStateFrom(s.Offset)
		if err != nil {
			return connectors.Refuse(err)
		}
		e.stored[state.Name] = state
	}
	for _, t := range tables { // names first: they need no server, and all are told before any topic is made
		if err := e.checkNames(t); err != nil {
			return connectors.Refuse(err)
		}
		e.take(e.Topic(t), t)
	}
	e.ensureTopics(ctx, tables)
	for _, t := range tables {
		if _, err := e.open(ctx, t); err != nil {
			return err
		}
	}
	return e.openBrackets(ctx)
}

// topicsAtOnce bounds the topics that are looked up or created side by side: one after the other, hundreds take minutes.
const topicsAtOnce = 8

// ensureTopics asks for all topics anew. What goes wrong is met again, and told, where the table is opened.
func (e *Encoder) ensureTopics(ctx context.Context, tables []*schema.Table) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(topicsAtOnce)
	for _, t := range tables {
		topic, used := e.Topic(t), e.used(t)
		e.cfg.Topics.Forget(topic)
		g.Go(func() error {
			_, err := e.cfg.Topics.Ensure(ctx, topic, used)
			return err
		})
	}
	_ = g.Wait()
}

// used tells whether this generation has written to a table's topic.
func (e *Encoder) used(t *schema.Table) bool {
	stored := e.stored[t.QualifiedName()]
	return stored.Generation == e.generation && stored.Topic == e.Topic(t)
}

func (e *Encoder) checkNames(t *schema.Table) error {
	if err := e.cfg.Format.Check(t); err != nil {
		return err
	}
	return e.checkTopic(t, e.Topic(t))
}

// open makes a table known: its topic exists and takes its records, its key schema has its id,
// and both are what they were when the generation first used the table.
func (e *Encoder) open(ctx context.Context, t *schema.Table) (*table, error) {
	name := t.QualifiedName()
	of := &table{name: name, topic: e.Topic(t), stored: e.stored[name]}
	if of.stored.Generation == e.generation {
		of.snapshot = of.stored.Snapshot
	}
	var err error
	if of.info, err = e.cfg.Topics.Ensure(ctx, of.topic, e.used(t)); err != nil {
		return nil, err
	}
	if len(t.Key) == 0 {
		if err := CheckKeyless(t, of.topic, of.info.CleanupPolicy); err != nil {
			return nil, connectors.Refuse(err)
		}
	} else {
		format, err := e.cfg.Format.Table(t)
		if err != nil {
			return nil, connectors.Block(err)
		}
		of.keyText = format.Schemas().Fixed
		if of.keyID, err = e.resolve(ctx, registry.KeySubject(of.topic), format.Schemas().Key); err != nil {
			return nil, err
		}
	}
	if err := e.checkDrift(t, of); err != nil {
		return nil, err
	}
	e.tables[name] = of
	e.take(of.topic, t)
	return of, nil
}

// checkDrift compares with the entry of this generation: keys must go on to the same partitions as the same bytes.
func (e *Encoder) checkDrift(t *schema.Table, of *table) error {
	was := of.stored
	if was.Generation != e.generation {
		return nil
	}
	const out = "keys would be scattered within the generation; undo it, or reset the connector for a new generation"
	switch {
	case was.Topic != of.topic:
		return connectors.Refuse(fmt.Errorf("table %s was published to topic %s in this generation, now to %s: set topic.prefix and topic.naming.overrides back, or reset the connector for a new generation", was.Name, was.Topic, of.topic))
	case was.Partitions != int64(of.info.Partitions):
		return connectors.Block(fmt.Errorf("topic %s of table %s has %d partitions, it had %d: %s", of.topic, was.Name, of.info.Partitions, was.Partitions, out))
	case was.KeySchemaID != int64(of.keyID) || of.keyID == 0 && (was.KeyColumns != keyColumns(t) || was.KeyTypes != t.KeyTypes()):
		return connectors.Block(fmt.Errorf("the key schema of table %s (%s %s) has id %d, it had %d (%s %s): %s", was.Name, keyColumns(t), t.KeyTypes(), of.keyID, was.KeySchemaID, was.KeyColumns, was.KeyTypes, out))
	}
	return nil
}

// use returns the plan of a table version at its first change.
func (e *Encoder) use(ctx context.Context, t *schema.Table) (*plan, error) {
	if p, ok := e.plans[t]; ok {
		return p, nil
	}
	name := t.QualifiedName()
	if err := e.checkNames(t); err != nil {
		return nil, connectors.Block(err)
	}
	of, ok := e.tables[name]
	if !ok {
		var err error
		if of, err = e.open(ctx, t); err != nil {
			return nil, blockRefused(err)
		}
	}
	p := &plan{table: t, of: of, keyed: len(t.Key) > 0}
	var err error
	if p.format, err = e.cfg.Format.Table(t); err != nil {
		return nil, connectors.Block(err)
	}
	if p.format.Schemas().Fixed != of.keyText {
		return nil, connectors.Block(fmt.Errorf("the key of table %s has changed (now %s %s): its schema, of which in the format debezium an enum's labels and a column's default are part, is fixed for the generation; undo the change, or reset the connector for a new generation", name, keyColumns(t), t.KeyTypes()))
	}
	before := ""
	if of.plan != nil {
		before = of.plan.format.Schemas().Value
	}
	if p.valueID, err = e.resolveValue(ctx, t, of.topic, before, p.format.Schemas().Value); err != nil {
		return nil, err
	}
	e.limit(p)
	if of.plan != nil {
		delete(e.plans, of.plan.table) // an older version does not come back
	}
	of.plan = p
	p.state = e.state(p)
	e.plans[t] = p
	return p, nil
}

// limit says how large a record of the plan may be.
func (e *Encoder) limit(p *plan) {
	p.limit, p.limitCause = e.cfg.MaxRequestSize, fmt.Sprintf("max.request.size (now %d) and the topic's max.message.bytes", e.cfg.MaxRequestSize)
	if n := p.of.info.MaxMessageBytes; n > 0 && n < p.limit {
		p.limit, p.limitCause = n, fmt.Sprintf("the topic's max.message.bytes (now %d)", n)
	}
}

// resolve asks for a schema's id and tells what blocks from what is waited for; 0 where there is none to ask for.
func (e *Encoder) resolve(ctx context.Context, subject, text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	id, err := e.cfg.Registry.Resolve(ctx, subject, text)
	if err != nil && registry.Blocks(err) {
		return 0, connectors.Block(err)
	}
	return id, err
}

// blockRefused turns what is refused at a start into a block: found later, it is in the log.
func blockRefused(err error) error {
	if connectors.ClassOf(err) == connectors.ClassRefused {
		return connectors.Block(err)
	}
	return err
}

// state returns the table's entry as of this version.
func (e *Encoder) state(p *plan) offsets.TableState {
	t := p.table
	return offsets.TableState{
		ID: t.ID, Name: t.QualifiedName(), KeyColumns: keyColumns(t), KeyTypes: t.KeyTypes(), Identity: t.Identity,
		KeySchemaID: int64(p.of.keyID), ValueSchemaID: int64(p.valueID), Topic: p.of.topic, Partitions: int64(p.of.info.Partitions), Generation: e.generation, Snapshot: p.of.snapshot,
	}
}

func keyColumns(t *schema.Table) string {
	b, err := json.Marshal(t.KeyColumns())
	if err != nil {
		return "[]" // strings always marshal
	}
	return string(b)
}
