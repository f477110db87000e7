package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline"
)

// TopicInfo is what the pipeline must know of a data topic.
type TopicInfo = pipeline.TopicInfo

// TopicsConfig configures Topics.
type TopicsConfig struct {
	Opts     []kgo.Opt
	Creation Creation
}

// Topics knows the data topics and creates missing ones. It is safe for concurrent use.
type Topics struct {
	creation Creation
	cl       *kgo.Client
	adm      *kadm.Client

	mu    sync.Mutex
	known map[string]TopicInfo
}

// NewTopics returns topics of a cluster; Close ends its client.
func NewTopics(cfg TopicsConfig) (*Topics, error) {
	cl, err := kgo.NewClient(cfg.Opts...)
	if err != nil {
		return nil, connectors.Refuse(fmt.Errorf("kafka client: %w", err))
	}
	return &Topics{creation: cfg.Creation, cl: cl, adm: kadm.NewClient(cl), known: map[string]TopicInfo{}}, nil
}

// Close ends the client.
func (t *Topics) Close() { t.cl.Close() }

// MaxMessageBytes returns the max.message.bytes of a topic that Ensure has seen, else 0.
func (t *Topics) MaxMessageBytes(topic string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[topic].MaxMessageBytes
}

// Forget drops what is known of a topic, so that the next Ensure looks it up again.
func (t *Topics) Forget(topic string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, topic)
}

// Ensure returns a topic's facts and creates it where it is missing and creation is on, unless it was used before: whoever
// deleted it shall know that its records are gone. Answers are kept until Forget. An error is one sentence that names the topic and the way out; all but
// an invalid name may pass.
func (t *Topics) Ensure(ctx context.Context, topic string, used bool) (TopicInfo, error) {
	t.mu.Lock()
	info, ok := t.known[topic]
	t.mu.Unlock()
	if ok {
		return info, nil
	}
	if err := checkName(topic); err != nil {
		return TopicInfo{}, connectors.Refuse(err)
	}
	partitions, err := t.lookup(ctx, topic)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		if used {
			return TopicInfo{}, fmt.Errorf("topic %s is gone, and the records of this generation with it; create it again, with as many partitions, to go on without them, or reset the connector for a new generation", topic)
		}
		partitions, err = t.create(ctx, topic)
	}
	if err != nil {
		return TopicInfo{}, err
	}
	if info, err = t.describe(ctx, topic); err != nil {
		return TopicInfo{}, err
	}
	info.Partitions = partitions
	t.mu.Lock()
	t.known[topic] = info
	t.mu.Unlock()
	return info, nil
}

// Check returns what stands in the way of writing to the topics, without creating any, and the
// cleanup.policy of those that exist, where it may be read.
func (t *Topics) Check(ctx context.Context, topics []string) (policies map[string]string, problems []connectors.Problem) {
	policies = map[string]string{}
	for _, topic := range topics {
		policy, err := t.checkOne(ctx, topic)
		if err != nil {
			problems = append(problems, connectors.Problem{Message: err.Error()})
		}
		policies[topic] = policy
	}
	return policies, problems
}

func (t *Topics) checkOne(ctx context.Context, topic string) (policy string, err error) {
	if err := checkName(topic); err != nil {
		return "", err
	}
	_, err = t.lookup(ctx, topic)
	if err == nil {
		info, err := t.describe(ctx, topic)
		return info.CleanupPolicy, err
	}
	if !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return "", err
	}
	if !t.creation.Enabled() {
		return "", errMissing(topic)
	}
	g := t.creation.of(topic)
	responses, err := t.adm.ValidateCreateTopics(ctx, g.partitions, g.replication, g.configs, topic)
	if err == nil {
		err = responses.Error()
	}
	return "", creationError(topic, g, responses, err)
}

