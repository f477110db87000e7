package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"sort"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/sink"
	"github.com/tidemark-cdc/tidemark/schema"
)

// engine is what a connector class stands for.
type engine struct {
	name     string
	classes  []string
	spec     connectors.Spec
	source   func(cfg connectors.Config, who identity, log *slog.Logger, report connectors.Reporter) (connectors.Source, error)
	check    func(ctx context.Context, cfg connectors.Config, hasOffsets bool) []connectors.Problem
	tables   func(ctx context.Context, cfg connectors.Config) ([]*schema.Table, []connectors.Problem, error)
	captured func(ctx context.Context, cfg connectors.Config, server string, stored []offsets.Entry) ([]postgres.CapturedTable, error) // nil: has no table set
	describe func(ctx context.Context, cfg connectors.Config) ([]connectors.Fact, error)
	// snapshotTables tells which tables, by qualified name, snapshots read that are not asked for by name; nil: all.
	snapshotTables func(cfg connectors.Config) func(name string) bool
	inUse          func(ctx context.Context, cfg connectors.Config) (string, error)
	slot           func(cfg connectors.Config) string // names the reader's place at its server
	checkReach     func(ctx context.Context, cfg connectors.Config, o offsets.Object) error
	checkOffset    func(o offsets.Object, group, connector string) (start string, canonical offsets.Object, err error)
}

// identity names a stream.
type identity struct{ group, connector, server string }

func engines() []engine {
	return []engine{{
		name:    "postgres",
		classes: []string{"postgres", "postgresql", "PostgresConnector", "io.debezium.connector.postgresql.PostgresConnector"},
		spec:    postgres.Spec(),
		source: func(cfg connectors.Config, who identity, log *slog.Logger, report connectors.Reporter) (connectors.Source, error) {
			return postgres.New(cfg, postgres.Options{Server: who.server, Group: who.group, Connector: who.connector, Report: report, Log: log,
				TextValues: strings.EqualFold(cfg.String("format"), FormatDebezium), EachTransaction: cfg.Bool("provide.transaction.metadata")})
		},
		check:          postgres.Check,
		tables:         postgres.Tables,
		describe:       postgres.Describe,
		snapshotTables: postgres.IncludesTable,
		captured:       postgres.CapturedTables,
		inUse: func(ctx context.Context, cfg connectors.Config) (string, error) {
			pid, err := postgres.ActivePID(ctx, cfg)
			if err != nil || pid == 0 {
				return "", err
			}
			return fmt.Sprintf("its slot is in use by pid %d", pid), nil
		},
		slot: func(cfg connectors.Config) string {
			return fmt.Sprintf("%s of %s:%s", cfg.String("slot.name"), cfg.String("database.hostname"), cfg.String("database.port"))
		},
		checkReach:  postgres.CheckReach,
		checkOffset: postgres.CheckOffset,
	}}
}

func engineOf(class string) (engine, error) {
	var known []string
	for _, e := range engines() {
		for _, c := range e.classes {
			if strings.EqualFold(c, strings.TrimSpace(class)) {
				return e, nil
			}
		}
		known = append(known, e.name)
	}
	return engine{}, fmt.Errorf("%q is not known; there is %s", class, strings.Join(known, ", "))
}

// Connector is a checked connector configuration together with its worker's.
type Connector struct {
	Path   string
	Config connectors.Config

	worker   *Worker
	engine   engine
	creation sink.Creation
	naming   map[string]string
}

// LoadConnector reads and checks a connector file for a worker.
func LoadConnector(w *Worker, path string) (*Connector, error) {
	c, problems, err := loadConnector(w, path)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, &ProblemsError{path, problems}
	}
	return c, nil
}

// loadConnector separates what is wrong with the file from what is wrong with its properties.
func loadConnector(w *Worker, path string) (*Connector, []connectors.Problem, error) {
	raw, written, err := load(path)
	if err != nil {
		return nil, nil, err
	}
	c, problems := parseConnector(w, path, raw)
	return c, redact(problems, raw, written), nil
}

// parseConnector checks the properties; the connector is nil where its class is not known.
func parseConnector(w *Worker, path string, raw map[string]string) (*Connector, []connectors.Problem) {
	spec := append(commonSpec(), sink.CreationSpec()...)
	e, classErr := engineOf(raw["connector.class"])
	if classErr == nil {
		spec = append(spec, e.spec...)
	}
	creationDefaults(raw)
	cfg, problems := spec.Parse(raw)
	if classErr != nil {
		if raw["connector.class"] != "" {
			return nil, []connectors.Problem{{Property: "connector.class", Message: classErr.Error()}}
		}
		if _, ok := raw["bootstrap.servers"]; ok {
			return nil, []connectors.Problem{{Property: "bootstrap.servers", Message: "this is a worker's file where a connector's is wanted; the worker's file comes first, or after --worker"}}
		}
		return nil, onlyKnown(problems)
	}
	c := &Connector{Path: path, Config: cfg, worker: w, engine: e}
	var more []connectors.Problem
	c.creation, more = sink.ParseCreation(cfg)
	problems = append(problems, more...)
	var err error
	if c.naming, err = parseNaming(cfg.List("topic.naming.overrides")); err != nil {
		problems = append(problems, connectors.Problem{Property: "topic.naming.overrides", Message: err.Error()})
	}
	if cfg.IsSet("exactly.once.support") && strings.EqualFold(cfg.String("exactly.once.support"), "required") && strings.EqualFold(cfg.String("delivery.mode"), ModeIdempotent) {
		problems = append(problems, connectors.Problem{Property: "exactly.once.support", Message: "is required, which delivery.mode=idempotent cannot give; remove one of them"})
	}
	if !cfg.Bool("tombstones.on.delete") && !cfg.Bool("deletes.on.delete") {
		problems = append(problems, connectors.Problem{Property: "deletes.on.delete", Message: "is off like tombstones.on.delete; a delete needs one of them; set one to true"})
	}
	problems = append(problems, checkFormat(cfg)...)
	problems = append(problems, checkSignals(cfg)...)
	if len(problems) == 0 {
		problems = c.unusable()
	}
	return c, problems
}

