package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// sides are the measured processes.
type sides struct{ program, walsender, broker usage }

// Heads of the columns that sides.cells fills.
const (
	sidesHead  = "| CPU seconds              | peak MiB                 "
	sidesHead2 = "| program walsender broker | program walsender broker "
)

func (s sides) cells() string {
	return fmt.Sprintf("| %7.2f %9.2f %6.2f | %7d %9d %6d ", s.program.cpu, s.walsender.cpu, s.broker.cpu,
		s.program.peakMiB, s.walsender.peakMiB, s.broker.peakMiB)
}

// closing prints the one line for machines.
func closing(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}

func round2(f float64) float64 { return math.Round(f*100) / 100 }

func millis(d time.Duration) float64 { return round2(float64(d) / float64(time.Millisecond)) }

// median of what runs have; the upper one of two.
func median[T any](runs []T, of func(T) float64) float64 {
	all := make([]float64, len(runs))
	for i, d := range runs {
		all[i] = of(d)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// peak is the highest memory of the program over runs.
func peak[T any](runs []T, of func(T) sides) (mib int64) {
	for _, d := range runs {
		mib = max(mib, of(d).program.peakMiB)
	}
	return mib
}

// quantile is the nearest-rank quantile of sorted values: the smallest that at least the share q of them do not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}
