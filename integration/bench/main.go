// Command bench measures how fast a change stream goes from PostgreSQL to Kafka, beside the fastest reader there is:
// pg_recvlogical, which throws away what it reads.
//
//	bench -connectctl FILE [-rows 1000000] [-pairs 3] [-warm 3] [-postgres 18] [-profile FOLDER]
//
// Rows (bigint key, text of 30, int, timestamptz, numeric(12,2)) are committed in transactions of 1,000 while nothing
// reads. Then the same WAL is drained again and again, each time through a copy of the slot made before: by pg_recvlogical
// (protocol 1, over the unix socket, to /dev/null) and by the ordinary `connectctl run` as a child process (over the unix
// socket, Avro with a schema registry, one topic with one partition, transactional, to a real broker), in turn. PostgreSQL
// has fsync on. The first rounds only warm broker and cache.
//
// Both clocks start when the process is started, so that connecting, fencing and creating the topic count. pg_recvlogical's
// stops when it has received the last commit and ends; connectctl's when a read_committed consumer sees the offset entry that
// covers the last transaction, which commits in the same Kafka transaction as its rows. After each run, outside of the
// clock, the topic is read to see that every row is there once.
//
// A median is taken over the pairs, of the ratio too. Memory is each process's peak resident set (VmHWM).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

type options struct {
	connectctl  string
	rows        int
	pairs, warm int
	major       int
	profile     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.connectctl, "connectctl", "", "the program to measure")
	flags.IntVar(&o.rows, "rows", 1_000_000, "rows to stream, a multiple of 1,000")
	flags.IntVar(&o.pairs, "pairs", 3, "measured pairs")
	flags.IntVar(&o.warm, "warm", 3, "pairs before them")
	flags.IntVar(&o.major, "postgres", 18, "major version of PostgreSQL")
	flags.StringVar(&o.profile, "profile", "", "folder for a CPU profile of each run of connectctl")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.connectctl == "":
		return o, errors.New("-connectctl is missing")
	case o.rows < 2*perTransaction || o.rows%perTransaction != 0:
		return o, fmt.Errorf("-rows %d is not a multiple of %d, from %d", o.rows, perTransaction, 2*perTransaction)
	case o.pairs < 1 || o.warm < 0:
		return o, errors.New("-pairs must be 1 at least, -warm 0")
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	b, err := setUp(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	began := time.Now()
	if err := b.load(ctx); err != nil {
		return err
	}
	fmt.Printf("%d rows loaded in %.1f s, %d MiB of WAL\n\n", o.rows, time.Since(began).Seconds(), b.walBytes>>20)
	fmt.Println("                           | CPU seconds              | peak MiB                 | Kafka's")
	fmt.Println("                    rows/s | program walsender broker | program walsender broker | batches transactions | ratio  RUNNING after")
	var limits, streams []drained
	for i := range o.warm + o.pairs {
		limit, err := b.recvlogical(ctx)
		if err != nil {
			return fmt.Errorf("pg_recvlogical: %w", err)
		}
		stream, err := b.connector(ctx)
		if err != nil {
			return fmt.Errorf("connectctl run: %w", err)
		}
		note := ""
		if i < o.warm {
			note = "  (warming, not counted)"
		} else {
			limits, streams = append(limits, limit), append(streams, stream)
		}
		fmt.Printf("pg_recvlogical  %s%s\n", limit.line(0), note)
		fmt.Printf("connectctl run  %s%s\n", stream.line(stream.rate/limit.rate), note)
	}
	return report(o.rows, limits, streams)
}

// line is a run's row of the table; ratio is 0 where there is none.
func (d drained) line(ratio float64) string {
	line := fmt.Sprintf("%10.0f | %7.2f %9.2f %6.2f | %7d %9d %6d |", d.rate,
		d.program.cpu, d.walsender.cpu, d.broker.cpu, d.program.peakMiB, d.walsender.peakMiB, d.broker.peakMiB)
	if ratio == 0 {
		return line + "                      |"
	}
	return line + fmt.Sprintf(" %7d %12d | %5.2f  %.2f s", d.batches, d.transactions, ratio, d.running.Seconds())
}

// report prints the medians and the one line for machines.
func report(rows int, limits, streams []drained) error {
	var ratios []float64
	for i := range limits {
		ratios = append(ratios, streams[i].rate/limits[i].rate)
	}
	rate := median(streams, func(d drained) float64 { return d.rate })
	limit := median(limits, func(d drained) float64 { return d.rate })
	slices.Sort(ratios)
	ratio := ratios[len(ratios)/2]
	cpu := median(streams, func(d drained) float64 { return d.program.cpu })
	var peak int64
	for _, d := range streams {
		peak = max(peak, d.program.peakMiB)
	}
	fmt.Printf("\nmedian: %.0f rows/s, pg_recvlogical %.0f, ratio %.2f; CPU %.2f s, pg_recvlogical %.2f s; peak memory %d MiB\n",
		rate, limit, ratio, cpu, median(limits, func(d drained) float64 { return d.program.cpu }), peak)
	line, err := json.Marshal(struct {
		Bench   string  `json:"bench"`
		Rows    int     `json:"rows"`
		Rate    float64 `json:"rows_per_second"`
		Limit   float64 `json:"limit_rows_per_second"`
		Ratio   float64 `json:"ratio"`
		CPU     float64 `json:"cpu_seconds"`
		PeakMiB int64   `json:"rss_mib"`
	}{"stream", rows, math.Round(rate), math.Round(limit), round2(ratio), round2(cpu), peak})
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

func round2(f float64) float64 { return math.Round(f*100) / 100 }

func median(runs []drained, of func(drained) float64) float64 {
	all := make([]float64, len(runs))
	for i, d := range runs {
		all[i] = of(d)
	}
	slices.Sort(all)
	return all[len(all)/2]
}
