package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// Config says what Run connects and how much it may use. NewSource, NewSink, Encoder, Store,
// Generations, Server, Connector, Group and GenerationsTopic are required; a zero limit means its default.
type Config struct {
	NewSource   func() (connectors.Source, error) // called once per start
	NewSink     func() (Sink, error)              // called once per start
	Encoder     Encoder                           // prepared again at every start
	Store       Store
	Generations Generations

	Server           string // server of the offset partitions; the topic prefix
	Connector        string // connector's name, recorded as the stream's owner
	Group            string // worker's group.id, recorded as the stream's owner
	GenerationsTopic string // topic of activation records, one partition, compacted

	MemoryBudget int // bytes of encoded records anywhere between source and broker; default 32 MiB, at least 8 chunks
	ChunkBytes   int // bytes of a chunk, default 256 KiB
	GroupRecords int // records after which a Kafka transaction takes no further source transaction, default 50,000
	GroupBytes   int // bytes, likewise, default 64 MiB

	GroupAge     time.Duration // age, likewise, default 100 ms: the latency that load may add
	IdleAfter    time.Duration // a loaded stream is idle when the source gave nothing for so long, default 500 µs
	Linger       time.Duration // pause between a commit and the next write, default 5 ms, negative for none; see Pace in doc.go
	LazyInterval time.Duration // longest time a lazy boundary waits for company, default 10 s
	StopTimeout  time.Duration // time to publish what is complete when the context ends, default 5 s
	BackoffMin   time.Duration // first wait after an error, default 200 ms
	BackoffMax   time.Duration // longest wait, default 30 s

	Report connectors.Reporter // optional
	Hooks  []any               // each implements one or more of CommitHook, AckHook
	Log    *slog.Logger        // optional
}

const (
	minChunks = 8
	// busyRecords makes a group a busy one: fewer are worth a commit of their own, at once.
	busyRecords = 1000
	// A busy stream whose changes are older than backlogDelay has a backlog: GroupAge may become backlogAge, IdleAfter
	// backlogIdle. It remains busy for backlogPause after a busy group. See committer.backlog.
	backlogDelay, backlogPause = 500 * time.Millisecond, 100 * time.Millisecond
	backlogAge, backlogIdle    = time.Second, 50 * time.Millisecond
)

func (c Config) withDefaults() Config {
	ints := []struct {
		v   *int
		def int
	}{{&c.MemoryBudget, 32 << 20}, {&c.ChunkBytes, 256 << 10}, {&c.GroupRecords, 50_000}, {&c.GroupBytes, 64 << 20}}
	for _, i := range ints {
		if *i.v == 0 {
			*i.v = i.def
		}
	}
	durations := []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&c.GroupAge, 100 * time.Millisecond}, {&c.IdleAfter, 500 * time.Microsecond}, {&c.Linger, 5 * time.Millisecond},
		{&c.LazyInterval, 10 * time.Second}, {&c.StopTimeout, 5 * time.Second},
		{&c.BackoffMin, 200 * time.Millisecond}, {&c.BackoffMax, 30 * time.Second},
	}
	for _, d := range durations {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.Report == nil {
		c.Report = func(connectors.State) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.NewSource == nil, c.NewSink == nil, c.Encoder == nil, c.Store == nil, c.Generations == nil:
		return errors.New("pipeline: NewSource, NewSink, Encoder, Store and Generations are required")
	case c.Server == "", c.Connector == "", c.Group == "", c.GenerationsTopic == "":
		return errors.New("pipeline: Server, Connector, Group and GenerationsTopic are required")
	case c.ChunkBytes < 0, c.GroupRecords < 0, c.GroupBytes < 0, c.BackoffMin < 0, c.BackoffMax < c.BackoffMin:
		return errors.New("pipeline: limits must be positive, and BackoffMax at least BackoffMin")
	case c.MemoryBudget < minChunks*c.ChunkBytes:
		return fmt.Errorf("pipeline: a memory budget of %d bytes is below %d chunks of %d bytes; raise the budget or lower the chunk size", c.MemoryBudget, minChunks, c.ChunkBytes)
	}
	return nil
}
