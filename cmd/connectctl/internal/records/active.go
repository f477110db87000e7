package records

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// ReadActive reads the activation records of the topics' stream: from the named topic, or where
// that is empty from <prefix>.__generations, the prefix being the longest one of the topics' names that has such a topic.
func ReadActive(ctx context.Context, opts []kgo.Opt, adm *kadm.Client, topics []string, generations string) (verify.Active, error) {
	var a verify.Active
	all, err := adm.ListTopics(ctx)
	if err != nil {
		return a, fmt.Errorf("list topics: %w", err)
	}
	if generations == "" {
		generations = generationsTopic(topics, all.Has)
	} else if !all.Has(generations) {
		return a, fmt.Errorf("no such topic at the broker: %s", generations)
	}
	if generations == "" {
		return a, nil
	}
	ranges, err := kafkastore.CommittedRanges(ctx, adm, generations)
	if err != nil {
		return a, err
	}
	var bad error
	waits := 0
	err = kafkastore.Read(ctx, opts, ranges, func(r *kgo.Record) {
		if r.Value != nil && bad == nil {
			bad = a.Add(r.Value)
		}
	}, func(context.Context, map[string]map[int32]kafkastore.Range) error {
		if waits++; waits > 30 {
			return errors.New("the broker sent nothing for 30 s")
		}
		return nil
	})
	if err = errors.Join(err, bad); err != nil {
		return a, fmt.Errorf("read %s: %w", generations, err)
	}
	return a, nil
}

func generationsTopic(topics []string, has func(string) bool) string {
	for _, t := range topics {
		for i := strings.LastIndexByte(t, '.'); i > 0; i = strings.LastIndexByte(t[:i], '.') {
			if name := t[:i] + ".__generations"; has(name) {
				return name
			}
		}
	}
	return ""
}
