// Package watch shows what happens to a stream while it runs: records as a reader decodes them, their
// rate, and the database's slot beside the offset Kafka has committed. It reads from outside, like
// anybody could; the pipeline tells it nothing.
package watch

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// boundaryField is the member of the stream's offset that says how far everything is published.
const boundaryField = "boundary_lsn"

// Config says what to watch.
type Config struct {
	Seeds        []string
	Prefix       string // of the data topics' names
	OffsetsTopic string
	Connector    string
	Registry     *registry.Client
}

// Watcher reads data and offsets as they are committed.
type Watcher struct {
	cfg    Config
	codecs map[int]*avro.Codec // used by Run's goroutine only

	mu        sync.Mutex
	records   int64
	first     time.Time // when the first record was seen
	sample    string    // a decoded record, taken away when shown
	nextAt    time.Time // not before may another sample be decoded
	committed pgoutput.LSN
	changed   chan struct{} // closed and replaced when committed or records moves from zero
}

// New returns a watcher.
func New(cfg Config) *Watcher {
	return &Watcher{cfg: cfg, codecs: map[int]*avro.Codec{}, changed: make(chan struct{})}
}

// Run reads until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cfg.Seeds...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+regexp.QuoteMeta(w.cfg.Prefix), "^"+regexp.QuoteMeta(w.cfg.OffsetsTopic)+"$"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		return fmt.Errorf("watch the topics: %w", err)
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if fetches.IsClientClosed() {
			return errors.New("watch the topics: the Kafka client was closed")
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Topic == w.cfg.OffsetsTopic {
				w.offset(r)
			} else {
				w.data(ctx, r)
			}
		})
	}
}

func (w *Watcher) offset(r *kgo.Record) {
	name, partition, err := offsets.ParseKey(r.Key)
	if err != nil || name != w.cfg.Connector {
		return
	}
	if _, other := partition.Get("kind"); other {
		return
	}
	value, err := offsets.ParseObject(r.Value)
	if err != nil {
		return
	}
	text, _ := value.Text(boundaryField)
	lsn, err := pgoutput.ParseLSN(text)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.committed = max(w.committed, lsn)
	w.wake()
}

func (w *Watcher) data(ctx context.Context, r *kgo.Record) {
	if r.Value == nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	w.records++
	if w.records == 1 {
		w.first = now
		w.wake()
	}
	show := now.After(w.nextAt)
	if show {
		w.nextAt = now.Add(300 * time.Millisecond)
	}
	w.mu.Unlock()
	if !show {
		return
	}
	if text, err := w.decode(ctx, r); err == nil {
		w.mu.Lock()
		w.sample = text
		w.mu.Unlock()
	}
}

func (w *Watcher) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// decode renders a record for people.
func (w *Watcher) decode(ctx context.Context, r *kgo.Record) (string, error) {
	id, body, err := registry.ParseHeader(r.Value)
	if err != nil {
		return "", err
	}
	c := w.codecs[id]
	if c == nil {
		text, err := w.cfg.Registry.SchemaByID(ctx, id)
		if err != nil {
			return "", err
		}
		if c, err = avro.NewCodec(text); err != nil {
			return "", err
		}
		w.codecs[id] = c
	}
	text, err := c.AppendJSON(nil, body)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(r.Topic, w.cfg.Prefix) + " " + string(text), nil
}

// Records returns how many data records a reader has seen, tombstones aside.
func (w *Watcher) Records() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.records
}

// Committed returns how far the offset that Kafka has committed says everything is published; 0 before the first.
func (w *Watcher) Committed() pgoutput.LSN {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.committed
}

// Sample returns a record decoded since the last call, or "".
func (w *Watcher) Sample() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.sample
	w.sample = ""
	return s
}

// WaitRecord waits for the first data record.
func (w *Watcher) WaitRecord(ctx context.Context) error {
	return w.wait(ctx, func() bool { return w.records > 0 })
}

// WaitCommitted waits until everything up to lsn is published, by the committed offset.
func (w *Watcher) WaitCommitted(ctx context.Context, lsn pgoutput.LSN) error {
	return w.wait(ctx, func() bool { return w.committed >= lsn })
}

func (w *Watcher) wait(ctx context.Context, done func() bool) error {
	for {
		w.mu.Lock()
		ok, changed := done(), w.changed
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