// lookup returns the partition count.
func (t *Topics) lookup(ctx context.Context, topic string) (int32, error) {
	topics, err := t.adm.ListTopicsWithInternal(ctx, topic)
	if err == nil {
		err = topics[topic].Err
	}
	if err != nil {
		return 0, fmt.Errorf("look up topic %s: %w", topic, kafkastore.Explain(err, topic, "WRITE and DESCRIBE"))
	}
	return int32(len(topics[topic].Partitions)), nil
}

func (t *Topics) create(ctx context.Context, topic string) (int32, error) {
	if !t.creation.Enabled() {
		return 0, errMissing(topic)
	}
	g := t.creation.of(topic)
	responses, err := t.adm.CreateTopics(ctx, g.partitions, g.replication, g.configs, topic)
	if err == nil {
		err = responses.Error()
	}
	if err := creationError(topic, g, responses, err); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		ends, err := t.adm.ListEndOffsets(ctx, topic) // a topic is usable once every partition has a leader
		if err == nil && len(ends[topic]) > 0 && ends.Error() == nil {
			return int32(len(ends[topic])), nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return 0, fmt.Errorf("wait for the leaders of the new topic %s: %w", topic, err)
		}
	}
}

func (t *Topics) describe(ctx context.Context, topic string) (TopicInfo, error) {
	info := TopicInfo{TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: math.MaxInt64}
	configs, err := t.adm.DescribeTopicConfigs(ctx, topic)
	if err == nil && len(configs) > 0 {
		err = configs[0].Err
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		return info, nil
	}
	if err != nil {
		return info, fmt.Errorf("read the settings of topic %s: %w", topic, kafkastore.Explain(err, topic, "DESCRIBE_CONFIGS"))
	}
	for _, rc := range configs {
		for _, c := range rc.Configs {
			n, _ := strconv.ParseInt(c.MaybeValue(), 10, 64)
			switch c.Key {
			case "max.message.bytes":
				info.MaxMessageBytes = int(n)
			case "cleanup.policy":
				info.CleanupPolicy = c.MaybeValue()
			case "message.timestamp.before.max.ms":
				info.TimestampBeforeMaxMs = n
			case "message.timestamp.after.max.ms":
				info.TimestampAfterMaxMs = n
			}
		}
	}
	return info, nil
}

func errMissing(topic string) error {
	return fmt.Errorf("topic %s does not exist and topic creation is off; create it, or set topic.creation.enable=true in the worker file", topic)
}

func creationError(topic string, g group, responses kadm.CreateTopicResponses, err error) error {
	detail := ""
	if r, ok := responses[topic]; ok && r.ErrMessage != "" {
		detail = ": " + r.ErrMessage
	}
	switch {
	case err == nil, errors.Is(err, kerr.TopicAlreadyExists):
		return nil
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return kafkastore.Sentence(err, "topic %s does not exist and the Kafka user may not create it; grant CREATE on it, or create it", topic)
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return fmt.Errorf("topic %s cannot be created with replication factor %d; set topic.creation.%s.replication.factor to at most the number of brokers%s", topic, g.replication, g.name, detail)
	case errors.Is(err, kerr.InvalidPartitions):
		return fmt.Errorf("topic %s cannot be created with %d partitions; set topic.creation.%s.partitions%s", topic, g.partitions, g.name, detail)
	case errors.Is(err, kerr.InvalidConfig):
		return fmt.Errorf("topic %s cannot be created with the settings of topic.creation.%s%s", topic, g.name, detail)
	}
	return fmt.Errorf("create topic %s: %w%s", topic, kafkastore.Explain(err, topic, "CREATE"), detail)
}

// checkName is Kafka's own rule.
func checkName(topic string) error {
	if topic == "" || topic == "." || topic == ".." || len(topic) > 249 {
		return fmt.Errorf("%q is not a valid topic name; it needs 1 to 249 characters, and neither . nor .. is one", topic)
	}
	for _, c := range []byte(topic) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			continue
		}
		return fmt.Errorf("%q is not a valid topic name; only letters, digits, '.', '_' and '-' are allowed", topic)
	}
	return nil
}
