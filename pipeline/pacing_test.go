package pipeline

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
)

func TestLoneTransactionIsCommittedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		r := start(t, b, b.config(&encoder{}, nil))
		r.wait("start", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.commits) == 1 })
		time.Sleep(time.Second)
		at := time.Now()
		b.append(tx(1, "lone"))
		r.wait("commit", b.storedIs(1))
		if waited := b.commits[1].at.Sub(at); waited != 0 {
			t.Errorf("committed after %v", waited)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

// A loaded stream is committed in large groups, in the order of the limits.
func TestLoadIsGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		b.delay = 5 * time.Millisecond
		for range 30 {
			b.append(tx(1000, "x"))
		}
		cfg := b.config(&encoder{}, nil)
		cfg.ChunkBytes, cfg.MemoryBudget, cfg.GroupRecords = 64<<10, 64<<20, 10_000
		r := start(t, b, cfg)
		r.wait("commits", b.storedIs(30))
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if n := len(b.commits); n > 6 {
			t.Errorf("%d Kafka transactions for 30,000 records", n)
		}
		for _, c := range b.commits {
			if c.records > 11_000 {
				t.Errorf("%d records in one Kafka transaction", c.records)
			}
		}
	})
}

// A stream whose transactions come faster than IdleAfter is a busy one, also where a commit takes no time.
func TestSteadyLoadIsGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		for range 200 {
			b.append(tx(1000, "x"))
		}
		cfg := b.config(&encoder{}, func(s *sourcetest.Source) {
			s.Cut = func(n int) int { time.Sleep(200 * time.Microsecond); return n }
		})
		cfg.ChunkBytes, cfg.MemoryBudget = 64<<10, 64<<20
		r := start(t, b, cfg)
		r.wait("commits", b.storedIs(200))
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if n := len(b.commits); n > 6 {
			t.Errorf("%d Kafka transactions for 200,000 records within 40 ms", n)
		}
	})
}

// While a backlog is worked off, transactions that come slower than IdleAfter are grouped too; few records are no backlog.
func TestBacklogIsGrouped(t *testing.T) {
	for _, c := range []struct{ records, least, most int }{{1000, 2, 4}, {10, 50, 70}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker()
			for range 60 {
				b.append(tx(c.records, "x")) // committed in 1970
			}
			cfg := b.config(&encoder{}, func(s *sourcetest.Source) {
				s.Cut = func(n int) int { time.Sleep(10 * time.Millisecond); return n }
			})
			cfg.ChunkBytes, cfg.MemoryBudget = 64<<10, 64<<20
			r := start(t, b, cfg)
			r.wait("commits", b.storedIs(60))
			if err := r.end(); err != nil {
				t.Error(err)
			}
			if n := len(b.commits); n < c.least || n > c.most {
				t.Errorf("%d Kafka transactions for 60 old ones of %d records, read in 600 ms", n, c.records)
			}
		})
	}
}

// After progress the waits start small again.
func TestBackoffStartsAgainAfterProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		seen := map[string]bool{}
		enc := &encoder{err: func(c *connectors.Change) error {
			if v := string(c.After[1].Bytes); !seen[v] {
				seen[v] = true
				return errors.New("schema registry is away")
			}
			return nil
		}}
		for i := range 20 {
			b.append(tx(1, fmt.Sprint(i)))
		}
		began := time.Now()
		r := start(t, b, b.config(enc, nil))
		r.wait("everything", b.storedIs(20))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("20 short waits took %v", took)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestLazyBoundariesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker()
		r := start(t, b, b.config(&encoder{}, nil))
		r.wait("start", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.commits) == 1 })
		began := time.Now()
		for range 50 {
			b.append(sourcetest.Tx{Lazy: true})
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(b.commits); n != 1 {
			t.Errorf("%d commits before the interval", n)
		}
		r.wait("lazy commit", b.storedIs(50))
		if after := b.commits[1].at.Sub(began); after != 10*time.Second || len(b.commits) != 2 || b.commits[1].records != 0 {
			t.Errorf("committed after %v, %d commits", after, len(b.commits))
		}
		b.append(sourcetest.Tx{Lazy: true}, tx(1, "x"), sourcetest.Tx{})
		r.wait("joined commit", b.storedIs(53))
		b.append(sourcetest.Tx{})
		at := time.Now()
		r.wait("heartbeat", b.storedIs(54))
		if last := b.commits[len(b.commits)-1]; last.at.Sub(at) > 5*time.Millisecond || len(last.entries) != 1 {
			t.Errorf("heartbeat committed after %v with %d entries", last.at.Sub(at), len(last.entries))
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}
