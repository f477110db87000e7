package assembly

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
)

// Validate checks a connector file, its database, and, where a worker is given, Kafka and the schema
// registry, and returns every problem, warnings among them. The error is a file that cannot be read.
func Validate(ctx context.Context, w *Worker, path string) ([]connectors.Problem, error) {
	c, problems, err := loadConnector(w, path)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return problems, nil
	}
	var checks []func() []connectors.Problem
	if !slices.ContainsFunc(problems, func(p connectors.Problem) bool { return strings.HasPrefix(p.Property, "database.") }) {
		checks = append(checks, func() []connectors.Problem { return c.engine.check(ctx, c.Config, c.hasOffsets(ctx)) },
			func() []connectors.Problem { return c.checkTables(ctx) })
	} // else there is no place to connect to, which was said
	if w != nil {
		checks = append(checks, func() []connectors.Problem { return c.checkKafka(ctx) })
	}
	found := make([][]connectors.Problem, len(checks))
	var wg sync.WaitGroup
	for i, check := range checks {
		wg.Go(func() { found[i] = check() })
	}
	wg.Wait()
	said := map[string]bool{}
	for _, p := range problems {
		said[p.Property] = p.Property != ""
	}
	for _, f := range found {
		for _, p := range f {
			if !said[p.Property] { // else told already, and without a referenced value
				problems = append(problems, p)
			}
		}
	}
	return distinct(problems), nil
}

// hasOffsets tells whether the stream has stored offsets, as far as Kafka can be asked.
func (c *Connector) hasOffsets(ctx context.Context) bool {
	if c.worker == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stored, err := c.Stored(ctx)
	if err != nil {
		return false // told by checkKafka
	}
	_, ok := offsets.Find(stored, offsets.StreamPartition(c.identity().server))
	return ok
}

// checkTables checks what is made of the captured tables: names of topics and fields, and the topics
// at the brokers. What keeps it from asking database or Kafka is told by the other checks.
func (c *Connector) checkTables(ctx context.Context) (problems []connectors.Problem) {
	tables, problems, err := c.engine.tables(ctx, c.Config)
	if err != nil {
		return nil
	}
	enc, err := c.encoder(nobody{}, nobody{})
	if err != nil {
		return append(problems, connectors.Problem{Message: err.Error()})
	}
	for _, err := range enc.CheckNames(tables) {
		problems = append(problems, connectors.Problem{Message: err.Error()})
	}
	if c.worker == nil {
		return problems
	}
	p, err := c.open(slog.New(slog.DiscardHandler), func(connectors.State) {})
	if err != nil {
		return problems
	}
	defer p.close()
	if kafkaconf.Reach(ctx, p.admin) != nil {
		return problems
	}
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = enc.Topic(t)
	}
	policies, found := p.topics.Check(ctx, names)
	for i, t := range tables {
		if err := encode.CheckKeyless(t, names[i], policies[names[i]]); err != nil {
			problems = append(problems, connectors.Problem{Message: err.Error()})
		}
		if w := encode.CheckUnavailable(t, names[i], policies[names[i]]); w != "" && !strings.EqualFold(c.Config.String("unavailable.value.handling"), "reselect") {
			problems = append(problems, connectors.Problem{Message: w, Warning: true})
		}
	}
	return append(problems, found...)
}

// nobody stands for registry and topics where only names are checked.
type nobody struct{}

func (nobody) Resolve(context.Context, string, string) (int, error) { return 0, errNobody }

func (nobody) SchemaByID(context.Context, int) (string, error) { return "", errNobody }

func (nobody) Ensure(context.Context, string, bool) (pipeline.TopicInfo, error) {
	return pipeline.TopicInfo{}, errNobody
}

func (nobody) Forget(string) {}

var errNobody = errors.New("only names are checked")

func distinct(problems []connectors.Problem) []connectors.Problem {
	seen := map[string]bool{}
	var out []connectors.Problem
	for _, p := range problems {
		if !seen[p.String()] {
			seen[p.String()] = true
			out = append(out, p)
		}
	}
	return out
}

// checkKafka checks the brokers, the offsets topic and the registry.
func (c *Connector) checkKafka(ctx context.Context) (problems []connectors.Problem) {
	add := func(err error) {
		if err != nil {
			problems = append(problems, connectors.Problem{Message: err.Error()})
		}
	}
	p, err := c.open(slog.New(slog.DiscardHandler), func(connectors.State) {})
	if err != nil {
		add(err)
		return problems
	}
	defer p.close()
	if p.registry != nil {
		if err := p.registry.Check(ctx); err != nil {
			add(err)
		}
	}
	if err := kafkaconf.Reach(ctx, p.produce); err != nil {
		add(err)
		return problems
	}
	warnings, err := p.store.Check(ctx)
	add(err)
	for _, w := range warnings {
		problems = append(problems, connectors.Problem{Message: w, Warning: true})
	}
	return problems
}
