package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/offsets"
)

const (
	snapshotRows     = 1_000_000
	snapshotLiveRate = 1000             // single-row transactions a second beside the chunks
	snapshotTimeout  = 20 * time.Minute // of one read of the table
)

// snapshotRead is one read of the whole table.
type snapshotRead struct {
	rate float64 // rows a second
	sides
}

// snapshotBench measures how fast the rows a table has come into Kafka: by the exported snapshot, from the start of the process to the
// commit of the table's last rows, beside COPY … TO STDOUT of the same table over the same transport, thrown away, in turn; then
// by chunks, on demand, beside a stream of single-row transactions, whose latency is measured.
func snapshotBench(ctx context.Context, o options) (err error) {
	o.rows, o.pairs = or(o.rows, snapshotRows), or(o.pairs, 3)
	if o.warm < 0 {
		o.warm = 1
	}
	b, err := setUp(ctx, o, int64(o.rows)*int64(o.warm+o.pairs+2)*300, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.snapshotTables(ctx); err != nil {
		return err
	}
	fmt.Println("                           " + sidesHead)
	fmt.Println("                    rows/s " + sidesHead2)
	var limits, reads []snapshotRead
	for i := range o.warm + o.pairs {
		limit, err := b.copyOut(ctx)
		if err != nil {
			return fmt.Errorf("COPY: %w", err)
		}
		read, err := b.exported(ctx)
		if err != nil {
			return fmt.Errorf("connectctl run: %w", err)
		}
		note := ""
		if i < o.warm {
			note = "  (warming, not counted)"
		} else {
			limits, reads = append(limits, limit), append(reads, read)
		}
		fmt.Printf("COPY            %10.0f %s%s\n", limit.rate, limit.cells(), note)
		fmt.Printf("exported        %10.0f %s| %.2f of COPY%s\n", read.rate, read.cells(), read.rate/limit.rate, note)
	}
	chunks, lags, err := b.chunks(ctx)
	if err != nil {
		return fmt.Errorf("chunks beside a stream: %w", err)
	}
	fmt.Printf("chunks          %10.0f %s| stream: %d rows, p50 %.1f ms, p99 %.1f ms\n", chunks.rate, chunks.cells(), len(lags),
		millis(quantile(lags, 0.5)), millis(quantile(lags, 0.99)))
	ratios := make([]float64, len(reads))
	for i := range reads {
		ratios[i] = reads[i].rate / limits[i].rate
	}
	rate := func(r snapshotRead) float64 { return r.rate }
	return closing(struct {
		Bench     string  `json:"bench"`
		Rows      int     `json:"rows"`
		Rate      float64 `json:"rows_per_second"`
		Limit     float64 `json:"copy_rows_per_second"`
		Ratio     float64 `json:"ratio"`
		ChunkRate float64 `json:"chunk_rows_per_second"`
		P50       float64 `json:"stream_p50_ms"`
		P99       float64 `json:"stream_p99_ms"`
		CPU       float64 `json:"cpu_seconds"`
		PeakMiB   int64   `json:"rss_mib"`
	}{b.bench, b.rows, math.Round(median(reads, rate)), math.Round(median(limits, rate)), round2(median(ratios, func(r float64) float64 { return r })), math.Round(chunks.rate),
		millis(quantile(lags, 0.5)), millis(quantile(lags, 0.99)), median(reads, func(r snapshotRead) float64 { return r.program.cpu }),
		max(peak(reads, func(r snapshotRead) sides { return r.sides }), chunks.program.peakMiB)})
}

// snapshotTables makes the table with its rows, and one for the stream.
func (b *bench) snapshotTables(ctx context.Context) error {
	if err := b.ordersPublished(ctx); err != nil {
		return err
	}
	return b.exec(ctx, "load", fmt.Sprintf(ordersTable, "events"),
		"INSERT INTO orders SELECT "+orderRow+" FROM generate_series(1::bigint, "+strconv.Itoa(b.rows)+") i", "VACUUM ANALYZE orders", "CHECKPOINT")
}

// copyOut reads the table with psql and throws it away.
func (b *bench) copyOut(ctx context.Context) (r snapshotRead, err error) {
	psql, err := env.Psql()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, psql, "--host="+b.host(), "--port="+strconv.Itoa(b.pg.Port()), "--username="+env.Superuser, "--dbname="+database,
		"--no-psqlrc", "--quiet", "--command=COPY orders TO STDOUT")
	cmd.Env = append(os.Environ(), "PGPASSWORD="+env.SuperuserPassword)
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return r, err
	}
	defer sink.Close()
	cmd.Stdout = sink // a file: no goroutine of ours copies
	c, err := start(cmd)
	if err != nil {
		return r, err
	}
	program := follow(ctx, func() int { return cmd.Process.Pid }, false)
	err = c.wait(ctx)
	r.program = program()
	r.rate = float64(b.rows) / time.Since(c.began).Seconds()
	return r, err
}

