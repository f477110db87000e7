// Package sink writes the pipeline's records to Kafka: the transactional producer with the
// offsets in the same transaction, the data topics, and what the broker's settings guarantee.
//
// The Kafka client does not protect a commit: it commits what succeeded even where a record of
// the transaction failed. So every promise is checked before a commit, and the offset entries,
// which are produced last, can never commit without their data.
package sink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline"
)

var (
	// ErrTimedOut tells that the transaction outlived its timeout and was aborted by the broker.
	// One rebuild (Fence, reload) is worth trying; then the source transaction is too long.
	ErrTimedOut = pipeline.ErrTransactionTimedOut
	// ErrUnknownOutcome tells that a commit may or may not have happened: fence, reload, compare.
	ErrUnknownOutcome = errors.New("the outcome of the Kafka commit is unknown")

	errNotFenced = errors.New("the sink must be fenced first")
)

// Mode is what a sink guarantees.
type Mode string

// The modes, as the configuration names them.
const (
	Transactional Mode = "transactional"
	Idempotent    Mode = "idempotent"
)

// Config configures a Sink.
type Config struct {
	Opts []kgo.Opt // connection to Kafka
	Mode Mode      // empty: Transactional

	TransactionalID string
	// Before is kept by the worker over all its sinks, so that it does not fence whom it was fenced by; nil: it may.
	Before *Incarnation
	// TransactionTimeout is the longest Kafka transaction; zero takes the most that the broker allows.
	TransactionTimeout time.Duration

	OffsetsTopic string // must exist when Fence is called
	Connector    string // name of the connector, for the entries' keys

	Compression string // none, gzip, snappy, lz4 or zstd; empty: none
	// MaxRequestSize is the largest batch in bytes, before compression; zero: 1 MiB. A record beyond it blocks.
	MaxRequestSize int32
	// MaxMessageBytes returns a topic's max.message.bytes, so that no batch is cut larger; nil or 0: unknown.
	MaxMessageBytes func(topic string) int
	// MaxBufferedBytes bounds the chunks given to the client and not yet acknowledged; zero: 64 MiB.
	MaxBufferedBytes int
	// Pause is how long after a commit the next record waits; zero: 5 ms, negative: none. Sooner the
	// broker still writes markers and would hold the record for 20 ms. A quiet stream never waits.
	Pause time.Duration
	// Report takes the state while Kafka does not take records; it may be nil.
	Report connectors.Reporter
}

const (
	defaultRequestSize   = 1 << 20
	defaultBufferedBytes = 64 << 20
	defaultPause         = 5 * time.Millisecond
	produceLinger        = 5 * time.Millisecond // fuller batches; a commit flushes and waits for none of it
	endTimeout           = 60 * time.Second     // EndTxn gets this long, whatever the caller's context says
	abortTimeout         = 5 * time.Second
	reportStallAfter     = 5 * time.Second
)

// Sink implements pipeline.Sink. Its methods are called by one goroutine.
type Sink struct {
	cfg        Config
	stallAfter time.Duration // a wait for Kafka this long is reported
	session    *session      // nil before the first Fence and after Close
}

var _ pipeline.Sink = (*Sink)(nil)

// New returns a sink; it does not connect.
func New(cfg Config) (*Sink, error) {
	if cfg.Mode == "" {
		cfg.Mode = Transactional
	}
	switch {
	case cfg.Mode != Transactional && cfg.Mode != Idempotent:
		return nil, connectors.Refuse(fmt.Errorf("mode %q is not one of transactional, idempotent", cfg.Mode))
	case cfg.Mode == Transactional && cfg.TransactionalID == "":
		return nil, connectors.Refuse(errors.New("mode transactional needs a transactional id"))
	case cfg.OffsetsTopic == "" || cfg.Connector == "":
		return nil, connectors.Refuse(errors.New("a sink needs the offsets topic and the connector's name"))
	}
	if _, err := compression(cfg.Compression); err != nil {
		return nil, connectors.Refuse(err)
	}
	if cfg.Mode == Idempotent {
		cfg.Before = nil // nobody fences
	}
	if cfg.MaxRequestSize == 0 {
		cfg.MaxRequestSize = defaultRequestSize
	}
	if cfg.MaxBufferedBytes == 0 {
		cfg.MaxBufferedBytes = defaultBufferedBytes
	}
	if cfg.Pause == 0 {
		cfg.Pause = defaultPause
	}
	if cfg.Report == nil {
		cfg.Report = func(connectors.State) {}
	}
	return &Sink{cfg: cfg, stallAfter: reportStallAfter}, nil
}

func compression(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "", "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), fmt.Errorf("compression.type %q is not one of none, gzip, snappy, lz4, zstd", name)
}

