package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/records"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

func newVerifyCommand() *cobra.Command {
	var conn connectionFlags
	var generations string
	var asJSON bool
	var rules verify.Rules
	cmd := &cobra.Command{
		Use:   "verify TOPIC...",
		Short: "Check the order and completeness of topics as a consumer sees them",
		Long: `Reads the topics read_committed, from their start to where they end now, and checks that in each partition
(__gen, __pos, __seq) strictly increases, that no pair is there twice in any of them, that every delete of a keyed row is
followed by its tombstone, that a truncate is in every partition, and that snapshot rows have ordinals of their own. Give all topics of a stream at once, so that a pair in two of them is found. Records of generations
that are not active are ignored. Prints counts; exit code 1 on a violation.`,
		Args: atLeast(1, "one or more topics"),
		RunE: func(cmd *cobra.Command, topics []string) error {
			w, err := conn.load()
			if err != nil {
				return err
			}
			opts, err := consumer(cmd.Context(), w)
			if err != nil {
				return err
			}
			return verifyTopics(cmd.Context(), cmd.OutOrStdout(), opts, topics, generations, rules, asJSON)
		},
	}
	conn.add(cmd)
	cmd.Flags().StringVar(&generations, "generations", "", "topic of the activation records; found by the topics' names where absent")
	cmd.Flags().BoolVar(&rules.NoTombstones, "no-tombstones", false, "the connector writes none (tombstones.on.delete=false)")
	cmd.Flags().BoolVar(&rules.NoDeletes, "no-deletes", false, "the connector writes only tombstones (deletes.on.delete=false)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func verifyTopics(ctx context.Context, out io.Writer, opts []kgo.Opt, topics []string, generations string, rules verify.Rules, asJSON bool) error {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ranges, err := committedRanges(ctx, adm, topics)
	if err != nil {
		return err
	}
	c := verify.Checker{Live: true, Rules: map[string]verify.Rules{}, Partitions: map[string]int{}}
	for _, t := range topics {
		compacted, err := isCompacted(ctx, adm, t)
		if err != nil {
			return err
		}
		rules.Compacted = compacted
		c.Rules[t] = rules
		if fromBeginning(ranges[t]) {
			c.Partitions[t] = len(ranges[t])
		}
	}
	active, err := records.ReadActive(ctx, opts, adm, topics, generations)
	if err != nil {
		return err
	}
	c.Active = active.Contains
	if err := kafkastore.Read(ctx, opts, ranges, c.Take, stalledRead()); err != nil {
		return fmt.Errorf("read %s: %w", strings.Join(topics, ", "), err)
	}
	c.Finish()
	if asJSON {
		err = json.NewEncoder(out).Encode(struct {
			verify.Counts
			Violations int64    `json:"violations"`
			First      []string `json:"first_violations"`
		}{c.Counts, c.Total, texts(c.Violations, 20)})
	} else {
		err = printVerdict(out, &c)
	}
	if err != nil {
		return err
	}
	if c.Total > 0 {
		return &exitError{exitFailure, fmt.Errorf("%s in %s", count(int(c.Total), "violation"), strings.Join(topics, ", "))}
	}
	return nil
}

// fromBeginning reports whether a topic still has everything it ever had.
func fromBeginning(ranges map[int32]kafkastore.Range) bool {
	for _, r := range ranges {
		if r.From > 0 {
			return false
		}
	}
	return true
}

// stalledRead gives up where a range that was readable when it was listed stays silent.
func stalledRead() func(context.Context, map[string]map[int32]kafkastore.Range) error {
	n := 0
	return func(context.Context, map[string]map[int32]kafkastore.Range) error {
		if n++; n > 30 {
			return errors.New("the broker sent nothing for 30 s")
		}
		return nil
	}
}

func texts(vs []verify.Violation, most int) []string {
	out := []string{}
	for _, v := range vs[:min(most, len(vs))] {
		out = append(out, v.String())
	}
	return out
}

func printVerdict(out io.Writer, c *verify.Checker) error {
	for _, s := range texts(c.Violations, 20) {
		if _, err := fmt.Fprintln(out, "violation:", s); err != nil {
			return err
		}
	}
	n := c.Counts
	_, err := fmt.Fprintf(out, "%d records (%d creates, %d updates, %d deletes, %d snapshot rows, %d other) in %d transactions, %d tombstones, %d of inactive generations ignored; %d violations\n",
		n.Records, n.Creates, n.Updates, n.Deletes, n.Snapshot, n.Other, n.Transactions, n.Tombstones, n.Ignored, c.Total)
	return err
}

func isCompacted(ctx context.Context, adm *kadm.Client, topic string) (bool, error) {
	cfgs, err := adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return false, fmt.Errorf("read the configuration of topic %s: %w", topic, err)
	}
	for _, cfg := range cfgs {
		for _, kv := range cfg.Configs {
			if kv.Key == "cleanup.policy" && kv.Value != nil && strings.Contains(*kv.Value, "compact") {
				return true, nil
			}
		}
	}
	return false, nil
}
