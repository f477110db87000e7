package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	idleSeconds = 20
	idleSettle  = 3 * time.Second
)

// idleBench measures the CPU of a connector that has nothing to do.
func idleBench(ctx context.Context, o options) (err error) {
	o.seconds = or(o.seconds, idleSeconds)
	b, err := setUp(ctx, o, 0, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	slot, c, stop, err := b.runConnector(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var used sides
	err = c.during(ctx, func(ctx context.Context) error {
		sleepUntil(ctx, time.Now().Add(idleSettle))
		m := b.meter(ctx, c.cmd.Process.Pid, slot, true)
		sleepUntil(ctx, time.Now().Add(time.Duration(o.seconds)*time.Second))
		used = m.read()
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	percent := func(u usage) float64 { return round2(u.cpu / float64(o.seconds) * 100) }
	fmt.Println("  seconds at rest " + sidesHead + "| CPU per cent of one core")
	fmt.Println("                  " + sidesHead2 + "| program walsender broker")
	fmt.Printf("%17d %s| %7.2f %9.2f %6.2f\n", o.seconds, used.cells(), percent(used.program), percent(used.walsender), percent(used.broker))
	return closing(struct {
		Bench     string  `json:"bench"`
		Transport string  `json:"transport"`
		Seconds   int     `json:"seconds"`
		Percent   float64 `json:"cpu_percent"`
		Walsender float64 `json:"walsender_cpu_percent"`
		PeakMiB   int64   `json:"rss_mib"`
	}{b.bench, b.transport, o.seconds, percent(used.program), percent(used.walsender), used.program.peakMiB})
}

// runConnector makes an empty table and runs a connector for it; stop ends it and drops its slot.
func (b *bench) runConnector(ctx context.Context) (slot string, c *child, stop func() error, err error) {
	if err := b.ordersPublished(ctx); err != nil {
		return "", nil, nil, err
	}
	slot, drop, err := b.newSlot(ctx, "")
	if err != nil {
		return "", nil, nil, err
	}
	if c, err = b.connector(slot, nil); err != nil {
		return "", nil, nil, err
	}
	stop = func() error { return errors.Join(c.terminate(), drop()) }
	if err := c.awaitRunning(ctx); err != nil {
		return "", nil, nil, errors.Join(err, stop())
	}
	return slot, c, stop, nil
}

func (b *bench) ordersPublished(ctx context.Context) error {
	return b.exec(ctx, "make the table", fmt.Sprintf(ordersTable, "orders"), "CREATE PUBLICATION "+publication+" FOR ALL TABLES")
}
