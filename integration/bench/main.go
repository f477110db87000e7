// Command bench measures how change streams go from PostgreSQL to Kafka: the ordinary `connectctl run` as a child process,
// against a PostgreSQL with fsync on, a real broker and a schema registry, all started for it and gone when it ends.
//
//	bench -connectctl FILE [-bench stream] [-rows N] [-pairs N] [-warm N] [-seconds N] [-transport unix|tcp] [-postgres 18] [-profile FOLDER]
//
// Everything is at its default (Avro, transactional) but what must be said. Each bench prints a table, with CPU seconds and
// peak resident memory (VmHWM) of connectctl, of the walsender that serves it and of the broker, and closes with one line
// of JSON. docs/performance.md says what each measures.
//
// stream, wide, large, tables and huge drain rows that were committed while nothing read, each time through a copy of the
// slot made before: by pg_recvlogical (protocol 1, to /dev/null), which is the fastest reader there is since it throws away
// what it reads, and by connectctl, in turn over the same transport. Both clocks start when the process is started, so
// that connecting, fencing and creating topics count. pg_recvlogical's stops when it has received the last commit and ends;
// connectctl's when a read_committed consumer sees the offset entry that covers the last transaction, which commits in the
// same Kafka transaction as its rows. After each run, outside of the clock, the topics are read to see that every row is
// there once, in order. The first pairs only warm broker and cache. A median is taken over the pairs, of the ratio too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

type options struct {
	connectctl  string
	bench       string
	rows        int // 0: the bench's own
	pairs, warm int // -1: the bench's own
	seconds     int // 0: the bench's own
	transport   string
	major       int
	profile     string
}

// benches are what can be measured, by name.
var benches = map[string]func(context.Context, options) error{
	"latency":  latencyBench,
	"idle":     idleBench,
	"startup":  startupBench,
	"snapshot": snapshotBench,
	peerName:   peerBench,
}

// order is that of `all`, which is everything of ours: what is heaviest for the machine late, the stream last.
var order = []string{"idle", "startup", "latency", "wide", "large", "tables", "huge", "snapshot", "stream"}

func init() {
	for _, s := range shapes {
		benches[s.name] = func(ctx context.Context, o options) error { return drainBench(ctx, o, s) }
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; everything that was started is stopped")
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.connectctl, "connectctl", "", "the program to measure")
	flags.StringVar(&o.bench, "bench", "stream", "what to measure: "+strings.Join(names(), ", ")+" or all")
	flags.IntVar(&o.rows, "rows", 0, "rows, where a bench has rows")
	flags.IntVar(&o.pairs, "pairs", -1, "measured pairs, or rounds")
	flags.IntVar(&o.warm, "warm", -1, "pairs before them")
	flags.IntVar(&o.seconds, "seconds", 0, "seconds of measuring, where a bench is as long as it is told")
	flags.StringVar(&o.transport, "transport", "unix", "how both sides connect to PostgreSQL: unix or tcp")
	flags.IntVar(&o.major, "postgres", 18, "major version of PostgreSQL")
	flags.StringVar(&o.profile, "profile", "", "folder for a CPU profile of each run of connectctl")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case o.connectctl == "":
		return o, errors.New("-connectctl is missing")
	case o.bench != "all" && benches[o.bench] == nil:
		return o, fmt.Errorf("there is no bench %q; there are %s and all", o.bench, strings.Join(names(), ", "))
	case o.rows < 0 || o.seconds < 0:
		return o, errors.New("-rows and -seconds must not be negative; 0 is the bench's own")
	case o.pairs == 0 || o.pairs < -1 || o.warm < -1:
		return o, errors.New("-pairs must be 1 at least, -warm 0")
	case o.transport != "unix" && o.transport != "tcp":
		return o, fmt.Errorf("-transport is %q; it must be unix or tcp", o.transport)
	}
	return o, nil
}

func names() []string { return slices.Sorted(maps.Keys(benches)) }

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.bench != "all" {
		return benches[o.bench](ctx, o)
	}
	for _, name := range order {
		fmt.Printf("== %s\n", name)
		o.bench = name
		if err := benches[name](ctx, o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println()
	}
	return nil
}

// or is a flag's value, or the bench's own where there is none.
func or(flag, own int) int {
	if flag <= 0 {
		return own
	}
	return flag
}
