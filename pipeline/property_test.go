package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// scenario is one drawn case.
type scenario struct {
	sizes   []int // of each transaction
	values  []int // length of its values; 0: the encoder filters them
	lazy    []bool
	cutSeed uint64
	maxCut  int
	early   bool
	chunk   int
	records int
	keep    time.Duration
	linger  time.Duration
	delay   time.Duration
	faults  map[int]verdict
}

func drawScenario(t *rapid.T) scenario {
	n := rapid.IntRange(0, 25).Draw(t, "transactions")
	s := scenario{faults: map[int]verdict{}}
	for range n {
		s.sizes = append(s.sizes, rapid.SampledFrom([]int{0, 1, 1, 2, 3, 7, 20, 60, 300}).Draw(t, "size"))
		s.values = append(s.values, rapid.SampledFrom([]int{0, 1, 30, 700, 9000}).Draw(t, "value"))
		s.lazy = append(s.lazy, rapid.Bool().Draw(t, "lazy"))
	}
	s.cutSeed = rapid.Uint64().Draw(t, "cuts")
	s.maxCut = rapid.SampledFrom([]int{1, 3, 20, 1000}).Draw(t, "max cut")
	s.early = rapid.Bool().Draw(t, "early")
	s.chunk = rapid.SampledFrom([]int{600, 2048, 8192, 65536}).Draw(t, "chunk")
	s.records = rapid.SampledFrom([]int{1, 10, 100, 100_000}).Draw(t, "group records")
	s.keep = time.Duration(rapid.IntRange(0, 3).Draw(t, "kept ms")) * time.Millisecond
	s.linger = time.Duration(rapid.IntRange(-1, 3).Draw(t, "linger")) * time.Millisecond
	s.delay = time.Duration(rapid.IntRange(0, 2).Draw(t, "commit ms")) * time.Millisecond
	for range rapid.IntRange(0, 6).Draw(t, "faults") {
		// Two expirations in a row block, rightly; the property is about those that pass.
		s.faults[rapid.IntRange(0, 60).Draw(t, "call")] = rapid.SampledFrom([]verdict{fails, unknown, crash}).Draw(t, "verdict")
	}
	return s
}

// run runs the scenario to its end and returns what was wrong.
func (s scenario) run() (problem string) {
	b := newBroker()
	b.faults, b.keep, b.delay = s.faults, s.keep, s.delay
	for i, n := range s.sizes {
		value := strings.Repeat(fmt.Sprint(i%10), s.values[i])
		if s.values[i] == 0 {
			value = "skip"
		}
		t := txOf(sourcetest.Table(fmt.Sprint("t", i%3)), n, value)
		for j := range t.Changes {
			if s.values[i] == 30 && j%3 == 1 { // some of a transaction, its last ones too
				t.Changes[j].After[1] = schema.Text([]byte("skip"))
			}
		}
		t.Lazy = s.lazy[i]
		b.append(t)
	}
	cuts := rand.New(rand.NewPCG(s.cutSeed, 1))
	cfg := b.config(&encoder{}, func(src *sourcetest.Source) {
		src.Early = s.early
		src.Cut = func(int) int { return 1 + cuts.IntN(s.maxCut) }
	})
	cfg.ChunkBytes, cfg.MemoryBudget, cfg.GroupRecords, cfg.Linger = s.chunk, 8*s.chunk, s.records, s.linger
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- Run(ctx, cfg) }()
	finished := until(10*time.Minute, b.done)
	cancel()
	if err := <-result; err != nil {
		return fmt.Sprintf("Run: %v", err)
	}
	if p := b.report(); p != "" {
		return p
	}
	if !finished {
		return fmt.Sprintf("stored %d and acknowledged %d of %d transactions", b.stored, b.log.Acked(), b.log.Len())
	}
	for i, n := range s.sizes {
		table := fmt.Sprint("public.t", i%3)
		stored, _ := b.store.Load(ctx)
		if _, ok := offsets.Find(stored, offsets.TablePartition(server, table)); n > 0 && s.values[i] > 0 && !ok {
			return fmt.Sprintf("table %s was used, its entry is missing", table)
		}
	}
	if len(b.gens) != 1 {
		return fmt.Sprintf("activation records: %q", b.gens)
	}
	return ""
}

// Any split into batches, any limits and any fault at any call give the same topic: every record
// once, in order, with the boundary that covers exactly what is visible, and no acknowledgement ahead of it.
func TestAnySplitAndAnyFaultGiveTheSameTopic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScenario(rt)
		var problem string
		synctest.Test(t, func(*testing.T) { problem = s.run() })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}
