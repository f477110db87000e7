package main

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
)

// connectionFlags say where Kafka and the registry are, for commands that only read.
type connectionFlags struct {
	worker   string
	brokers  string
	registry string
}

func (f *connectionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.worker, "worker", "", "worker file with the connections to Kafka and the schema registry")
	cmd.Flags().StringVar(&f.brokers, "bootstrap-servers", "", "Kafka brokers, host:port,…, instead of or over the worker file's")
	cmd.Flags().StringVar(&f.registry, "schema-registry-url", "", "schema registry, instead of or over the worker file's")
}

// load returns a worker configuration from the file, the flags, or both.
func (f *connectionFlags) load() (*assembly.Worker, error) {
	if f.worker == "" && f.brokers == "" {
		return nil, usageError("say where Kafka is: --worker FILE or --bootstrap-servers HOST:PORT")
	}
	over := map[string]string{}
	if f.brokers != "" {
		over["bootstrap.servers"] = f.brokers
	}
	if f.registry != "" {
		over["schema.registry.url"] = f.registry
	}
	w, err := assembly.LoadWorkerOver(f.worker, over)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return w, nil
}

// consumer returns options of a consumer after checking that Kafka answers.
func consumer(ctx context.Context, w *assembly.Worker) ([]kgo.Opt, error) {
	opts, err := w.KafkaOptions(kafkaconf.Consumer)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if err := kafkaconf.Reach(ctx, opts); err != nil {
		return nil, err
	}
	return opts, nil
}

// committedRanges returns the ranges of the topics a read_committed consumer can see now.
func committedRanges(ctx context.Context, adm *kadm.Client, topics []string) (map[string]map[int32]kafkastore.Range, error) {
	if err := topicsExist(ctx, adm, topics); err != nil {
		return nil, err
	}
	return kafkastore.CommittedRanges(ctx, adm, topics...)
}

// topicsExist names every missing topic at once, with a similar one where there is one.
func topicsExist(ctx context.Context, adm *kadm.Client, topics []string) error {
	all, err := adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var missing []string
	for _, t := range topics {
		if all.Has(t) {
			continue
		}
		var near []string
		for _, name := range all.Names() {
			if strings.Contains(strings.ToLower(name), strings.ToLower(t)) || strings.HasSuffix(name, "."+t) {
				near = append(near, name)
			}
		}
		sort.Strings(near)
		if len(near) > 0 {
			t += " (there is " + strings.Join(near[:min(3, len(near))], ", ") + ")"
		}
		missing = append(missing, t)
	}
	if len(missing) > 0 {
		return fmt.Errorf("no such topic at the broker: %s", strings.Join(missing, "; "))
	}
	return nil
}
