package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// states collects what is reported.
type states struct {
	mu  sync.Mutex
	all []connectors.State
}

func (s *states) report(st connectors.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, st)
}

func (s *states) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, st := range s.all {
		fmt.Fprintf(&b, "%s %s\n", st.Name, st.Reason)
	}
	return b.String()
}

// running is a Run under way.
type running struct {
	t      *testing.T
	b      *broker
	states states
	stop   context.CancelFunc
	result chan error
}

func start(t *testing.T, b *broker, cfg Config) *running {
	r := &running{t: t, b: b, result: make(chan error, 1)}
	cfg.Report = r.states.report
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.result <- Run(ctx, cfg) }()
	return r
}

func (r *running) wait(what string, cond func() bool) {
	r.t.Helper()
	if !until(time.Minute, cond) {
		r.t.Errorf("not seen: %s; stored %d, problems %q, states:\n%s", what, r.b.stored, r.b.report(), &r.states)
	}
}

// end stops the run and returns its error.
func (r *running) end() error {
	r.t.Helper()
	r.stop()
	err := <-r.result
	if p := r.b.report(); p != "" {
		r.t.Error(p)
	}
	return err
}

func (b *broker) storedIs(n int64) func() bool {
	return func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.stored == n && len(b.commits) > 0 }
}

var errPoison = connectors.Block(errors.New("cannot be decoded"))

func TestBlockPublishesTheCompleteTransactionsBefore(t *testing.T) {
	for name, poison := range map[string]sourcetest.Tx{
		"at once":       {Err: errPoison},
		"after changes": func() sourcetest.Tx { x := tx(9, "x"); x.Err, x.ErrAfter = errPoison, 5; return x }(),
		"inside a huge": func() sourcetest.Tx { x := tx(900, "x"); x.Err, x.ErrAfter = errPoison, 700; return x }(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker()
				b.append(tx(3, "a"), tx(2, "b"), tx(200, "c"), sourcetest.Tx{Lazy: true})
				b.log.Append(poison)
				r := start(t, b, b.config(&encoder{}, nil))
				if err := <-r.result; connectors.ClassOf(err) != connectors.ClassBlock {
					t.Errorf("Run: %v", err)
				}
				r.end0()
				if !b.storedIs(4)() || len(b.visible) != 205 || b.log.Acked() != 4 {
					t.Errorf("stored %d, acknowledged %d, %d records", b.stored, b.log.Acked(), len(b.visible))
				}
				if !strings.Contains(r.states.String(), "BLOCKED cannot be decoded") {
					t.Errorf("states:\n%s", &r.states)
				}
			})
		})
	}
}

// end0 ends a run that has returned already.
func (r *running) end0() {
	r.t.Helper()
	r.result <- nil
	if err := r.end(); err != nil {
		r.t.Error(err)
	}
}

func TestEncoderBlockInASharedChunkKeepsWhatIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		b.delay = 50 * time.Millisecond // so that the rest shares a chunk
		b.append(tx(1, "a"), tx(1, "b"), tx(1, "c"))
		b.log.Append(tx(3, "bad"))
		n := 0
		enc := &encoder{err: func(c *connectors.Change) error {
			if string(c.After[1].Bytes) == "bad" {
				if n++; n == 3 {
					return errPoison
				}
			}
			return nil
		}}
		r := start(t, b, b.config(enc, nil))
		if err := <-r.result; connectors.ClassOf(err) != connectors.ClassBlock {
			t.Errorf("Run: %v", err)
		}
		r.end0()
		if !b.storedIs(3)() || len(b.visible) != 3 {
			t.Errorf("stored %d, %d records", b.stored, len(b.visible))
		}
	})
}

// Kafka refuses a record of a group, which the encoder could not foresee: what is before it is published all the same.
func TestRefusedRecordBlocksOnlyItsTransaction(t *testing.T) {
	for name, txs := range map[string][]sourcetest.Tx{
		"first of a group":  {tx(1, "a"), tx(2, "bad"), tx(1, "c"), tx(1, "d")},
		"middle of a group": {tx(1, "a"), tx(1, "b"), tx(1, "c"), tx(2, "bad"), tx(1, "d")},
		"last of a group":   {tx(1, "a"), tx(300, "b"), tx(1, "c"), tx(2, "bad")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker()
				b.delay, b.refuse = 50*time.Millisecond, "bad"
				b.append(txs...)
				bad := int64(slices.IndexFunc(txs, func(x sourcetest.Tx) bool { return strings.HasPrefix(string(x.Changes[0].After[1].Bytes), "bad") }))
				r := start(t, b, b.config(&encoder{}, nil))
				if err := <-r.result; connectors.ClassOf(err) != connectors.ClassBlock {
					t.Errorf("Run: %v", err)
				}
				r.end0()
				if !b.storedIs(bad)() || len(b.visible) != b.ends[bad] {
					t.Errorf("stored %d, want %d; %d records\n%s", b.stored, bad, len(b.visible), &r.states)
				}
			})
		})
	}
}

