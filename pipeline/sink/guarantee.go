package sink

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
)

// transactionTopic is where the brokers keep the state of transactions.
const transactionTopic = "__transaction_state"

// Guarantee returns what the broker's settings miss for the mode's promise to hold through the
// loss of a broker: replication factor 3, min.insync.replicas 2, no unclean leader election, for
// the given topics, the offsets topic among them, and for the broker's transaction topic. An
// empty answer: nothing is missing. What may not be read is said.
func (t *Topics) Guarantee(ctx context.Context, topics ...string) ([]string, error) {
	names := append([]string{transactionTopic}, topics...)
	listed, err := t.adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("read the topics' replication: %w", err)
	}
	var existing, missing []string
	for _, name := range names {
		d, ok := listed[name]
		if !ok || d.Err != nil {
			if name != transactionTopic {
				missing = append(missing, fmt.Sprintf("topic %s cannot be looked up: %v", name, kafkastore.Explain(d.Err, name, "DESCRIBE")))
			}
			continue
		}
		existing = append(existing, name)
		if n := replicas(d); n < 3 {
			missing = append(missing, fmt.Sprintf("topic %s has replication factor %d; 3 or more survive the loss of a broker", name, n))
		}
	}
	if len(existing) == 0 {
		return missing, nil
	}
	configs, err := t.adm.DescribeTopicConfigs(ctx, existing...)
	if err != nil {
		return append(missing, fmt.Sprintf("the topics' settings cannot be read: %v", err)), nil
	}
	for _, rc := range configs {
		missing = append(missing, settingsMissing(rc)...)
	}
	return missing, nil
}

func settingsMissing(rc kadm.ResourceConfig) []string {
	if rc.Err != nil {
		return []string{fmt.Sprintf("the settings of topic %s cannot be read: %v", rc.Name, kafkastore.Explain(rc.Err, rc.Name, "DESCRIBE_CONFIGS"))}
	}
	var missing []string
	for _, c := range rc.Configs {
		switch c.Key {
		case "min.insync.replicas":
			if n, _ := strconv.Atoi(c.MaybeValue()); n < 2 {
				missing = append(missing, fmt.Sprintf("topic %s has min.insync.replicas=%s; with 2 or more an acknowledged record is on two brokers", rc.Name, c.MaybeValue()))
			}
		case "unclean.leader.election.enable":
			if c.MaybeValue() == "true" {
				missing = append(missing, fmt.Sprintf("topic %s has unclean.leader.election.enable=true, which may lose acknowledged records", rc.Name))
			}
		}
	}
	return missing
}

func replicas(d kadm.TopicDetail) int {
	least := 0
	for _, p := range d.Partitions {
		if n := len(p.Replicas); least == 0 || n < least {
			least = n
		}
	}
	return least
}
