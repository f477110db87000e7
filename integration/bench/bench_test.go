package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What cannot be measured is refused before anything is started, with what there is.
func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                             "-connectctl is missing",
		"-connectctl x -bench quick":   `no bench "quick"; there are `,
		"-connectctl x -transport udp": "must be unix or tcp",
		"-connectctl x -pairs 0":       "-pairs must be 1 at least",
		"-connectctl x -rows -1":       "must not be negative",
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// `all` measures every bench of ours once, the stream last.
func TestAllIsEverything(t *testing.T) {
	want := slices.DeleteFunc(names(), func(name string) bool { return name == peerName })
	if got := slices.Sorted(slices.Values(order)); !slices.Equal(got, want) {
		t.Errorf("all is %v, there are %v", got, want)
	}
	if last := order[len(order)-1]; last != "stream" {
		t.Errorf("%s is last", last)
	}
}

// Room that no machine has is asked for before anything is started.
func TestRoomIsLookedForFirst(t *testing.T) {
	for _, c := range []struct{ data, memory int64 }{{1 << 60, 0}, {0, 1 << 60}} {
		if err := checkRoom(c.data, c.memory); err == nil || !strings.Contains(err.Error(), "no room") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// A quantile is the smallest value that at least that share of the values does not exceed.
func TestQuantile(t *testing.T) {
	seed := time.Now().UnixNano()
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	for range 200 {
		values := make([]time.Duration, 1+r.IntN(300))
		for i := range values {
			values[i] = time.Duration(r.IntN(1000))
		}
		slices.Sort(values)
		for _, q := range []float64{0.01, 0.5, 0.99, 1} {
			got := quantile(values, q)
			notAbove, below := 0, 0
			for _, v := range values {
				if v <= got {
					notAbove++
				}
				if v < got {
					below++
				}
			}
			if share := q * float64(len(values)); float64(notAbove) < share || float64(below) >= share {
				t.Fatalf("seed %d: quantile %v of %v is %v", seed, q, values, got)
			}
		}
	}
}

// A row's id is read from the key as Avro writes a long.
func TestRowID(t *testing.T) {
	for id, body := range map[int64]string{0: "\x00", 1: "\x02", -1: "\x01", 64: "\x80\x01", 5_000_000: "\x80\xad\xe2\x04"} {
		if got := rowID(&kgo.Record{Key: []byte("\x00\x00\x00\x00\x07" + body)}); got != id {
			t.Errorf("%x is %d, want %d", body, got, id)
		}
	}
}

// Rows of a table have the ids that a check of its topic expects.
func TestFirstIDs(t *testing.T) {
	for _, s := range shapes {
		for table := range s.tables {
			if first := s.firstID(table); first < 1 || int(first)%s.tables != table%s.tables {
				t.Errorf("%s: row %d is said to be the first of table %d", s.name, first, table)
			}
		}
	}
}
