package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// rates of the latency bench, in transactions a second.
var rates = []int{1, 100, 1000}

const (
	latencySeconds = 15
	settleTime     = 2 * time.Second // of single transactions before anything is measured
)

// lag is what was measured at one rate.
type lag struct {
	Rate     int     `json:"transactions_per_second"`
	Achieved float64 `json:"achieved"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	Max      float64 `json:"max_ms"`
	sides
}

// latencyBench measures from the return of COMMIT at the client to the consumer's poll.
func latencyBench(ctx context.Context, o options) (err error) {
	o.seconds = or(o.seconds, latencySeconds)
	b, err := setUp(ctx, o, 1<<30, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	slot, c, stop, err := b.runConnector(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	fmt.Println("  transactions a second | milliseconds                " + sidesHead)
	fmt.Println("       asked   achieved |     p50       p99       max " + sidesHead2)
	var lags []lag
	err = c.during(ctx, func(ctx context.Context) error {
		live, err := b.live(ctx, slot, "orders")
		if err != nil {
			return err
		}
		defer live.close()
		if _, err := live.run(ctx, 100, settleTime); err != nil {
			return err
		}
		for _, rate := range rates {
			m := b.meter(ctx, c.cmd.Process.Pid, slot, true)
			times, err := live.run(ctx, rate, time.Duration(o.seconds)*time.Second)
			used := m.read()
			if err != nil {
				return fmt.Errorf("%d transactions a second: %w", rate, err)
			}
			l := lagOf(rate, times)
			l.sides = used
			fmt.Printf("  %10d %10.1f | %7.2f %9.2f %9.2f %s\n", rate, l.Achieved, l.P50, l.P99, l.Max, used.cells())
			lags = append(lags, l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	last := lags[len(lags)-1]
	return closing(struct {
		Bench     string  `json:"bench"`
		Transport string  `json:"transport"`
		Rates     []lag   `json:"rates"`
		P50       float64 `json:"p50_ms"`
		P99       float64 `json:"p99_ms"`
		CPU       float64 `json:"cpu_seconds"`
		PeakMiB   int64   `json:"rss_mib"`
	}{b.bench, b.transport, lags, last.P50, last.P99, round2(last.program.cpu), peak(lags, func(l lag) sides { return l.sides })})
}

func lagOf(rate int, t timings) lag {
	slices.Sort(t.lags)
	return lag{Rate: rate, Achieved: round2(float64(len(t.lags)) / t.took.Seconds()),
		P50: millis(quantile(t.lags, 0.5)), P99: millis(quantile(t.lags, 0.99)), Max: millis(quantile(t.lags, 1))}
}
