package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// Report is what a run did and found. Its methods may be called from any goroutine.
type Report struct {
	Seed         uint64
	Labs         int
	Begun        int // rounds
	Rounds       int // of them that were made and judged
	Faults       map[string]int
	Changes      int // judged
	Transactions int
	Load         int // transactions that the load's sessions saw committed
	Samples      int // of the slot
	Streams      int // that were begun
	First        int // of them with their tables' rows
	Read         int // tables, on demand
	Forgotten    int // transactions whose markers Kafka forgot
	Violations   []string
	Broken       []string // labs that were replaced, and why
	Took         time.Duration
	Interrupted  bool

	mu    sync.Mutex
	out   io.Writer
	began time.Time
}

// sum is the last line.
type sum struct {
	Rounds     int `json:"chaos_rounds"`
	Faults     int `json:"faults"`
	Changes    int `json:"changes"`
	Violations int `json:"violations"`
}

func (r *Report) say(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%7.1fs %s\n", time.Since(r.began).Seconds(), text)
}

func (r *Report) violation(text string) {
	r.say("VIOLATION: " + text)
	r.count(func() { r.Violations = append(r.Violations, text) })
}

func (r *Report) violations() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Violations)
}

// replaced tells of a lab that broke.
func (r *Report) replaced(why error) {
	r.say("the lab broke and is replaced: " + why.Error())
	r.count(func() { r.Broken = append(r.Broken, why.Error()) })
}

func (r *Report) broken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Broken)
}

func (r *Report) struck(fault string) { r.count(func() { r.Faults[fault]++ }) }
func (r *Report) sampled(n int)       { r.count(func() { r.Samples += n }) }
func (r *Report) begun()              { r.count(func() { r.Begun++ }) }
func (r *Report) rounded(load int)    { r.count(func() { r.Rounds, r.Load = r.Rounds+1, r.Load+load }) }
func (r *Report) forgot()             { r.count(func() { r.Forgotten++ }) }
func (r *Report) read(n int)          { r.count(func() { r.Read += n }) }

func (r *Report) stream(first bool) {
	r.count(func() {
		if r.Streams++; first {
			r.First++
		}
	})
}

func (r *Report) compared(changes, transactions int) {
	r.count(func() { r.Changes, r.Transactions = r.Changes+changes, r.Transactions+transactions })
}

func (r *Report) count(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// JSON is the run's one line.
func (r *Report) JSON() string {
	b, _ := json.Marshal(sum{Rounds: r.Rounds, Faults: r.faults(), Changes: r.Changes, Violations: len(r.Violations)})
	return string(b)
}

func (r *Report) faults() (n int) {
	for _, times := range r.Faults {
		n += times
	}
	return n
}
