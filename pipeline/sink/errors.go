package sink

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
)

// failure returns the first failure of a record since the last Abort, explained.
func (s *Sink) failure(se *session) error {
	f := se.flight.failure()
	if f.err == nil {
		return nil
	}
	err := s.explain(se, f)
	if strings.Contains(err.Error(), f.topic) {
		return err
	}
	return fmt.Errorf("write to topic %s: %w", f.topic, err)
}

// isLost reports whether the transaction is no longer ours to write to or to commit.
func isLost(err error) bool {
	return isFenced(err) || errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, kerr.TransactionAbortable)
}

// isFenced reports whether the broker knows a newer producer of our id. It may answer the same
// where the transaction timed out: only the transaction's age tells which.
func isFenced(err error) bool {
	return errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.ProducerFenced)
}

// explain classifies a failure and says what to do about it.
func (s *Sink) explain(se *session, f failure) error {
	err := f.err
	var ke *kerr.Error
	switch {
	case isFenced(err) && s.cfg.Mode == Idempotent: // nobody can take over; a new producer goes on
		return err
	case isLost(err) && se.open && time.Since(se.began) >= se.timeout:
		return s.timedOut(se)
	case isFenced(err):
		return connectors.WithClass(connectors.ClassFenced, kafkastore.Sentence(err, "another worker has taken over transactional id %s", s.cfg.TransactionalID))
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		return connectors.Block(s.tooLarge(f))
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.InvalidTimestamp):
		return connectors.Block(kafkastore.Sentence(err, "the broker refuses a record of topic %s; a compacted topic needs keys, and message.timestamp.before.max.ms and after.max.ms bound its time", f.topic))
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return kafkastore.Sentence(err, "the Kafka user may not use transactional id %s; grant WRITE and DESCRIBE on it", s.cfg.TransactionalID)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return kafkastore.Sentence(err, "the Kafka user may not write idempotently; grant IDEMPOTENT_WRITE on the cluster")
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return connectors.Refuse(kafkastore.Sentence(err, "the broker refuses a transaction timeout of %s; set transaction.timeout.ms to at most its transaction.max.timeout.ms", se.timeout))
	case errors.Is(err, kgo.ErrClientClosed), errors.Is(err, kgo.ErrAborting):
		return err
	case errors.As(err, &ke):
		return kafkastore.Explain(err, f.topic, "WRITE and DESCRIBE")
	}
	se.connection.mu.Lock()
	addr, cause := se.connection.addr, se.connection.err
	se.connection.mu.Unlock()
	if cause != nil {
		return kafkaconf.Explain(cause, addr)
	}
	return err
}

func (s *Sink) tooLarge(f failure) error {
	limit := s.batchBytes(f.topic)
	if f.size >= int(s.cfg.MaxRequestSize) || limit == s.cfg.MaxRequestSize && f.size > int(limit)-100 {
		return kafkastore.Sentence(f.err, "a record of %d bytes for topic %s is larger than a request may be; raise max.request.size (now %d) and the topic's max.message.bytes", f.size, f.topic, s.cfg.MaxRequestSize)
	}
	return kafkastore.Sentence(f.err, "a record of %d bytes for topic %s is larger than the topic takes; raise the topic's max.message.bytes", f.size, f.topic)
}

// timedOut tells an outage, which passes, from a transaction too long for its timeout, which does not.
func (s *Sink) timedOut(se *session) error {
	if still := se.flight.stillFor(); still >= se.timeout/3 {
		return fmt.Errorf("kafka has taken no record for %s%s; the transaction of %d records starts again", still.Round(time.Millisecond), se.connection.suffix(), se.records)
	}
	age := time.Since(se.began)
	rate := float64(se.records) / max(age.Seconds(), 0.001)
	return fmt.Errorf("%w: it was open for %s with %d records (%.0f a second); raise transaction.timeout.ms (%d) and the broker's transaction.max.timeout.ms%s",
		ErrTimedOut, age.Round(time.Second), se.records, rate, se.timeout.Milliseconds(), se.connection.suffix())
}
