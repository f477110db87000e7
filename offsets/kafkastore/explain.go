package kafkastore

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Explain turns a Kafka error about a topic into a sentence that says what to do; rights names the
// operations that are needed on the topic. Errors it does not know are returned as they are.
func Explain(err error, topic, rights string) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Errorf("the Kafka user lacks rights on topic %s; grant %s on it: %w", topic, rights, kerr.TopicAuthorizationFailed)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("the Kafka user lacks rights on the cluster; grant %s on topic %s: %w", rights, topic, kerr.ClusterAuthorizationFailed)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("topic %s does not exist, or the Kafka user may not DESCRIBE it: %w", topic, kerr.UnknownTopicOrPartition)
	case errors.Is(err, kerr.InvalidTopicException):
		return fmt.Errorf("%q is not a valid topic name; use letters, digits, '.', '_' and '-', at most 249 of them: %w", topic, kerr.InvalidTopicException)
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return fmt.Errorf("topic %s cannot have that replication factor; it must not exceed the number of brokers: %w", topic, kerr.InvalidReplicationFactor)
	case errors.Is(err, kerr.PolicyViolation):
		return fmt.Errorf("the cluster's policy forbids topic %s as configured: %w", topic, err)
	}
	return err
}