// exported runs a new connector until the table is read.
func (b *bench) exported(ctx context.Context) (r snapshotRead, err error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	slot, drop, err := b.newSlot(ctx, "")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	stored, err := b.watchOffsets(ctx, slot)
	if err != nil {
		return r, err
	}
	defer stored.Close()
	c, err := b.connector(slot, map[string]string{"snapshot.mode": "initial"})
	if err != nil {
		return r, err
	}
	m := b.meter(ctx, c.cmd.Process.Pid, slot, false)
	var p offsets.Progress
	err = c.during(ctx, func(ctx context.Context) (err error) {
		p, err = stored.untilRead(ctx, "public.orders")
		return err
	})
	r.rate = float64(b.rows) / time.Since(c.began).Seconds()
	r.sides = m.read()
	if err == nil && p.Rows != int64(b.rows) {
		err = fmt.Errorf("%d rows were read, not %d", p.Rows, b.rows)
	}
	return r, errors.Join(err, c.terminate(), b.deleteTopics(ctx, []string{slot + ".public.orders", slot + ".public.events"}))
}

// chunks has a running connector read the table on demand, while single rows of another are committed.
func (b *bench) chunks(ctx context.Context) (r snapshotRead, lags []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	slot, drop, err := b.newSlot(ctx, "")
	if err != nil {
		return r, nil, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	stored, err := b.watchOffsets(ctx, slot)
	if err != nil {
		return r, nil, err
	}
	defer stored.Close()
	c, err := b.connector(slot, nil)
	if err != nil {
		return r, nil, err
	}
	err = c.awaitRunning(ctx)
	if err == nil {
		err = c.during(ctx, func(ctx context.Context) (err error) {
			r, lags, err = b.chunksBesideStream(ctx, c, stored, slot)
			return err
		})
	}
	return r, lags, errors.Join(err, c.terminate())
}

func (b *bench) chunksBesideStream(ctx context.Context, c *child, stored *watcher, slot string) (r snapshotRead, lags []time.Duration, err error) {
	l, err := b.live(ctx, slot, "events")
	if err != nil {
		return r, nil, err
	}
	defer l.close()
	if _, err := l.run(ctx, snapshotLiveRate, settleTime); err != nil {
		return r, nil, err
	}
	m := b.meter(ctx, c.cmd.Process.Pid, slot, true)
	out, err := exec.CommandContext(ctx, b.connectctl, "snapshot", "start", filepath.Join(b.dir, slot+"-worker.properties"), filepath.Join(b.dir, slot+".properties"),
		"--table", "public.orders").CombinedOutput()
	if err != nil {
		return r, nil, fmt.Errorf("connectctl snapshot start: %w: %s", err, out)
	}
	var done atomic.Bool
	read := make(chan error, 1)
	var p offsets.Progress
	go func() {
		var err error
		p, err = stored.untilRead(ctx, "public.orders")
		done.Store(true)
		read <- err
	}()
	t, err := l.until(ctx, snapshotLiveRate, func(time.Duration) bool { return done.Load() })
	if err = errors.Join(err, <-read); err != nil {
		return r, nil, err
	}
	r.sides = m.read()
	if p.Rows != int64(b.rows) {
		return r, nil, fmt.Errorf("%d rows were read, not %d", p.Rows, b.rows)
	}
	r.rate = float64(p.Rows) / max(0.001, float64(p.Ended-p.Began)/1000)
	slices.Sort(t.lags)
	return r, t.lags, nil
}

// untilRead waits until a table's snapshot is over.
func (w *watcher) untilRead(ctx context.Context, table string) (offsets.Progress, error) {
	partition := offsets.TablePartition(w.connector, table)
	for {
		fetches := w.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return offsets.Progress{}, fmt.Errorf("wait for the rows of %s: %w", table, err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			name, of, err := offsets.ParseKey(r.Key)
			if err != nil || name != w.connector || !of.Equal(partition) {
				continue
			}
			o, err := offsets.ParseObject(r.Value)
			if err != nil {
				return offsets.Progress{}, err
			}
			t, err := offsets.TableStateFrom(o)
			if err != nil {
				return offsets.Progress{}, err
			}
			switch t.Snapshot.State {
			case offsets.SnapshotDone:
				return t.Snapshot, nil
			case offsets.SnapshotFailed, offsets.SnapshotStopped:
				return t.Snapshot, fmt.Errorf("the snapshot of %s is %s: %s", table, t.Snapshot.State, t.Snapshot.Reason)
			}
		}
	}
}
