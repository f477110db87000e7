// Package integration tests Tidemark end to end: the ordinary connectctl binary as a child process, real PostgreSQL, Kafka
// and schema registry.
//
// TIDEMARK_MAJORS names the PostgreSQL versions on which everything runs (default 14,18), TIDEMARK_MAIN_MAJORS those on which
// only the main path does (default 15,16,17). TIDEMARK_SEED repeats the random tests of a run; TIDEMARK_CONNECTCTL names a
// binary to test in place of a fresh build.
package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

var (
	servers *env.Env
	binary  string
)

func TestMain(m *testing.M) { env.Main(runner{m}, &servers) }

// runner builds the binary around the tests.
type runner struct{ m *testing.M }

func (r runner) Run() int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if binary = os.Getenv("TIDEMARK_CONNECTCTL"); binary != "" {
		return r.m.Run()
	}
	var err error
	if binary, err = harness.Build(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer harness.Remove(binary)
	return r.m.Run()
}

func majors(variable, standard string) (out []int) {
	list, ok := os.LookupEnv(variable)
	if !ok {
		list = standard
	}
	for one := range strings.SplitSeq(list, ",") {
		if n, err := strconv.Atoi(strings.TrimSpace(one)); err == nil {
			out = append(out, n)
		}
	}
	return out
}

func fullMajors() []int { return majors("TIDEMARK_MAJORS", "14,18") }

// newest is the version that gets the long variants.
func newest(major int) bool { return major == slices.Max(fullMajors()) }

// full runs a test on every version that is tested in full, side by side with other tests.
func full(t *testing.T, test func(t *testing.T, major int)) {
	t.Helper()
	t.Parallel()
	on(t, fullMajors(), test)
}

func on(t *testing.T, majors []int, test func(t *testing.T, major int)) {
	for _, m := range majors {
		t.Run("pg"+strconv.Itoa(m), func(t *testing.T) {
			t.Parallel()
			test(t, m)
		})
	}
}

// stream makes a stream on the shared servers; what o names already stays.
func stream(t *testing.T, major int, o harness.Options) *harness.Stream {
	t.Helper()
	o.Binary = binary
	if o.PG == nil {
		o.PG = servers.Postgres(t, major)
	}
	if o.Kafka == nil {
		o.Kafka = servers.Kafka(t)
	}
	if o.Registry == nil {
		o.Registry = servers.Registry(t)
	}
	return harness.New(t, o)
}

// seeded returns a source of randomness whose seed the test's log names.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TIDEMARK_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("TIDEMARK_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("TIDEMARK_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

const soon = 30 * time.Second