// A transaction far beyond the budget passes in one Kafka transaction, and the memory stays within it.
func TestHugeTransactionStaysWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		b.keep = time.Millisecond
		b.append(tx(2, "before"), tx(20_000, "huge"), tx(2, "after"))
		cfg := b.config(&encoder{}, func(s *sourcetest.Source) { s.Cut = func(int) int { return 7 } }).withDefaults()
		cfg.ChunkBytes, cfg.MemoryBudget = 8<<10, 128<<10
		r := runner{cfg: &cfg}
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() { result <- r.once(ctx) }()
		if !until(time.Minute, b.done) {
			t.Errorf("stored %d", b.stored)
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if p := b.report(); p != "" {
			t.Error(p)
		}
		if r.peak == 0 || r.peak > cfg.MemoryBudget {
			t.Errorf("%d bytes were in use, the budget is %d", r.peak, cfg.MemoryBudget)
		}
		var alone bool
		for _, c := range b.commits {
			alone = alone || c.records == 20_000
		}
		if !alone {
			t.Error("the huge transaction did not have a Kafka transaction of its own")
		}
	})
}

// A stop commits what is complete, a lazy boundary included, and leaves nothing of what is not.
func TestStopCommitsWhatIsComplete(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "huge": 900} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker()
				b.append(tx(3, "a"))
				r := start(t, b, b.config(&encoder{}, nil))
				r.wait("the complete one", b.storedIs(1))
				b.append(sourcetest.Tx{Lazy: true}) // alone, so that it is waiting when the stop comes
				open := tx(size, "x")
				open.Gate, open.GateAt = make(chan struct{}), size-1
				b.log.Append(open)
				time.Sleep(time.Second)
				if err := r.end(); err != nil {
					t.Error(err)
				}
				if !b.storedIs(2)() || len(b.visible) != 3 || b.log.Acked() != 2 {
					t.Errorf("stored %d, acknowledged %d, %d records", b.stored, b.log.Acked(), len(b.visible))
				}
				if !strings.HasSuffix(r.states.String(), "STOPPED \n") {
					t.Errorf("states:\n%s", &r.states)
				}
			})
		})
	}
}

func TestTransactionThatTimesOutTwiceBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		b.append(tx(900, "x"))
		for i := 4; i < 200; i++ {
			b.faults[i] = expired // fence, activation, its commit and the first part work
		}
		r := start(t, b, b.config(&encoder{}, nil))
		err := <-r.result
		r.end0()
		if connectors.ClassOf(err) != connectors.ClassBlock || !errors.Is(err, ErrTransactionTimedOut) {
			t.Errorf("Run: %v", err)
		}
		if n := strings.Count(r.states.String(), "STARTING \n"); n != 2 {
			t.Errorf("%d starts:\n%s", n, &r.states)
		}
	})
}

func TestFencedWorkerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		r := start(t, b, b.config(&encoder{}, nil))
		time.Sleep(time.Second)
		b.mu.Lock()
		b.epoch++
		b.mu.Unlock()
		b.append(tx(1, "x"))
		err := <-r.result
		r.end0()
		if connectors.ClassOf(err) != connectors.ClassFenced || !strings.Contains(r.states.String(), "FENCED") || len(b.visible) != 0 {
			t.Errorf("Run: %v, states:\n%s", err, &r.states)
		}
	})
}

// A worker is overtaken between its look at the offsets and its source's: the source, which has moved on, does not go with them. That is no
// reason to advise a reset.
func TestWorkerOvertakenWhileItStartsIsFenced(t *testing.T) {
	for _, overtaken := range []bool{true, false} {
		b := newBroker()
		b.store.Apply(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: sourcetest.Boundary(0)})
		b.append(tx(1, "a"))
		cfg := b.config(&encoder{}, nil)
		inner := cfg.NewSource
		cfg.NewSource = func() (connectors.Source, error) {
			s, err := inner()
			if err == nil {
				err = s.Ack(t.Context(), sourcetest.Boundary(1)) // the other's
			}
			if overtaken {
				b.store.Apply(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: sourcetest.Boundary(1)})
			}
			return s, err
		}
		want := map[bool]connectors.Class{true: connectors.ClassFenced, false: connectors.ClassRefused}[overtaken]
		if err := Run(t.Context(), cfg); connectors.ClassOf(err) != want {
			t.Errorf("overtaken %t: %v (class %s), want class %s", overtaken, err, connectors.ClassOf(err), want)
		}
	}
}

