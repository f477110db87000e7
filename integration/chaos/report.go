package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Report is what a run did and found. Its methods may be called from any goroutine.
type Report struct {
	Seed         uint64
	Begun        int // rounds
	Rounds       int // of them that were made
	Faults       map[string]int
	Changes      int // judged
	Transactions int
	Load         int // transactions that the load's sessions saw committed
	Samples      int // of the slot
	Violations   []string
	Took         time.Duration

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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Violations = append(r.Violations, text)
}

func (r *Report) violations() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.Violations)
}

func (r *Report) struck(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Faults[fault]++
}

func (r *Report) sampled(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Samples += n
}

func (r *Report) compared(changes, transactions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Changes, r.Transactions = r.Changes+changes, r.Transactions+transactions
}

func (r *Report) begun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Begun++
}

func (r *Report) rounded(load int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Rounds, r.Load = r.Rounds+1, r.Load+load
}

// JSON is the run's one line.
func (r *Report) JSON() string {
	s := sum{Rounds: r.Rounds, Changes: r.Changes, Violations: len(r.Violations)}
	for _, n := range r.Faults {
		s.Faults += n
	}
	b, _ := json.Marshal(s)
	return string(b)
}

// Markdown is the report; command is what made it.
func (r *Report) Markdown(command string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Proof\n\nMade by `%s`.\n\n", command)
	fmt.Fprintf(&b, "| | |\n| --- | --- |\n| rounds | %d |\n| seeds | %d to %d |\n| time | %s |\n| changes judged | %d in %d transactions |\n| slot and offset sampled | %d times |\n| violations | %d |\n",
		r.Rounds, r.Seed, r.Seed+uint64(max(r.Begun, 1))-1, r.Took.Round(time.Second), r.Changes, r.Transactions, r.Samples, len(r.Violations))
	b.WriteString("\n| fault | struck |\n| --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, r.Faults[name])
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "\nViolation: %s\n", v)
	}
	fmt.Fprintf(&b, "\n```json\n%s\n```\n", r.JSON())
	return b.String()
}
