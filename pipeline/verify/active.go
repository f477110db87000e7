package verify

import (
	"encoding/json"
	"errors"
)

// Active is the set of generations that count: the newest activated baseline generation and every
// activated later one; all where nothing was activated. While no baseline was activated, every
// activated generation counts.
type Active struct {
	known     bool
	activated map[int64]bool // generation: baseline
	from      int64          // newest baseline
}

// Contains reports whether a generation is active.
func (a Active) Contains(generation int64) bool {
	if !a.known {
		return true
	}
	_, ok := a.activated[generation]
	return ok && generation >= a.from
}

// Add takes the value of an activation record.
func (a *Active) Add(value []byte) error {
	var v struct {
		Gen      int64 `json:"gen"`
		Baseline bool  `json:"baseline"`
	}
	if err := json.Unmarshal(value, &v); err != nil || v.Gen < 1 {
		return errors.New("activation record is not {\"gen\":…,\"start\":…,\"baseline\":…}")
	}
	if a.activated == nil {
		a.activated = map[int64]bool{}
	}
	a.known, a.activated[v.Gen] = true, v.Baseline
	if v.Baseline {
		a.from = max(a.from, v.Gen)
	}
	return nil
}