// A wait has a reason, grows, and starts small again after progress.
func TestWaitsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		away := errors.New("schema registry is away")
		until := time.Now().Add(time.Minute)
		enc := &encoder{err: func(c *connectors.Change) error {
			if string(c.After[1].Bytes) == "unknown" && time.Now().Before(until) {
				return away
			}
			return nil
		}}
		b.append(tx(2, "known"), tx(2, "unknown"), tx(1, "known"))
		r := start(t, b, b.config(enc, nil))
		r.wait("known schemas", b.storedIs(1))
		time.Sleep(59 * time.Second)
		if n := strings.Count(r.states.String(), "WAITING schema registry is away"); n < 5 || n > 12 {
			t.Errorf("%d waits in a minute:\n%s", n, &r.states)
		}
		r.wait("everything", b.storedIs(3))
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestGenerations(t *testing.T) {
	entry := func(p offsets.Object, o offsets.Object) offsets.Entry { return offsets.Entry{Partition: p, Offset: o} }
	gen3 := entry(offsets.GenerationPartition(server), offsets.Generation{Number: 3, Start: "{}"}.Object())
	stream := entry(offsets.StreamPartition(server), append(offsets.Object{{Name: "group", Value: "g"}, {Name: "connector", Value: "c"}}, sourcetest.Boundary(0)...))
	for name, c := range map[string]struct {
		stored  []offsets.Entry
		highest int64
		want    string
		gen     int64
	}{
		"first":                     {nil, 0, `{"gen":1} {"gen":1,"start":{"lsn":"0/10"},"baseline":false}`, 1},
		"records without a key":     {nil, 7, `{"gen":8} {"gen":8,"start":{"lsn":"0/10"},"baseline":false}`, 8},
		"stored":                    {[]offsets.Entry{gen3, stream}, 3, "", 3},
		"stored, offsets removed":   {[]offsets.Entry{gen3}, 2, `{"gen":4} {"gen":4,"start":{"lsn":"0/10"},"baseline":false}`, 4},
		"stream without generation": {[]offsets.Entry{stream}, 0, `{"gen":1} {"gen":1,"start":{"lsn":"0/10"},"baseline":false}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker()
				b.store.Apply(c.stored...)
				enc := &encoder{}
				cfg := b.config(enc, nil)
				cfg.Generations = highest(c.highest)
				r := start(t, b, cfg)
				time.Sleep(time.Second)
				if err := r.end(); err != nil {
					t.Error(err)
				}
				if got := strings.Join(b.gens, " | "); got != c.want || enc.gen != c.gen {
					t.Errorf("activated %q in generation %d", got, enc.gen)
				}
				if c.want != "" && (len(b.commits) != 1 || len(b.commits[0].entries) != 2) {
					t.Errorf("commits: %v", b.commits)
				}
			})
		})
	}
}

// A worker with another offsets topic has begun a newer generation of the same stream.
func TestNewerGenerationElsewhereIsRefused(t *testing.T) {
	b := newBroker()
	b.store.Apply(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 3, Start: "{}"}.Object()},
		offsets.Entry{Partition: offsets.StreamPartition(server), Offset: append(offsets.Object{{Name: "group", Value: "g"}, {Name: "connector", Value: "c"}}, sourcetest.Boundary(0)...)})
	cfg := b.config(&encoder{}, nil)
	cfg.Generations = highest(4)
	if err := Run(context.Background(), cfg); connectors.ClassOf(err) != connectors.ClassRefused || !strings.Contains(err.Error(), "generation 4 has begun") {
		t.Errorf("Run: %v", err)
	}
}

func TestOffsetsOfAnotherGroupAreRefused(t *testing.T) {
	b := newBroker()
	b.store.Apply(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: offsets.Object{{Name: "group", Value: "other"}, {Name: "end", Value: int64(0)}}})
	err := Run(context.Background(), b.config(&encoder{}, nil))
	if connectors.ClassOf(err) != connectors.ClassRefused || !strings.Contains(err.Error(), "group.id") {
		t.Errorf("Run: %v", err)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	cfg := newBroker().config(&encoder{}, nil)
	cfg.MemoryBudget = 1000
	if err := Run(context.Background(), cfg); connectors.ClassOf(err) != connectors.ClassRefused {
		t.Errorf("Run: %v", err)
	}
}
