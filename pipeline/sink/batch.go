package sink

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/pipeline"
)

// batch is a chunk on its way to Kafka. It lives in Chunk.Scratch and is reused with its chunk, so
// that a steady stream allocates nothing here.
type batch struct {
	records []kgo.Record
	headers []kgo.RecordHeader
	promise func(*kgo.Record, error) // bound once
	left    atomic.Int64             // promises to come, plus one while producing
	chunk   *pipeline.Chunk
	flight  *flight
}

func newBatch() *batch {
	b := &batch{}
	b.promise = b.done
	return b
}

// produce gives all records to the client. From the first on, the chunk may be released at any
// time after the last.
func (b *batch) produce(se *session, c *pipeline.Chunk) {
	b.fill(c)
	b.chunk, b.flight = c, se.flight
	b.left.Store(int64(len(b.records)) + 1)
	ctx := context.Background() // a cancelled record would spoil the producer; Write's context bounds only its waits
	for i := range b.records {
		se.cl.Produce(ctx, &b.records[i], b.promise)
	}
	b.finish()
}

func (b *batch) fill(c *pipeline.Chunk) {
	b.headers = b.headers[:0]
	if n := len(c.Headers); cap(b.headers) < n {
		b.headers = make([]kgo.RecordHeader, 0, n)
	}
	if n := len(c.Records); cap(b.records) < n {
		b.records = make([]kgo.Record, n, max(n, cap(c.Records)))
	} else {
		b.records = b.records[:n]
	}
	for i := range c.Records {
		r := &c.Records[i]
		first := len(b.headers)
		for _, h := range r.Headers {
			b.headers = append(b.headers, kgo.RecordHeader(h))
		}
		b.records[i] = kgo.Record{
			Topic: r.Topic, Partition: r.Partition, Key: r.Key, Value: r.Value,
			Headers: b.headers[first:len(b.headers):len(b.headers)], Timestamp: time.UnixMilli(r.Timestamp),
		}
	}
}

func (b *batch) done(r *kgo.Record, err error) {
	if err != nil {
		b.flight.fail(&b.flight.first, r, err)
	}
	b.finish()
}

func (b *batch) finish() {
	if b.left.Add(-1) != 0 {
		return
	}
	c, f := b.chunk, b.flight
	n := len(c.Buf)
	b.chunk, b.flight = nil, nil
	c.Release()
	f.free(n)
}

// failure is a record that Kafka or the client refused.
type failure struct {
	topic string
	size  int // of key, value and headers, in bytes
	err   error
}

// flight counts what is on its way and keeps the first failure since the last Abort.
type flight struct {
	failed atomic.Bool // set with the first failure; spares the lock
	freed  chan struct{}

	mu     sync.Mutex
	idle   *sync.Cond
	bytes  int
	chunks int
	few    int           // offset entries
	since  time.Time     // when Kafka last took something, or began to have something to take
	still  time.Duration // longest time since the transaction began in which it took nothing of what it was given
	first  failure       // of a data record
	entry  failure       // of an offset entry: told only where no data record failed

	entryDone func(*kgo.Record, error)
}

func newFlight() *flight {
	f := &flight{freed: make(chan struct{}, 1)}
	f.idle = sync.NewCond(&f.mu)
	f.entryDone = func(r *kgo.Record, err error) {
		f.mu.Lock()
		f.few--
		f.moved()
		f.mu.Unlock()
		if err != nil {
			f.fail(&f.entry, r, err)
		}
	}
	return f
}

func (f *flight) reserve(n, limit int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chunks > 0 && f.bytes+n > limit {
		return false
	}
	f.given()
	f.bytes += n
	f.chunks++
	return true
}

// entries counts offset entries on their way.
func (f *flight) entries(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.given()
	f.few += n
}

// given notes when the waiting for Kafka begins; the lock is held.
func (f *flight) given() {
	if f.chunks+f.few == 0 {
		f.since = time.Now()
	}
}

// moved notes that Kafka has answered; the lock is held.
func (f *flight) moved() {
	now := time.Now()
	f.still, f.since = max(f.still, now.Sub(f.since)), now
}

func (f *flight) free(n int) {
	f.mu.Lock()
	f.bytes -= n
	f.moved()
	if f.chunks--; f.chunks == 0 {
		f.idle.Broadcast()
	}
	f.mu.Unlock()
	f.wake()
}

// waited notes how long Kafka took for something else of the transaction.
func (f *flight) waited(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.still = max(f.still, d)
}

// stillFor returns the longest time since the transaction began in which Kafka took nothing.
func (f *flight) stillFor() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.chunks+f.few > 0 {
		return max(f.still, time.Since(f.since))
	}
	return f.still
}

// begin forgets what was before the transaction.
func (f *flight) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.still = 0
}

func (f *flight) wake() {
	select {
	case f.freed <- struct{}{}:
	default:
	}
}

func (f *flight) fail(slot *failure, r *kgo.Record, err error) {
	f.mu.Lock()
	if slot.err == nil && !errors.Is(err, kgo.ErrAborting) {
		size := len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			size += len(h.Key) + len(h.Value)
		}
		*slot = failure{topic: r.Topic, size: size, err: err}
		f.failed.Store(true)
	}
	f.mu.Unlock()
	f.wake()
}

// failure returns the first failure; its err is nil where all went well.
func (f *flight) failure() failure {
	if !f.failed.Load() {
		return failure{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first.err != nil {
		return f.first
	}
	return f.entry
}

func (f *flight) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first, f.entry = failure{}, failure{}
	f.failed.Store(false)
}

// drain waits until every chunk was given back.
func (f *flight) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.chunks > 0 {
		f.idle.Wait()
	}
}
