package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

const (
	liveSessions = 8 // enough for 1,000 commits a second, with fsync, one after the other in each
	liveTimeout  = 30 * time.Second
)

// live is a stream of single-row transactions into a table, and the consumer that waits for them.
type live struct {
	sessions []*pgx.Conn
	consumer *kgo.Client
	insert   string
	last     int64 // id of the newest row
}

// timings are of one run of a live stream.
type timings struct {
	lags []time.Duration // from the return of each COMMIT to the consumer's poll
	took time.Duration   // of the commits
}

// live opens sessions and a consumer for a table of ordersTable's columns. The connector must have made its topic.
func (b *bench) live(ctx context.Context, slot, table string) (l *live, err error) {
	l = &live{insert: "INSERT INTO " + table + " SELECT " + orderRow + " FROM (SELECT $1::bigint AS i) x"}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := b.sql.QueryRow(ctx, "SELECT coalesce(max(id), 0) FROM "+table).Scan(&l.last); err != nil {
		return nil, err
	}
	for range liveSessions {
		c, err := b.connect(ctx)
		if err != nil {
			return nil, err
		}
		l.sessions = append(l.sessions, c)
	}
	l.consumer, err = kgo.NewClient(kgo.SeedBrokers(b.kafka.Bootstrap()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeTopics(slot+".public."+table), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(50*time.Millisecond))
	return l, err
}

func (l *live) close() {
	for _, c := range l.sessions {
		_ = c.Close(context.Background())
	}
	if l.consumer != nil {
		l.consumer.Close()
	}
}

// run commits single-row transactions at a rate for a while and waits until the consumer has seen them all.
func (l *live) run(ctx context.Context, rate int, during time.Duration) (timings, error) {
	t, err := l.until(ctx, rate, func(due time.Duration) bool { return due >= during })
	t.took = max(t.took, during)
	return t, err
}

// until is run with an end of its own: stop is asked before every transaction, with when it is due. They are
// due by the clock, so that a slow commit does not slow the others down.
func (l *live) until(ctx context.Context, rate int, stop func(due time.Duration) bool) (t timings, err error) {
	var (
		first           = l.last + 1
		next            atomic.Int64
		committed, seen stamps
		began           = time.Now()
	)
	reading, cancel := context.WithCancel(ctx)
	read := make(chan error, 1)
	go func() { read <- l.read(reading, first, &seen) }()
	g, ctx := errgroup.WithContext(ctx) // ends with the last commit
	for _, c := range l.sessions {
		g.Go(func() error {
			for {
				i := next.Add(1) - 1
				due := time.Duration(i) * time.Second / time.Duration(rate)
				if stop(due) {
					return nil
				}
				sleepUntil(ctx, began.Add(due))
				if ctx.Err() != nil || stop(due) {
					return ctx.Err()
				}
				if _, err := c.Exec(ctx, l.insert, first+i); err != nil {
					return fmt.Errorf("commit: %w", err)
				}
				committed.set(first+i, time.Now())
			}
		})
	}
	err = g.Wait()
	t.took = time.Since(began)
	for deadline := time.Now().Add(liveTimeout); err == nil && seen.count() < committed.count(); time.Sleep(pauseTime) {
		if time.Now().After(deadline) || len(read) > 0 {
			err = fmt.Errorf("%d of %d rows came", seen.count(), committed.count())
		}
	}
	cancel()
	err = errors.Join(err, <-read)
	l.last = first + next.Load()
	t.lags = seen.since(&committed)
	return t, err
}

// read notes when rows from an id on come, until the context ends.
func (l *live) read(ctx context.Context, from int64, seen *stamps) error {
	for {
		fetches := l.consumer.PollFetches(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			if id := rowID(it.Next()); id >= from {
				seen.set(id, now)
			}
		}
	}
}

// stamps are times by id.
type stamps struct {
	mu sync.Mutex
	at map[int64]time.Time
}

func (s *stamps) set(id int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[int64]time.Time{}
	}
	s.at[id] = at
}

func (s *stamps) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// since are the times from those of others with the same ids.
func (s *stamps) since(others *stamps) (all []time.Duration) {
	for id, at := range s.at {
		all = append(all, at.Sub(others.at[id]))
	}
	return all
}

func sleepUntil(ctx context.Context, at time.Time) {
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
	}
}
