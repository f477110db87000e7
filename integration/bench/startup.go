package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

const (
	startupRounds = 5
	startupRate   = 100 // single-row transactions a second, before and while the connector starts
	startTimeout  = time.Minute
	lookTime      = 5 * time.Millisecond // between two looks for the first record
)

// begun is one start of a connector.
type begun struct {
	first, running time.Duration // from the start of the process
	sides
}

// startupBench measures from the start of the process to the first record a read_committed consumer can see.
func startupBench(ctx context.Context, o options) (err error) {
	o.pairs, o.warm = or(o.pairs, startupRounds), max(o.warm, 0)
	if o.warm == 0 {
		o.warm = 1
	}
	b, err := setUp(ctx, o, 1<<28, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.ordersPublished(ctx); err != nil {
		return err
	}
	fmt.Println("                milliseconds to      " + sidesHead)
	fmt.Println("             RUNNING   first record  " + sidesHead2)
	var firsts, restarts []begun
	for i := range o.warm + o.pairs {
		first, again, err := b.startTwice(ctx)
		if err != nil {
			return err
		}
		note := ""
		if i < o.warm {
			note = "  (warming, not counted)"
		} else {
			firsts, restarts = append(firsts, first), append(restarts, again)
		}
		fmt.Printf("first start %s%s\n", first.line(), note)
		fmt.Printf("restart     %s%s\n", again.line(), note)
	}
	toFirst := func(s begun) float64 { return millis(s.first) }
	ofSides := func(s begun) sides { return s.sides }
	return closing(struct {
		Bench     string  `json:"bench"`
		Transport string  `json:"transport"`
		First     float64 `json:"first_start_ms"`
		Restart   float64 `json:"restart_ms"`
		CPU       float64 `json:"cpu_seconds"`
		PeakMiB   int64   `json:"rss_mib"`
	}{b.bench, b.transport, median(firsts, toFirst), median(restarts, toFirst),
		median(firsts, func(s begun) float64 { return s.program.cpu }), max(peak(firsts, ofSides), peak(restarts, ofSides))})
}

func (s begun) line() string {
	return fmt.Sprintf("%8.0f %14.0f  %s", millis(s.running), millis(s.first), s.cells())
}

// startTwice starts a new connector, ends it in order once a record came, and starts it again, while rows are committed.
func (b *bench) startTwice(ctx context.Context) (first, again begun, err error) {
	slot, drop, err := b.newSlot(ctx, "")
	if err != nil {
		return first, again, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	stop := make(chan struct{})
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.commitUntil(gctx, stop) })
	g.Go(func() (err error) {
		defer close(stop)
		if first, err = b.startOnce(gctx, slot, 0); err != nil {
			return fmt.Errorf("first start: %w", err)
		}
		end, err := b.committedEnd(gctx, slot)
		if err == nil {
			again, err = b.startOnce(gctx, slot, end)
		}
		if err != nil {
			return fmt.Errorf("restart: %w", err)
		}
		return nil
	})
	return first, again, g.Wait()
}

// commitUntil commits a row again and again.
func (b *bench) commitUntil(ctx context.Context, stop <-chan struct{}) error {
	sql, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer sql.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(time.Second / startupRate)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if _, err := sql.Exec(ctx, "INSERT INTO orders SELECT "+orderRow+" FROM (SELECT coalesce(max(id), 0) + 1 AS i FROM orders) x"); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
}

// startOnce starts a connector, waits until its topic has a committed record after an end, and ends it in order.
func (b *bench) startOnce(ctx context.Context, slot string, after int64) (s begun, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Bootstrap()), kgo.MetadataMinAge(10*time.Millisecond)) // the least it takes
	if err != nil {
		return s, err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return s, err
	}
	c, err := b.connector(slot, nil)
	if err != nil {
		return s, err
	}
	m := b.meter(ctx, c.cmd.Process.Pid, slot, false)
	err = c.during(ctx, func(ctx context.Context) error {
		for {
			end, err := endOf(ctx, cl, ordersTopic(slot))
			if err != nil || end > after {
				return err
			}
			sleepUntil(ctx, time.Now().Add(lookTime))
		}
	})
	s = begun{first: time.Since(c.began), running: c.said.ranAt().Sub(c.began), sides: m.read()}
	return s, errors.Join(err, c.terminate())
}

func (b *bench) committedEnd(ctx context.Context, slot string) (int64, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.kafka.Bootstrap()))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	return endOf(ctx, cl, ordersTopic(slot))
}

func ordersTopic(slot string) string { return slot + ".public.orders" }

// endOf is where a topic of one partition ends for a read_committed consumer; 0 while there is no topic.
func endOf(ctx context.Context, cl *kgo.Client, topic string) (int64, error) {
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.LeaderNotAvailable):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return ends[topic][0].Offset, nil
}
