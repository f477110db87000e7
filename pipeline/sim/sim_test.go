package sim

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"
)

// found are the seeds that found something, before the rest.
var found = []uint64{
	59,           // a worker overtaken while it started was refused, as if offsets were lost
	82, 202, 240, // Kafka was away twice for longer than a transaction may last: blocked, as if it was too long
}

// Whatever happens to requests, connections, brokers and workers: what a read_committed consumer sees is every change once, in order; the
// boundary never covers what is not there; the source is never told of more than that; and once the faults end everything arrives.
//
// Without them it runs the seeds that once found something, and then what 8 s allow, 400 at most.
//
// TIDEMARK_SEED=n runs one seed and prints what happened, TIDEMARK_SIM_ROUNDS=n as many, from TIDEMARK_SIM_FROM on.
func TestSimulation(t *testing.T) {
	if seed, err := strconv.ParseUint(os.Getenv("TIDEMARK_SEED"), 10, 64); err == nil {
		p := newPlan(seed)
		out := simulate(t, p)
		t.Logf("%s\n%s", p, strings.Join(out.trace, "\n"))
		judged(t, p, out)
		return
	}
	rounds, from := number("TIDEMARK_SIM_ROUNDS"), uint64(number("TIDEMARK_SIM_FROM"))
	limit := time.Hour
	if rounds == 0 {
		rounds, limit = 400, 8*time.Second
	}
	debug.SetGCPercent(400)
	var total result
	total.dealt = map[string]int{}
	began, n := time.Now(), 0
	for ; n < rounds && time.Since(began) < limit; n++ {
		seed := from + uint64(n)
		if from == 0 && n < len(found) {
			seed = found[n]
		}
		p := newPlan(seed)
		out := simulate(t, p)
		judged(t, p, out)
		total.workers += out.workers
		total.changes += out.changes
		total.samples += out.samples
		total.clock += out.clock
		total.settled = max(total.settled, out.settled)
		for k, v := range out.dealt {
			total.dealt[k] += v
		}
	}
	t.Logf("%d rounds in %s (%.1f a second): %d changes, %d workers, %d samples, %s of simulated time, settled after at most %s, faults %v",
		n, time.Since(began).Round(time.Millisecond), float64(n)/time.Since(began).Seconds(), total.changes, total.workers, total.samples, total.clock.Round(time.Second), total.settled.Round(time.Second), total.dealt)
}

func number(name string) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return n
}

func judged(t *testing.T, p *plan, out result) {
	if out.problems != "" {
		t.Errorf("TIDEMARK_SEED=%d: %s\n%s\n", p.seed, p, out.problems)
	}
}
