package chaos

import (
	"context"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

var servers *env.Env

func TestMain(m *testing.M) {
	if os.Getenv("TIDEMARK_TEST_CHAOS") == "" {
		os.Exit(m.Run()) // nothing needs a server
	}
	env.Main(m, &servers)
}

// Nothing is lost, nothing is there twice, everything is in order, and the slot is never ahead, whatever strikes: for three
// minutes, or TIDEMARK_CHAOS_FOR. TIDEMARK_SEED repeats a run.
func TestChaos(t *testing.T) {
	if os.Getenv("TIDEMARK_TEST_CHAOS") == "" {
		t.Skip("TIDEMARK_TEST_CHAOS=1 is not set: chaos takes three minutes and starts servers of its own")
	}
	if err := Lacks(1); err != nil {
		t.Fatal(err)
	}
	o := Options{Seed: uint64(time.Now().Unix()), For: 3 * time.Minute, Labs: 1, Binary: os.Getenv("TIDEMARK_CONNECTCTL"), Out: t.Output()}
	if text := os.Getenv("TIDEMARK_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		o.Seed = seed
	}
	if text := os.Getenv("TIDEMARK_CHAOS_FOR"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		o.For = d
	}
	ctx, cancel := context.WithTimeout(t.Context(), o.For+4*time.Minute)
	defer cancel()
	if o.Binary == "" {
		var err error
		if o.Binary, err = harness.Build(ctx); err != nil {
			t.Fatal(err)
		}
		defer harness.Remove(o.Binary)
	}
	r, err := Run(ctx, servers, o)
	if err != nil {
		t.Error(err)
	}
	if r == nil {
		return
	}
	t.Logf("%s\n%s", r.Markdown("TIDEMARK_TEST_CHAOS=1 TIDEMARK_SEED="+strconv.FormatUint(o.Seed, 10)+" go test -v -run TestChaos ./integration/chaos"), r.JSON())
	for _, v := range r.Violations {
		t.Error(v)
	}
	switch {
	case r.Rounds == 0:
		t.Error("no round was made")
	case r.Rounds < expected && o.For >= 3*time.Minute:
		t.Logf("chaos: %d rounds in %s, fewer than the %d expected: this machine is slow or busy", r.Rounds, r.Took.Round(time.Second), expected)
	default:
		t.Logf("chaos: %d rounds in %s", r.Rounds, r.Took.Round(time.Second))
	}
}

// expected are the rounds that three minutes hold on two cores.
const expected = 30

// A seed makes the same plan, and every fault has its turn.
func TestPlanFollowsFromTheSeed(t *testing.T) {
	l := &lab{}
	seen := map[string]bool{}
	first, onDemand := 0, map[string]bool{}
	for seed := range uint64(2000) {
		if r, again := l.reads(seed), l.reads(seed); !reflect.DeepEqual(r, again) {
			t.Fatalf("seed %d reads %v and %v", seed, r, again)
		} else {
			for _, table := range r.tables {
				onDemand[table] = true
			}
			if r.first {
				first++
			}
		}
		a, b := seeded(l, seed), seeded(l, seed)
		if len(a) != len(b) {
			t.Fatalf("seed %d: %v and %v", seed, a, b)
		}
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("seed %d: %v and %v", seed, a, b)
			}
			seen[a[i]] = true
		}
	}
	if want := len(faults) + len(atRest); len(seen) != want {
		t.Errorf("%d faults in 2,000 rounds, there are %d", len(seen), want)
	}
	if first < 500 || len(onDemand) != len(tables) {
		t.Errorf("%d of 2,000 streams would begin with rows; read on demand are %v", first, onDemand)
	}
}

func seeded(l *lab, seed uint64) (names []string) {
	during, rest := l.plan(random(seed))
	for _, f := range append(during, rest...) {
		names = append(names, f.name)
	}
	return names
}
