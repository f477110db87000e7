package snapshot

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger {
	if os.Getenv("SNAPSHOT_LOG") != "" {
		return slog.Default()
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

func seeds(t *testing.T) (from, to int64) {
	if one := os.Getenv("SNAPSHOT_SEED"); one != "" {
		n, err := strconv.ParseInt(one, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n, n + 1
	}
	if testing.Short() {
		return 1, 101
	}
	return 1, 501
}

// TestReplayEqualsTable: whatever the workload, the moment commits become visible, the cut of batches and the kills,
// replaying what was committed gives the tables; positions increase; progress is never ahead of rows. One seed: SNAPSHOT_SEED=n.
func TestReplayEqualsTable(t *testing.T) {
	from, to := seeds(t)
	for seed := from; seed < to; seed++ {
		t.Run(strconv.FormatInt(seed, 10), func(t *testing.T) {
			t.Parallel()
			random(t, seed)
		})
	}
}

func random(t *testing.T, seed int64) {
	rng := rand.New(rand.NewSource(seed * 7919))
	d := newDatabase(seed, newTable("a", false), newTable("b", false), newTable("c", false))
	d.calm, d.noMoves = rng.Intn(2) == 0, rng.Intn(2) == 0
	d.fill(20 + rng.Intn(30))
	d.steps = 60
	for d.steps > 0 { // the log before the stream begins
		d.step()
	}
	begin, export, breaks := len(d.log), rng.Intn(2) == 0, rng.Intn(3)
	if rng.Intn(2) == 0 {
		begin = rng.Intn(len(d.log) + 1)
	}
	d.steps = 300 + rng.Intn(300)
	cfg := Config{Mode: ModeInitial, ChunkSize: 2 + rng.Intn(10), Threads: 1 + rng.Intn(3), Log: quiet(), pause: time.Microsecond, retry: time.Millisecond}
	if rng.Intn(3) == 0 {
		cfg.ring = 1 + rng.Intn(5)
	}
	if rng.Intn(3) == 0 {
		cfg.MaxTrackedKeys = 4 + rng.Intn(20)
	}
	ch := newChannel()
	cfg.Channels = []signal.Channel{ch}
	d.joinAt[2] = 1 << 30 // joins later
	joins := rng.Intn(100)
	p := newTopic(t, d)
	for life := 0; ; life++ {
		f := newFake(d)
		f.begin, f.export, f.breaks, f.flaky = begin, export, breaks*5, seed%4 == 0
		kill := -1
		if life < 6 && rng.Intn(4) > 0 {
			kill = rng.Intn(60)
		}
		p.life(cfg, f, life, func(s *Source) bool {
			if kill--; kill == 0 {
				return true
			}
			if rng.Intn(60) == 0 && len(ch.list) < 5 {
				ch.send(strconv.Itoa(len(ch.list)), signal.TypeExecute, []string{`{"data-collections":["public.a"]}`, `{"data-collections":["PUBLIC.B"]}`, `{"data-collections":[".*"]}`}[rng.Intn(3)])
			}
			d.mu.Lock()
			if joins--; (joins <= 0 || d.steps <= 0) && d.joinAt[2] == 1<<30 {
				d.join(2)
				f.Wake()
			}
			d.mu.Unlock()
			return d.over() && p.done(s) && len(s.state.Executed) == len(ch.list) && d.joinAt[2] < 1<<30
		})
		if kill != 0 {
			p.commit()
		} else {
			p.kill()
		}
		p.check(fmt.Sprintf("seed %d, after life %d", seed, life))
		if t.Failed() {
			return
		}
		if kill != 0 && life >= 1 {
			break
		}
	}
	if breaks == 0 || !export {
		p.twice(seed)
	}
	if g := p.entries[offsets.GenerationPartition(server).String()]; len(g.Offset) != 3 {
		t.Errorf("seed %d: the baseline was never activated: %v", seed, g.Offset)
	}
}

// over tells that the workload is over and all of it visible.
func (d *database) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps <= 0 && len(d.open) == 0
}

// done tells that every table was read and the log handed out.
func (p *topic) done(s *Source) bool {
	for _, t := range s.order {
		if t.progress.State != offsets.SnapshotDone {
			return false
		}
	}
	n, _ := s.last.Boundary.Int("end")
	return int(n) == len(p.d.log) && !s.first && !s.partial && len(s.state.Requests) == 0 && !s.dirty
}

// twice looks for rows that one life read twice without reason.
func (p *topic) twice(seed int64) {
	if !p.d.noMoves {
		return // moved keys are read again
	}
	type key struct {
		table, of string
		life, id  int
	}
	read := map[key]bool{}
	for _, r := range p.records {
		k := key{r.table, r.of, r.life, r.id}
		switch {
		case r.op != connectors.OpRead:
			for other := range read {
				if other.id == r.id && other.table == r.table {
					delete(read, other)
				}
			}
		case read[k]:
			p.t.Errorf("seed %d: row %d of %s was read twice in life %d", seed, r.id, r.table, r.life)
		default:
			read[k] = true
		}
	}
}
