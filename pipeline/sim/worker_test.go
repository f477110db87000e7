package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
	"github.com/tidemark-cdc/tidemark/pipeline/sink"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// worker is one process. It is put together as connectctl does it.
type worker struct {
	n    int
	r    *round
	host *host
	stop context.CancelFunc
	done chan struct{}
	err  error // after done
}

// noRegistry is for converters without one.
type noRegistry struct{}

func (noRegistry) Resolve(context.Context, string, string) (int, error) {
	return 0, errors.New("no registry")
}
func (noRegistry) SchemaByID(context.Context, int) (string, error) {
	return "", errors.New("no registry")
}

func (r *round) start() *worker {
	ctx, cancel := context.WithCancel(context.Background())
	r.mu.Lock()
	w := &worker{n: len(r.workers) + 1, r: r, stop: cancel, done: make(chan struct{})}
	w.host = &host{
		worker: w.n, virtual: &r.virtual, dead: make(chan struct{}), links: map[*link]struct{}{}, epochs: &r.epochs, all: &r.links,
		decide: func(key int16) fate { return r.plan.fate(w.n, key) },
		refuse: r.refuse,
	}
	r.workers = append(r.workers, w)
	r.mu.Unlock()
	r.plan.note("w%d starts", w.n)
	go func() {
		w.err = w.run(ctx)
		cancel()
		r.plan.note("w%d ends: %v", w.n, w.err)
		r.ended(w)
		close(w.done)
	}()
	go func() {
		select {
		case <-w.host.dead:
			r.plan.note("w%d was killed", w.n)
			cancel()
		case <-w.done:
		}
	}()
	return w
}

func (w *worker) running() bool {
	select {
	case <-w.done:
		return false
	default:
		return !w.host.killed()
	}
}

func (w *worker) run(ctx context.Context) error {
	p := w.r.plan
	opts, err := kafkaconf.Options(map[string]string{"bootstrap.servers": w.r.bootstrap, "client.id": fmt.Sprint("w", w.n)})
	if err != nil {
		return err
	}
	opts = append(opts, kgo.Dialer(w.host.dial))
	known, err := sink.NewTopics(sink.TopicsConfig{Opts: opts})
	if err != nil {
		return err
	}
	defer known.Close()
	converter := connect.Converter{JSON: true}
	enc, err := encode.New(encode.Config{Prefix: prefix, Tombstones: true, Deletes: true, Key: converter, Value: converter, Transactions: true, Registry: noRegistry{}, Topics: known})
	if err != nil {
		return err
	}
	report := func(s connectors.State) {
		if s.Name != "RUNNING" && s.Reason != "" {
			p.note("w%d %s: %s", w.n, s.Name, s.Reason)
		}
	}
	store := kafkastore.New(kafkastore.Config{Topic: offsetsTopic, Connector: connector, Server: prefix, Opts: opts, TransactionTimeout: p.timeout, Report: report})
	var before sink.Incarnation
	starts := 0
	return pipeline.Run(ctx, pipeline.Config{
		NewSource: func() (connectors.Source, error) {
			starts++
			s := sourcetest.New(w.r.d.log, prefix, tables...)
			cuts := p.rng(uint64(w.n)<<16 | uint64(starts))
			s.Early, s.Cut = p.early, func(int) int { return 1 + cuts.IntN(p.maxCut) }
			return &source{Source: s, d: w.r.d, w: w}, nil
		},
		NewSink: func() (pipeline.Sink, error) {
			if w.host.killed() {
				return nil, errDead
			}
			return sink.New(sink.Config{
				Opts: opts, TransactionalID: "group-" + connector + "-0", Before: &before, TransactionTimeout: p.timeout, OffsetsTopic: offsetsTopic, Connector: connector,
				MaxMessageBytes: known.MaxMessageBytes, MaxBufferedBytes: 8 * p.chunk, Pause: p.linger, Report: report,
			})
		},
		Encoder: enc, Store: store,
		Generations: sink.NewGenerations(opts, func(t *schema.Table) string { return topicOf(t) }, encode.GenerationsTopic(prefix)),
		Server:      prefix, Connector: connector, Group: "group", GenerationsTopic: encode.GenerationsTopic(prefix),
		ChunkBytes: p.chunk, MemoryBudget: 8 * p.chunk, GroupRecords: p.records, Linger: p.linger, LazyInterval: 2 * time.Second, Report: report,
	})
}
