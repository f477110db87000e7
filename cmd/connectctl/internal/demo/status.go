//go:build linux || darwin

package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/watch"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// watch shows what readers see until stopWatch or the end.
func (p *play) watch(ctx context.Context) {
	ctx, p.stopWatch = context.WithCancel(ctx)
	p.watcher = watch.New(watch.Config{Seeds: p.topics.seeds, Prefix: p.dataPrefix(), OffsetsTopic: p.topics.offsets, Connector: connectorName, Registry: p.registry})
	p.spawn(func() error { return p.watcher.Run(ctx) })
	p.spawn(func() error { return p.show(ctx) })
}

// show prints a status every second, and the last decoded record with it.
func (p *play) show(ctx context.Context) error {
	conn, err := p.db.connect(ctx)
	if err != nil {
		return quiet(ctx, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	p.passing("status")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var before int64
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, records := time.Now(), p.watcher.Records()
		rate := float64(records-before) / now.Sub(last).Seconds()
		before, last = records, now
		line, err := p.status(ctx, conn, records, rate)
		if err != nil {
			return quiet(ctx, err)
		}
		if sample := p.watcher.Sample(); sample != "" {
			p.screen.Plain("        " + p.screen.Shorten(sample))
		}
		p.screen.Status(line)
	}
}

// quiet drops the error of a call that was cut short.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *play) status(ctx context.Context, conn *pgx.Conn, records int64, rate float64) (string, error) {
	slot, err := p.db.confirmed(ctx, conn)
	if err != nil {
		return "", err
	}
	end, err := p.db.position(ctx, conn)
	if err != nil {
		return "", err
	}
	committed := p.watcher.Committed()
	if committed == 0 {
		return fmt.Sprintf("%s records · nothing committed yet · slot %s", thousands(records), slot), nil
	}
	return fmt.Sprintf("%s records · %s/s · lag %s · slot %s · committed %s", thousands(records), thousands(int64(rate)), size(end, committed), slot, committed), nil
}

// size is the length of the log between two positions.
func size(end, from pgoutput.LSN) string {
	if end <= from {
		return "0 KiB"
	}
	if n := uint64(end - from); n >= 10<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", uint64(end-from)>>10)
}