// batchBytes is the largest batch for a topic: the broker refuses a whole batch over the topic's
// limit, and the client does not split it.
func (s *Sink) batchBytes(topic string) int32 {
	limit := s.cfg.MaxRequestSize
	if s.cfg.MaxMessageBytes != nil && topic != "" {
		if n := s.cfg.MaxMessageBytes(topic); n > 0 && n < int(limit) {
			limit = int32(n)
		}
	}
	return min(max(limit, 512), 1<<30)
}

func (s *Sink) clientOpts(timeout time.Duration) []kgo.Opt {
	codec, _ := compression(s.cfg.Compression) // checked by New
	opts := append(s.cfg.Opts[:len(s.cfg.Opts):len(s.cfg.Opts)],
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytesFn(s.batchBytes),
		kgo.ProducerLinger(produceLinger),
		kgo.MaxBufferedRecords(math.MaxInt32), // memory is bounded by chunks, in Write
		kgo.BrokerMaxWriteBytes(max(100<<20, s.cfg.MaxRequestSize)),
	)
	if s.cfg.Mode == Transactional {
		opts = append(opts, kgo.TransactionalID(s.cfg.TransactionalID), kgo.TransactionTimeout(timeout))
	}
	return opts
}

// Write hands the chunk's records to the client, in order. It waits where more than
// MaxBufferedBytes are on their way, and after a commit for the pause. The first failure of any
// record since the last commit is returned here or by Commit.
func (s *Sink) Write(ctx context.Context, c *pipeline.Chunk) error {
	se, err := s.usable()
	if err == nil && len(c.Records) > 0 {
		if err = s.begin(ctx, se); err == nil {
			err = s.reserve(ctx, se, len(c.Buf))
		}
	}
	if err != nil {
		c.Release()
		return err
	}
	se.entries = append(se.entries, c.Entries...)
	if len(c.Records) == 0 {
		c.Release()
		return nil
	}
	se.records += int64(len(c.Records))
	b, ok := c.Scratch.(*batch)
	if !ok {
		b = newBatch()
		c.Scratch = b
	}
	b.produce(se, c)
	return nil
}

// Commit produces the entries of the chunks written since the last commit, then entries, and
// commits. Without records and entries it does nothing. See ErrTimedOut and ErrUnknownOutcome; an
// error of class fenced tells that another worker has taken over.
func (s *Sink) Commit(ctx context.Context, entries ...offsets.Entry) error {
	se, err := s.usable()
	if err != nil {
		return err
	}
	if !se.open && len(entries)+len(se.entries) == 0 {
		return nil
	}
	if err := s.begin(ctx, se); err != nil {
		return err
	}
	if s.cfg.Mode == Idempotent { // nothing joins the two, so the data must be there first
		if err := s.flush(ctx, se); err != nil {
			return err
		}
	}
	se.entries = append(se.entries, entries...)
	se.produceEntries(s.cfg.OffsetsTopic, s.cfg.Connector)
	if err := s.flush(ctx, se); err != nil {
		return err
	}
	if s.cfg.Mode == Transactional {
		if err := s.end(ctx, se); err != nil {
			return err
		}
	}
	se.ended()
	return nil
}

// Abort discards what was written since the last commit. Where it fails, the next Fence does it.
func (s *Sink) Abort(ctx context.Context) error {
	se := s.session
	if se == nil || se.spent != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err := se.cl.AbortBufferedRecords(ctx)
	if err == nil && se.open && s.cfg.Mode == Transactional {
		err = se.cl.EndTransaction(ctx, kgo.TryAbort)
	}
	if err != nil {
		se.spent = fmt.Errorf("abort the Kafka transaction: %w", err)
		return se.spent
	}
	se.flight.forget()
	se.ended()
	return nil
}

// Close aborts an open transaction, for at most 5 s, and ends the client.
func (s *Sink) Close(ctx context.Context) error {
	if s.session == nil {
		return nil
	}
	var err error
	if s.session.open {
		err = s.Abort(ctx)
	}
	s.cfg.Before.remember(s.session)
	s.session.close()
	s.session = nil
	return err
}

// TransactionTimeout returns the timeout in force since the last Fence.
func (s *Sink) TransactionTimeout() time.Duration {
	if s.session == nil {
		return s.cfg.TransactionTimeout
	}
	return s.session.timeout
}

// usable returns the session, or the failure that stands between it and any further record.
func (s *Sink) usable() (*session, error) {
	se := s.session
	if se == nil {
		return nil, errNotFenced
	}
	if se.spent != nil {
		return nil, se.spent
	}
	if err := s.failure(se); err != nil {
		return nil, err
	}
	return se, nil
}