// unusable finds what only shows when the parts are made: properties that do not go together, files that
// cannot be read. Nothing is connected.
func (c *Connector) unusable() (problems []connectors.Problem) {
	log, report := slog.New(slog.DiscardHandler), func(connectors.State) {}
	if _, err := c.engine.source(c.Config, identity{}, log, report); err != nil {
		problems = append(problems, connectors.Problem{Message: err.Error()})
	}
	if c.worker == nil {
		return problems
	}
	p, err := c.open(log, report)
	if err != nil {
		return append(problems, connectors.Problem{Message: err.Error()})
	}
	p.close()
	return problems
}

// Exclusive returns what no other connector of a worker may have, by the property to change.
func (c *Connector) Exclusive() map[string]string {
	return map[string]string{"name": c.Name(), "topic.prefix": c.Config.String("topic.prefix"), "slot.name": c.engine.slot(c.Config)}
}

// onlyKnown drops "unknown property" where the class, and with it the engine's properties, is missing.
func onlyKnown(problems []connectors.Problem) []connectors.Problem {
	var out []connectors.Problem
	for _, p := range problems {
		if !strings.HasPrefix(p.Message, "unknown property") {
			out = append(out, p)
		}
	}
	return out
}

// creationDefaults creates missing topics with the brokers' defaults where the configuration says nothing else.
func creationDefaults(raw map[string]string) {
	for _, p := range []string{"topic.creation.default.partitions", "topic.creation.default.replication.factor"} {
		if _, ok := raw[p]; !ok {
			raw[p] = "-1"
		}
	}
}

// parseNaming reads topic.naming.overrides: schema.table:topic.
func parseNaming(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, item := range list {
		i := strings.LastIndexByte(item, ':')
		if i <= 0 {
			return nil, fmt.Errorf("%q is not schema.table:topic", item)
		}
		table, topic := item[:i], item[i+1:]
		if err := topicName(topic); err != nil {
			return nil, err
		}
		if _, twice := out[table]; twice {
			return nil, fmt.Errorf("table %s is given twice", table)
		}
		out[table] = topic
	}
	return out, nil
}

// Name returns the connector's name.
func (c *Connector) Name() string { return c.Config.String("name") }

func (c *Connector) identity() identity {
	return identity{group: c.worker.GroupID(), connector: c.Name(), server: c.Config.String("topic.prefix")}
}

// TransactionalID returns <group.id>-<connector>-0, as Kafka Connect names a task's.
func (c *Connector) TransactionalID() string {
	return c.worker.GroupID() + "-" + c.Name() + "-0"
}

func (c *Connector) offsetsTopic() string {
	if t := c.Config.String("offsets.storage.topic"); t != "" {
		return t
	}
	return c.worker.Config.String("offset.storage.topic")
}

func (c *Connector) generationsTopic() string {
	return c.Config.String("topic.prefix") + ".__generations"
}

// InUse tells who uses the connector's source now, empty where nobody does.
func (c *Connector) InUse(ctx context.Context) (string, error) { return c.engine.inUse(ctx, c.Config) }

// CheckReach asks the source whether it can still start at an offset.
func (c *Connector) CheckReach(ctx context.Context, o offsets.Object) error {
	return c.engine.checkReach(ctx, c.Config, o)
}

// CheckOffset checks an offset an operator wants to set.
func (c *Connector) CheckOffset(o offsets.Object) (start string, canonical offsets.Object, err error) {
	return c.engine.checkOffset(o, c.worker.GroupID(), c.Name())
}

// SortEntries orders entries for people: the stream, its generation, then the tables by name.
func SortEntries(entries []offsets.Entry) []offsets.Entry {
	out := append([]offsets.Entry(nil), entries...)
	rank := func(e offsets.Entry) string {
		kind, _ := e.Partition.Text("kind")
		table, _ := e.Partition.Text("table")
		return fmt.Sprintf("%d %s %s", len(e.Partition), kind, table)
	}
	sort.SliceStable(out, func(i, j int) bool { return rank(out[i]) < rank(out[j]) })
	return out
}
