package sink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
)

// session is one incarnation of the producer: from a Fence to the next.
type session struct {
	cl         *kgo.Client
	flight     *flight
	connection *connection
	timeout    time.Duration
	partitions int32 // of the offsets topic

	open     bool // records were or may have been produced since the last commit
	began    time.Time
	records  int64 // since began
	entries  []offsets.Entry
	lastEnd  time.Time
	spent    error // set: only a new session helps
	entryBuf []kgo.Record
}

// Fence builds a new producer under the transactional id, which ends any older one and aborts
// what it left open; unless that is newer than our own last one, see Incarnation. In mode idempotent it only
// checks that Kafka is there.
func (s *Sink) Fence(ctx context.Context) error {
	if s.session != nil {
		s.cfg.Before.remember(s.session)
		s.session.close()
		s.session = nil
	}
	if err := s.superseded(ctx); err != nil {
		return err
	}
	for _, timeout := range s.timeouts(ctx) {
		se, err := s.open(ctx, timeout)
		if err == nil {
			s.session = se
			return nil
		}
		if !errors.Is(err, kerr.InvalidTransactionTimeout) || s.cfg.TransactionTimeout != 0 {
			return err
		}
	}
	return connectors.Refuse(errors.New("the broker accepts no transaction timeout we know; set transaction.timeout.ms to at most its transaction.max.timeout.ms"))
}

// timeouts are tried in order: what is configured, or what the broker says, or guesses from its default downwards.
func (s *Sink) timeouts(ctx context.Context) []time.Duration {
	if s.cfg.TransactionTimeout != 0 || s.cfg.Mode == Idempotent {
		return []time.Duration{s.cfg.TransactionTimeout}
	}
	cl, err := kgo.NewClient(s.cfg.Opts...)
	if err != nil {
		return []time.Duration{time.Minute}
	}
	defer cl.Close()
	most := kafkastore.MaxTransactionTimeout(ctx, kadm.NewClient(cl))
	return []time.Duration{most, 5 * time.Minute, time.Minute, 10 * time.Second}
}

func (s *Sink) open(ctx context.Context, timeout time.Duration) (*session, error) {
	se := &session{flight: newFlight(), connection: &connection{}, timeout: timeout}
	cl, err := kgo.NewClient(append(s.clientOpts(timeout), kgo.WithHooks(se.connection))...)
	if err != nil {
		return nil, connectors.Refuse(fmt.Errorf("kafka producer: %w", err))
	}
	se.cl = cl
	if err := s.prove(ctx, se); err != nil {
		se.close()
		return nil, err
	}
	return se, nil
}

// prove makes the session the only writer of its id: creating a client, or beginning a
// transaction, proves nothing.
func (s *Sink) prove(ctx context.Context, se *session) error {
	if s.cfg.Mode == Transactional {
		if _, _, err := se.cl.ProducerID(ctx); err != nil {
			return fmt.Errorf("fence transactional id %s: %w", s.cfg.TransactionalID, s.explain(se, failure{err: err}))
		}
	}
	topics, err := kadm.NewClient(se.cl).ListTopicsWithInternal(ctx, s.cfg.OffsetsTopic)
	if err == nil {
		err = topics[s.cfg.OffsetsTopic].Err
	}
	if err != nil {
		return fmt.Errorf("look up the offsets topic: %w", s.explain(se, failure{topic: s.cfg.OffsetsTopic, err: err}))
	}
	se.partitions = int32(len(topics[s.cfg.OffsetsTopic].Partitions))
	return nil
}

// begin opens a transaction where none is open, after the pause.
func (s *Sink) begin(ctx context.Context, se *session) error {
	if se.open {
		if s.cfg.Mode == Transactional && time.Since(se.began) > se.timeout {
			return s.timedOut(se)
		}
		return nil
	}
	if err := sleep(ctx, s.cfg.Pause-time.Since(se.lastEnd)); err != nil {
		return err
	}
	se.began = time.Now()
	se.flight.begin()
	if s.cfg.Mode == Transactional {
		if err := se.cl.BeginTransaction(); err != nil {
			se.spent = fmt.Errorf("begin a Kafka transaction: %w", s.explain(se, failure{err: err}))
			return se.spent
		}
	}
	se.open = true
	return nil
}

