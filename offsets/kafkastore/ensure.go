package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// Partitions is the partition count of an offsets topic we create where Config names none: Connect's default.
const Partitions = 25

// Above these an active segment, which is never compacted, makes every start read a lot.
const (
	largeSegmentBytes = 128 << 20
	largeSegmentAge   = 24 * time.Hour
)

func topicConfigs() map[string]*string {
	return map[string]*string{
		"cleanup.policy":            kadm.StringPtr("compact"),
		"retention.ms":              kadm.StringPtr("-1"),
		"segment.bytes":             kadm.StringPtr(strconv.Itoa(16 << 20)),
		"segment.ms":                kadm.StringPtr(strconv.Itoa(10 * 60 * 1000)),
		"min.cleanable.dirty.ratio": kadm.StringPtr("0.05"),
	}
}

// Ensure creates the offsets topic where it is missing, and checks one that exists: a policy that
// deletes is refused, since it would forget offsets; large segments are a warning. Warnings also
// name what could not be checked.
func (s *Store) Ensure(ctx context.Context) (warnings []string, err error) {
	cl, err := kgo.NewClient(s.cfg.Opts...)
	if err != nil {
		return nil, connectors.Refuse(fmt.Errorf("check offsets topic: %w", err))
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)

	exists, err := s.exists(ctx, adm)
	if err != nil {
		return nil, fmt.Errorf("check offsets topic: %w", err)
	}
	if !exists {
		_, err := adm.CreateTopic(ctx, s.cfg.Partitions, s.cfg.Replication, topicConfigs(), s.cfg.Topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return nil, fmt.Errorf("create offsets topic: %w", Explain(err, s.cfg.Topic, "CREATE"))
		}
		if err == nil {
			return nil, s.awaitLeaders(ctx, adm)
		}
	}
	return s.check(ctx, adm)
}

// Check looks at an existing offsets topic as Ensure does, and creates none: a missing topic is no problem.
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	cl, err := kgo.NewClient(s.cfg.Opts...)
	if err != nil {
		return nil, fmt.Errorf("check offsets topic: %w", err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	exists, err := s.exists(ctx, adm)
	if err != nil {
		return nil, fmt.Errorf("check offsets topic: %w", err)
	}
	if !exists {
		return nil, nil
	}
	return s.check(ctx, adm)
}

func (s *Store) exists(ctx context.Context, adm *kadm.Client) (bool, error) {
	topics, err := adm.ListTopicsWithInternal(ctx, s.cfg.Topic)
	if err == nil {
		err = topics[s.cfg.Topic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return false, nil
	}
	return err == nil, Explain(err, s.cfg.Topic, "READ, WRITE and DESCRIBE")
}

// awaitLeaders waits until a topic just created can be used.
func (s *Store) awaitLeaders(ctx context.Context, adm *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		ends, err := adm.ListEndOffsets(ctx, s.cfg.Topic)
		if err == nil && len(ends[s.cfg.Topic]) == int(s.cfg.Partitions) && ends.Error() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the leaders of offsets topic %s: %w", s.cfg.Topic, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Store) check(ctx context.Context, adm *kadm.Client) ([]string, error) {
	configs, err := adm.DescribeTopicConfigs(ctx, s.cfg.Topic)
	if err != nil {
		return nil, fmt.Errorf("read the settings of offsets topic %s: %w", s.cfg.Topic, err)
	}
	rc, err := configs.On(s.cfg.Topic, nil)
	if err == nil {
		err = rc.Err
	}
	if errors.Is(err, kerr.TopicAuthorizationFailed) {
		return []string{fmt.Sprintf("the settings of offsets topic %s could not be checked: the Kafka user lacks DESCRIBE_CONFIGS on it; make sure that its cleanup.policy is compact", s.cfg.Topic)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of offsets topic %s: %w", s.cfg.Topic, err)
	}
	values := map[string]string{}
	for _, c := range rc.Configs {
		values[c.Key] = c.MaybeValue()
	}
	return checkConfigs(s.cfg.Topic, values)
}

func checkConfigs(topic string, values map[string]string) (warnings []string, err error) {
	if policy := values["cleanup.policy"]; policy != "compact" {
		return nil, connectors.Refuse(fmt.Errorf("offsets topic %s has cleanup.policy=%s, which would delete offsets; set it to compact (kafka-configs.sh --alter --topic %s --add-config cleanup.policy=compact) or name another topic in offset.storage.topic", topic, policy, topic))
	}
	var large []string
	if n, err := strconv.ParseInt(values["segment.bytes"], 10, 64); err == nil && n > largeSegmentBytes {
		large = append(large, fmt.Sprintf("segment.bytes=%d", n))
	}
	if n, err := strconv.ParseInt(values["segment.ms"], 10, 64); err == nil && n > largeSegmentAge.Milliseconds() {
		large = append(large, fmt.Sprintf("segment.ms=%d", n))
	}
	if len(large) > 0 {
		warnings = append(warnings, fmt.Sprintf("offsets topic %s has large segments (%s), which are not compacted while they are written, so every start reads them; set segment.bytes=16777216 and segment.ms=600000", topic, strings.Join(large, ", ")))
	}
	return warnings, nil
}
