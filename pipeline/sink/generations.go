package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
)

// headerGeneration is the header that carries a record's generation, in ASCII decimal.
const headerGeneration = "__gen"

// firstWindow is how many offsets before the end are read first. It doubles until a record of ours is in it.
const firstWindow = 64

// Generations finds the highest generation at the ends of the data topics and of the topic of activation records.
type Generations struct {
	opts        []kgo.Opt
	topicOf     func(*schema.Table) string
	activations string
	report      connectors.Reporter
}

var _ pipeline.Generations = (*Generations)(nil)

// NewGenerations returns a finder; topicOf names a table's topic. activations is the topic of activation
// records: it still knows a generation whose data topics were emptied.
func NewGenerations(opts []kgo.Opt, topicOf func(*schema.Table) string, activations string) *Generations {
	return &Generations{opts: opts, topicOf: topicOf, activations: activations, report: func(connectors.State) {}}
}

// Report makes the finder report the state while an open transaction holds it back.
func (g *Generations) Report(report connectors.Reporter) *Generations {
	g.report = report
	return g
}

// Highest returns the highest __gen among the last committed data records of every partition of the
// tables' topics, 0 where the topics are absent or hold none. Within a partition it never falls,
// so the last record decides. It is meant for after a Fence: an open transaction is waited for.
func (g *Generations) Highest(ctx context.Context, tables []*schema.Table) (int64, error) {
	cl, err := kgo.NewClient(g.opts...)
	if err != nil {
		return 0, fmt.Errorf("find the highest generation: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topics, err := g.existing(ctx, adm, tables)
	if err != nil || len(topics) == 0 {
		return 0, err
	}
	all, err := kafkastore.Ranges(ctx, adm, topics...)
	if err != nil {
		return 0, fmt.Errorf("find the highest generation: %w", err)
	}
	highest := int64(0)
	w := &held{report: g.report}
	defer w.done()
	for window := int64(firstWindow); ; window *= 2 {
		ranges := windows(all, window)
		if len(ranges) == 0 {
			return highest, nil
		}
		found := map[string]map[int32]bool{}
		err := kafkastore.Read(ctx, g.opts, ranges, func(r *kgo.Record) {
			if n, ok := g.generationOf(r); ok {
				highest = max(highest, n)
				if found[r.Topic] == nil {
					found[r.Topic] = map[int32]bool{}
				}
				found[r.Topic][r.Partition] = true
			}
		}, w.stalled)
		if err != nil {
			return 0, fmt.Errorf("find the highest generation: %w", err)
		}
		drop(all, ranges, found)
	}
}

// held reports what holds the finder back.
type held struct {
	report connectors.Reporter
	reason string
}

func (h *held) stalled(ctx context.Context, left map[string]map[int32]kafkastore.Range) error {
	var where []string
	for topic, partitions := range left {
		for partition := range partitions {
			where = append(where, fmt.Sprintf("%s-%d", topic, partition))
		}
	}
	slices.Sort(where)
	reason := "waiting for the end of an open transaction in " + strings.Join(where[:min(len(where), 3)], ", ")
	if more := len(where) - 3; more > 0 {
		reason += fmt.Sprintf(" and %d more", more)
	}
	if reason += "; kafka-transactions.sh find-hanging tells whether anybody still ends it"; reason != h.reason {
		h.reason = reason
		h.report(connectors.State{Name: "WAITING", Reason: reason})
	}
	return ctx.Err()
}

// done takes the waiting state back, if one was reported.
func (h *held) done() {
	if h.reason != "" {
		h.report(connectors.State{Name: "STARTING"})
	}
}

func (g *Generations) existing(ctx context.Context, adm *kadm.Client, tables []*schema.Table) ([]string, error) {
	topics := []string{g.activations}
	for _, t := range tables {
		if name := g.topicOf(t); !slices.Contains(topics, name) {
			topics = append(topics, name)
		}
	}
	listed, err := adm.ListTopicsWithInternal(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("find the highest generation: %w", kafkastore.Explain(err, strings.Join(topics, ", "), "READ and DESCRIBE"))
	}
	var out []string
	for _, name := range topics {
		err := listed[name].Err
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
		case err != nil:
			return nil, fmt.Errorf("find the highest generation: %w", kafkastore.Explain(err, name, "READ and DESCRIBE"))
		default:
			out = append(out, name)
		}
	}
	return out, nil
}

// windows returns the last n offsets of each range.
func windows(all map[string]map[int32]kafkastore.Range, n int64) map[string]map[int32]kafkastore.Range {
	out := map[string]map[int32]kafkastore.Range{}
	for t, ps := range all {
		for p, r := range ps {
			if r.From >= r.To {
				continue
			}
			if out[t] == nil {
				out[t] = map[int32]kafkastore.Range{}
			}
			out[t][p] = kafkastore.Range{From: max(r.From, r.To-n), To: r.To}
		}
	}
	return out
}

// drop removes the partitions that are settled: where a record was found, or all was read.
func drop(all, read map[string]map[int32]kafkastore.Range, found map[string]map[int32]bool) {
	for t, ps := range read {
		for p, r := range ps {
			if found[t][p] || r.From == all[t][p].From {
				delete(all[t], p)
			}
		}
	}
}

func (g *Generations) generationOf(r *kgo.Record) (int64, bool) {
	if r.Topic == g.activations {
		var key struct {
			Gen int64 `json:"gen"`
		}
		err := json.Unmarshal(r.Key, &key)
		return key.Gen, err == nil && key.Gen > 0
	}
	for _, h := range r.Headers {
		if h.Key == headerGeneration {
			n, err := strconv.ParseInt(string(h.Value), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