// end commits. Its request outlives the caller's context: a cancelled one would leave the outcome unknown.
func (s *Sink) end(ctx context.Context, se *session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	asked := time.Now()
	err := se.cl.EndTransaction(ctx, kgo.TryCommit)
	se.flight.waited(time.Since(asked))
	if err == nil {
		return nil
	}
	if errors.Is(err, kerr.OperationNotAttempted) { // the client refused, because its producer id failed: why?
		if _, _, idErr := se.cl.ProducerID(ctx); idErr != nil {
			err = idErr
		}
		se.spent = fmt.Errorf("commit the Kafka transaction: %w", s.explain(se, failure{err: err}))
		return se.spent
	}
	// A broker answers INVALID_TXN_STATE to the commit of a transaction that it has timed out.
	tooOld := errors.Is(err, kerr.InvalidTxnState) && time.Since(se.began) >= se.timeout
	if isFenced(err) || tooOld || errors.Is(err, kerr.TransactionAbortable) {
		se.spent = fmt.Errorf("commit the Kafka transaction: %w", s.explain(se, failure{err: err}))
		return se.spent
	}
	if errors.Is(err, kerr.InvalidTxnState) {
		// The broker has no transaction of ours and did not time it out, so somebody ended it: a newer producer of the id, in the
		// moment before its epoch is known. A commit of ours that had happened would have been answered as such.
		se.spent = fmt.Errorf("commit the Kafka transaction: %w", connectors.WithClass(connectors.ClassFenced,
			kafkastore.Sentence(err, "another worker has taken over transactional id %s", s.cfg.TransactionalID)))
		return se.spent
	}
	se.spent = fmt.Errorf("%w (%w); the producer must be fenced and the offsets read again", ErrUnknownOutcome, err)
	return se.spent
}

// flush waits until everything produced was acknowledged or failed, and returns the first failure.
func (s *Sink) flush(ctx context.Context, se *session) error {
	limited, cancel := s.limit(ctx, se)
	defer cancel()
	stop := s.reportStall(se)
	err := se.cl.Flush(limited)
	stop()
	if failed := s.failure(se); failed != nil {
		return failed
	}
	return s.waitError(ctx, se, err)
}

// reserve waits until there is room for n more bytes on their way to Kafka; a chunk larger than all the room may go alone.
func (s *Sink) reserve(ctx context.Context, se *session, n int) error {
	if se.flight.reserve(n, s.cfg.MaxBufferedBytes) {
		return nil
	}
	limited, cancel := s.limit(ctx, se)
	defer cancel()
	stop := s.reportStall(se)
	defer stop()
	for {
		select {
		case <-limited.Done():
			return s.waitError(ctx, se, limited.Err())
		case <-se.flight.freed:
		}
		if err := s.failure(se); err != nil {
			return err
		}
		if se.flight.reserve(n, s.cfg.MaxBufferedBytes) {
			return nil
		}
	}
}

// limit ends a wait when the transaction has timed out.
func (s *Sink) limit(ctx context.Context, se *session) (context.Context, context.CancelFunc) {
	if s.cfg.Mode == Idempotent {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, se.began.Add(se.timeout))
}

// waitError says why a wait for Kafka ended.
func (s *Sink) waitError(ctx context.Context, se *session, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("wait for Kafka: %w", ctx.Err())
	}
	return s.timedOut(se)
}

// reportStall reports a state when Kafka takes nothing for a while; the returned function ends that.
func (s *Sink) reportStall(se *session) (stop func()) {
	var mu sync.Mutex
	reported, stopped := false, false
	timer := time.AfterFunc(s.stallAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			reported = true
			s.cfg.Report(connectors.State{Name: "WAITING", Reason: fmt.Sprintf("Kafka has not taken %d records for %s%s", se.cl.BufferedProduceRecords(), s.stallAfter, se.connection.suffix())})
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		if stopped = true; reported {
			s.cfg.Report(connectors.State{Name: "RUNNING"})
		}
	}
}

func (se *session) ended() {
	se.open, se.records, se.lastEnd = false, 0, time.Now()
	se.entries = se.entries[:0]
}

// produceEntries writes the offset entries. They are few, and their keys and values are allocated.
func (se *session) produceEntries(topic, connector string) {
	se.entryBuf = se.entryBuf[:0]
	now := time.Now()
	keys := make([][]byte, len(se.entries))
	last := make(map[string]int, len(se.entries)) // a snapshot stores its progress many times in a transaction: the last one counts
	for i, e := range se.entries {
		keys[i] = offsets.AppendKey(nil, connector, e.Partition)
		last[string(keys[i])] = i
	}
	for i, e := range se.entries {
		key := keys[i]
		if last[string(key)] != i {
			continue
		}
		se.entryBuf = append(se.entryBuf, kgo.Record{Topic: topic, Key: key, Value: e.Offset.Value(), Partition: Partition(key, se.partitions), Timestamp: now})
	}
	se.flight.entries(len(se.entryBuf))
	for i := range se.entryBuf {
		se.cl.Produce(context.Background(), &se.entryBuf[i], se.flight.entryDone)
	}
}

// close ends the client and waits until it has given back every chunk.
func (se *session) close() {
	se.cl.Close()
	se.flight.drain()
}

// connection remembers the last failure to connect, to say why nothing moves.
type connection struct {
	mu   sync.Mutex
	addr string
	err  error
}

var _ kgo.HookBrokerConnect = (*connection)(nil)

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (c *connection) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addr, c.err = net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), err
}

func (c *connection) suffix() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return ""
	}
	return fmt.Sprintf("; %s: %v", c.addr, c.err)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Partition returns the partition, among n, that the Java client's default partitioner gives to a key.
func Partition(key []byte, n int32) int32 { return offsets.KafkaPartition(key, n) }
