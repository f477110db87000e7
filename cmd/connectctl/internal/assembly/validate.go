package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
)

// Validate checks a connector file, its database, and, where a worker is given, Kafka and the schema
// registry, and returns every problem. The error is a file that cannot be read.
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
		checks = append(checks, func() []connectors.Problem { return c.engine.check(ctx, c.Config) })
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
	for _, f := range found {
		problems = append(problems, f...)
	}
	return distinct(problems), nil
}

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
	if err := p.registry.Check(ctx); err != nil {
		add(fmt.Errorf("schema registry: %w", err))
	}
	if err := kafkaconf.Reach(ctx, p.produce); err != nil {
		add(err)
		return problems
	}
	warnings, err := p.store.Check(ctx)
	add(err)
	for _, w := range warnings {
		add(errors.New(w))
	}
	return problems
}
