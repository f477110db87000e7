package pipeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// once makes one start and streams until something ends it. The error is nil only when the context ended.
func (r *runner) once(ctx context.Context) (err error) {
	r.progress, r.group = false, 0
	cfg := r.cfg
	sink, err := cfg.NewSink()
	if err != nil {
		return fmt.Errorf("prepare the sink: %w", err)
	}
	defer r.release(ctx, "sink", sink.Close)
	if err := sink.Fence(ctx); err != nil {
		return fmt.Errorf("take over from an earlier worker: %w", err)
	}
	stored, err := cfg.Store.Load(ctx)
	if err != nil {
		return fmt.Errorf("load offsets: %w", err)
	}
	if err := cfg.checkOwner(stored); err != nil {
		return err
	}
	source, err := cfg.NewSource()
	if err != nil {
		return fmt.Errorf("prepare the source: %w", err)
	}
	defer r.release(ctx, "source", source.Close)
	opened, err := source.Open(ctx, stored)
	if err != nil {
		return r.overtaken(ctx, stored, fmt.Errorf("open the source: %w", err))
	}
	gen, begins, err := cfg.generation(ctx, stored, opened)
	if err != nil {
		return err
	}
	r.report("STARTING", fmt.Sprintf("preparing topics and schemas of %d tables", len(opened.Tables))) // hundreds of new topics take a while
	if err := cfg.Encoder.Prepare(ctx, gen.Number, opened.Tables, stored); err != nil {
		return fmt.Errorf("prepare topics and schemas: %w", err)
	}
	c := &committer{cfg: cfg, source: source, sink: sink, q: newQueue(), alone: r.alone, gen: gen}
	work, cancel := outlive(ctx, cfg.StopTimeout)
	defer cancel()
	cfg.Log.Info("streaming", "generation", gen.Number, "from", opened.Start, "tables", tableNames(opened.Tables))
	r.report("RUNNING", "")
	if err = c.begin(work, gen, begins, stored, opened); err == nil {
		err = r.stream(ctx, work, c)
	}
	r.progress, r.group = c.progress, c.group.stats.Transactions
	return err
}

// overtaken tells a source that does not go with the stored offsets from one that another worker has moved on since they were
// read: it has taken over, and nothing is wrong.
func (r *runner) overtaken(ctx context.Context, stored []offsets.Entry, err error) error {
	if connectors.ClassOf(err) != connectors.ClassRefused {
		return err
	}
	now, loadErr := r.cfg.Store.Load(ctx)
	if loadErr != nil {
		return err
	}
	stream := offsets.StreamPartition(r.cfg.Server)
	before, _ := offsets.Find(stored, stream)
	after, _ := offsets.Find(now, stream)
	if before.Equal(after) {
		return err
	}
	return connectors.WithClass(connectors.ClassFenced, fmt.Errorf("another worker has taken over connector %q while this one was starting: %w", r.cfg.Connector, err))
}

// tableNames names the tables for a log line, the first fifty of them.
func tableNames(tables []*schema.Table) string {
	names := make([]string, 0, len(tables))
	for _, t := range tables[:min(50, len(tables))] {
		names = append(names, t.QualifiedName())
	}
	if more := len(tables) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// begin records what differs from the stored offsets before anything is streamed: a new
// generation with its activation record, and a boundary the source has reconciled; in one Kafka transaction.
func (c *committer) begin(ctx context.Context, gen offsets.Generation, begins bool, stored []offsets.Entry, opened connectors.Opened) error {
	boundary := opened.Boundary
	if boundary != nil && !begins {
		now := c.cfg.streamEntry(boundary)
		if before, ok := offsets.Find(stored, now.Partition); ok && before.Equal(now.Offset) {
			return c.acknowledge(ctx, boundary) // the last run may not have come to it
		}
	}
	if boundary == nil && !begins {
		return nil
	}
	first := item{end: true, full: true, boundary: boundary}
	if begins {
		first.chunk = c.cfg.activation(gen)
	}
	committed, err := c.write(ctx, []item{first})
	if err == nil && !committed {
		err = c.commit(ctx)
	}
	if err != nil {
		return err
	}
	c.lastCommit, c.progress = time.Time{}, false // neither a reason to pause nor to try again sooner
	return nil
}

// stream runs reader and committer side by side. The reader stops with the context; the
// committer then works off what is complete.
func (r *runner) stream(ctx, work context.Context, c *committer) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	pool := newPool(r.cfg.MemoryBudget, r.cfg.ChunkBytes)
	rd := &reader{
		source: c.source, enc: r.cfg.Encoder, q: c.q, pool: pool,
		limit: r.cfg.ChunkBytes - r.cfg.ChunkBytes/8, // a chunk is full once it is beyond: room for the record that crosses
		hold:  r.cfg.MemoryBudget / 2,
		alone: c.alone,
		activate: func(ch *Chunk) {
			if !c.gen.Building { // active from its begin, or already since
				return
			}
			c.gen.Building = false
			made := r.cfg.activation(c.gen)
			ch.Records, ch.Entries = append(ch.Records, made.Records...), append(ch.Entries, made.Entries...)
		},
	}
	if ends, ok := r.cfg.Encoder.(TransactionEncoder); ok && ends.PublishesTransactions() {
		rd.ends = ends
	}
	var g errgroup.Group
	g.Go(func() error {
		c.q.close(rd.run(reading))
		return nil
	})
	err := c.work(work)
	stop()
	_ = g.Wait() // its error came through the queue
	pool.mu.Lock()
	r.peak = max(r.peak, pool.peak)
	pool.mu.Unlock()
	return err
}

// release closes something within StopTimeout, also after the context has ended.
func (r *runner) release(ctx context.Context, what string, closer func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.StopTimeout)
	defer cancel()
	if err := closer(ctx); err != nil {
		r.cfg.Log.Warn("close "+what, "reason", err)
	}
}

// outlive returns a context that ends grace after ctx has, or when cancelled.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel()
		case <-work.Done():
		}
	})
	return work, func() { stop(); cancel() }
}
