package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// committer writes what the reader has read and commits it in groups of whole source transactions.
type committer struct {
	cfg    *Config
	source connectors.Source
	sink   Sink
	q      *queue

	group      group
	run        []item
	lastCommit time.Time
	lastSize   int                // records of the last commit
	progress   bool               // something was committed
	alone      int                // source transactions still to be committed one by one
	gen        offsets.Generation // the reader's once it runs
}

// group is the open Kafka transaction.
type group struct {
	open     bool
	huge     bool // holds a part of one source transaction, whose end is missing
	stats    Committed
	began    time.Time
	boundary offsets.Object
}

// run works until the queue is closed and drained, and returns the reader's error, or its own
// where writing or committing went wrong.
func (c *committer) work(ctx context.Context) error {
	for {
		s, err := c.await(ctx)
		if err != nil {
			return err
		}
		if s.closed && !s.ready {
			return c.finish(ctx)
		}
		if !s.ready { // a lazy boundary is due
			err = c.commit(ctx)
		} else {
			err = c.collect(ctx, s)
		}
		if err != nil {
			return err
		}
	}
}

// await waits until there is something to write, a lazy boundary is due, or the queue is closed.
func (c *committer) await(ctx context.Context) (status, error) {
	for {
		s := c.q.waiting(true)
		var due <-chan time.Time
		if s.lazy {
			left := time.Until(s.lazySince.Add(c.cfg.LazyInterval))
			if left <= 0 && !c.group.huge {
				return s, nil
			}
			if !c.group.huge {
				due = time.After(left)
			}
		}
		if s.ready || s.closed {
			return s, nil
		}
		select {
		case <-c.q.wake:
		case <-due:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// collect writes what is ready as one group and commits it. A group that is small when it is
// first looked at is committed at once; a busy one takes more until a limit or the source pauses.
func (c *committer) collect(ctx context.Context, s status) error {
	if err := c.pause(ctx, s.closed); err != nil {
		return err
	}
	s = c.q.waiting(false)
	age, idle := c.cfg.GroupAge, c.cfg.IdleAfter
	busy := s.records >= busyRecords
	if delay, ok := c.backlog(s); ok {
		busy = true
		age, idle = max(age, min(delay/10, backlogAge)), max(idle, min(delay/50, backlogIdle))
	}
	busy = busy && !s.closed
	deadline := time.Now().Add(age)
	for {
		all := !busy
		if c.run = c.q.take(c.run, all); c.run != nil {
			committed, err := c.write(ctx, c.run)
			if err != nil || committed {
				return err
			}
			continue
		}
		switch {
		case c.group.huge: // its rest is not there yet
			return nil
		case all && !c.group.open:
			return nil
		case all:
			return c.commit(ctx)
		}
		busy = c.more(deadline, idle)
	}
}

// write writes one run of items. It reports whether a commit ended the group: before a huge
// transaction, after it, or because a limit was reached.
func (c *committer) write(ctx context.Context, run []item) (committed bool, err error) {
	if run[0].huge && c.group.open && !c.group.huge {
		// A huge transaction never shares: were it to fail, it would take the complete ones with it.
		if err := c.commit(ctx); err != nil {
			return false, err
		}
	}
	g := &c.group
	for i, it := range run {
		if !g.open {
			*g = group{open: true, began: time.Now()}
		}
		g.huge = it.huge && !it.end
		if it.end {
			g.boundary = it.boundary
			g.stats.Transactions += it.txs
			g.stats.SourceTime = max(g.stats.SourceTime, it.sourceTime)
		}
		if it.chunk == nil {
			continue
		}
		g.stats.Records += len(it.chunk.Records)
		g.stats.Bytes += len(it.chunk.Buf)
		if err := c.sink.Write(ctx, it.chunk); err != nil {
			for _, rest := range run[i+1:] {
				if rest.chunk != nil {
					rest.chunk.Release()
				}
			}
			return false, fmt.Errorf("write records: %w", err)
		}
	}
	last := run[len(run)-1]
	if c.alone > 0 && last.end {
		c.alone -= g.stats.Transactions
		return true, c.commit(ctx)
	}
	if last.huge && last.end || !g.huge && (g.stats.Records >= c.cfg.GroupRecords || g.stats.Bytes >= c.cfg.GroupBytes) {
		return true, c.commit(ctx)
	}
	return false, nil
}

// backlog tells whether the stream works off a backlog, and how old its changes are: a group may then take a part of that time
// more. Age alone proves nothing, since the database's clock may be behind; a stream is also busy, or was until just now.
func (c *committer) backlog(s status) (delay time.Duration, ok bool) {
	busy := s.records >= busyRecords || c.lastSize >= busyRecords && time.Since(c.lastCommit) < backlogPause
	if s.sourceTime == 0 || !busy {
		return 0, false
	}
	delay = time.Since(time.UnixMicro(s.sourceTime))
	return delay, delay >= backlogDelay
}

// more waits for a busy stream to give more. It returns false when the source has paused, the
// group is old enough, or reading has ended.
func (c *committer) more(deadline time.Time, idle time.Duration) bool {
	active := c.q.active.Load()
	left := time.Until(deadline)
	if left <= 0 || c.q.waiting(false).closed {
		return false
	}
	select {
	case <-c.q.wake:
		return true
	case <-time.After(min(left, idle)):
		return c.q.active.Load() != active
	}
}

// pause keeps Linger between a commit and the next write: see Pace in doc.go.
func (c *committer) pause(ctx context.Context, closed bool) error {
	left := time.Until(c.lastCommit.Add(c.cfg.Linger))
	if left <= 0 || closed || c.group.open || c.lastCommit.IsZero() {
		return nil
	}
	select {
	case <-time.After(left):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commit commits the open Kafka transaction with the newest boundary it covers, then acknowledges
// that boundary.
func (c *committer) commit(ctx context.Context) error {
	g := &c.group
	if !g.open {
		*g = group{began: time.Now()}
	}
	if lazy := c.q.takeLazy(); lazy != nil {
		g.boundary = lazy
	}
	var entries []offsets.Entry
	if g.boundary != nil {
		entries = append(entries, c.cfg.streamEntry(g.boundary))
	}
	if err := c.sink.Commit(ctx, entries...); err != nil {
		return fmt.Errorf("commit a Kafka transaction of %d records: %w", g.stats.Records, err)
	}
	c.lastCommit, c.progress = time.Now(), true
	c.lastSize = g.stats.Records
	g.stats.Duration = c.lastCommit.Sub(g.began)
	c.cfg.committed(g.stats)
	boundary := g.boundary
	*g = group{}
	if boundary == nil {
		return nil
	}
	return c.acknowledge(ctx, boundary)
}

// acknowledge tells the source about a boundary that is committed: this start's newest, or the
// one loaded as stored. No other function acknowledges.
func (c *committer) acknowledge(ctx context.Context, boundary offsets.Object) error {
	if err := c.source.Ack(ctx, boundary); err != nil {
		return fmt.Errorf("acknowledge to the source: %w", err)
	}
	c.cfg.acknowledged(boundary)
	return nil
}

// finish ends the work after the reader's last item: a transaction whose end never came is
// aborted, a lazy boundary recorded. It returns the reader's error.
func (c *committer) finish(ctx context.Context) error {
	if c.group.open { // only an unfinished huge transaction leaves a group open
		if err := c.sink.Abort(ctx); err != nil {
			return fmt.Errorf("abort a Kafka transaction: %w", err)
		}
		c.group = group{}
	}
	if c.q.waiting(false).lazy {
		if err := c.commit(ctx); err != nil {
			return err
		}
	}
	return c.q.err
}
