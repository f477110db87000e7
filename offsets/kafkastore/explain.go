package kafkastore

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// sentence is an error in words, closed by the broker's code; the cause stays in its chain.
type sentence struct {
	text  string
	cause error
}

func (s *sentence) Unwrap() error { return s.cause }

func (s *sentence) Error() string {
	if ke := (*kerr.Error)(nil); errors.As(s.cause, &ke) {
		return s.text + " (" + ke.Message + ")"
	}
	return s.text
}

// Sentence returns an error that reads as the formatted text, followed by the code of the Kafka
// error in cause, and unwraps to cause.
func Sentence(cause error, format string, args ...any) error {
	return &sentence{text: fmt.Sprintf(format, args...), cause: cause}
}

// Explain turns a Kafka error about a topic into a sentence that says what to do; rights names the
// operations that are needed on the topic. Errors it does not know are returned as they are.
func Explain(err error, topic, rights string) error {
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return Sentence(err, "the Kafka user lacks rights on topic %s; grant %s on it", topic, rights)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return Sentence(err, "the Kafka user lacks rights on the cluster; grant %s on topic %s", rights, topic)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return Sentence(err, "topic %s does not exist, or the Kafka user may not DESCRIBE it", topic)
	case errors.Is(err, kerr.InvalidTopicException):
		return Sentence(err, "%q is not a valid topic name; use letters, digits, '.', '_' and '-', at most 249 of them", topic)
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return Sentence(err, "topic %s cannot have that replication factor; it must not exceed the number of brokers", topic)
	case errors.Is(err, kerr.PolicyViolation):
		return Sentence(err, "the cluster's policy forbids topic %s as configured", topic)
	}
	return err
}
