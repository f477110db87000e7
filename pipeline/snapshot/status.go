package snapshot

import (
	"sync/atomic"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// Observer is told how far tables have been read. Observe must not block.
type Observer interface {
	Observe(Status)
}

// Status is how far the tables have been read.
type Status struct {
	Tables  []TableStatus // those that a snapshot was begun of, in no order
	Paused  bool
	Queued  []string // ids of requests that wait
	Results []Outcome
	Summary Summary
}

// TableStatus is how far one table has been read.
type TableStatus struct {
	Table        string
	State        string // as offsets.Progress.State
	ID, Kind     string // of the snapshot
	Reason       string // why it failed, was stopped, or waits
	Rows, Total  int64  // published; estimate of all, -1: unknown
	Rate         float64
	Left         time.Duration // estimate; -1: unknown
	Chunk        int           // rows asked for in the last chunk, as tuned; 0: none was read
	Again        int64         // rows read in vain in this run: changed meanwhile, or with a chunk that was read again
	Began, Ended time.Time     // zero: not yet

	since time.Time // when this run's reading began, for the rate
	rows  int64     // published before
}

// Outcome is what became of a request.
type Outcome struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Error string `json:"error,omitempty"` // empty: done
	At    int64  `json:"at"`              // milliseconds since the Unix epoch
}

// Summary counts what a Source has handed out.
type Summary struct {
	Transactions int64 // of the stream, with changes
	Changes      int64 // of the stream
	Rows         int64 // read from tables
	Tables       int   // read to their end
	Failed       int   // whose reading ended otherwise
}

// observedEvery is how often an observer is told of rows.
const observedEvery = 200 * time.Millisecond

// summary is what is counted for the Summary.
type summary struct {
	transactions, changes, rows atomic.Int64
}

// streamed counts a batch of the stream; goesOn: of a transaction that began in an earlier one.
func (s *summary) streamed(b *connectors.Batch, goesOn bool) {
	s.changes.Add(int64(len(b.Changes)))
	if b.Last && (goesOn || len(b.Changes) > 0) {
		s.transactions.Add(1)
	}
}

// observe takes a table's progress over into the status.
func (s *Source) observe(t *table) {
	p := &t.progress
	if p.State == "" {
		return
	}
	s.mu.Lock()
	st := s.status[t.name]
	changed := st == nil || st.State != p.State || st.ID != p.ID
	if st == nil || st.ID != p.ID || st.Ended != (time.Time{}) && p.Open() {
		st = &TableStatus{Table: t.name, rows: p.Rows}
		s.status[t.name] = st
	}
	if st.since.IsZero() && p.Open() {
		st.since = time.Now()
	}
	st.State, st.ID, st.Kind, st.Rows, st.Total = p.State, p.ID, p.Kind, p.Rows, p.Total
	if changed || p.Reason != "" {
		st.Reason = p.Reason
	}
	st.rows = min(st.rows, p.Rows)
	st.Began, st.Ended = moment(p.Began), moment(p.Ended)
	st.estimate(p)
	show := s.cfg.Observer != nil && (changed || time.Since(s.shown) >= observedEvery)
	if show {
		s.shown = time.Now()
	}
	s.mu.Unlock()
	if show {
		s.cfg.Observer.Observe(s.Status())
	}
}

// chunk counts a chunk of which so many rows stand; the lock is held.
func (s *Source) chunk(t *table, r *result, stand int) {
	if st := s.status[t.name]; st != nil {
		st.Chunk = r.query.Limit
		st.Again += int64(len(r.chunk.Rows) - stand)
	}
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func (st *TableStatus) estimate(p *offsets.Progress) {
	if took := time.Since(st.since).Seconds(); took > 0 && !st.since.IsZero() && p.Open() {
		st.Rate = float64(p.Rows-st.rows) / took
	}
	st.Left = -1
	switch left := p.Total - p.Rows; {
	case !p.Open():
		st.Left = 0
	case p.Total >= 0 && left <= 0:
		st.Left = 0
	case p.Total >= 0 && st.Rate > 0:
		st.Left = time.Duration(float64(left) / st.Rate * float64(time.Second))
	}
}

// waits says why a table's reading does not go on.
func (s *Source) waits(j *job, why string) {
	s.mu.Lock()
	told := j.reason == why
	j.reason = why
	if st := s.status[j.name]; st != nil {
		st.Reason = why
	}
	s.mu.Unlock()
	if !told {
		s.cfg.Report(connectors.State{Name: "RUNNING", Reason: "the snapshot of " + j.name + " waits: " + why})
	}
}

// runs says that it goes on.
func (s *Source) runs(j *job) {
	s.mu.Lock()
	waited := j.reason != ""
	j.reason = ""
	if st := s.status[j.name]; waited && st != nil {
		st.Reason = ""
	}
	s.mu.Unlock()
	if waited {
		s.cfg.Report(connectors.State{Name: "RUNNING"})
	}
}

// Status tells how far the tables have been read. It may be called from any goroutine.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{Paused: s.paused, Queued: s.queued, Results: s.outcomes, Summary: s.total()}
	for _, st := range s.status {
		out.Tables = append(out.Tables, *st)
	}
	return out
}

// Summary counts what was handed out, for the closing line of a run. It may be called from any goroutine.
func (s *Source) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total()
}

func (s *Source) total() Summary {
	out := Summary{Transactions: s.summary.transactions.Load(), Changes: s.summary.changes.Load(), Rows: s.summary.rows.Load()}
	for _, st := range s.status {
		switch {
		case st.since.IsZero(): // of an earlier run
		case st.State == offsets.SnapshotDone:
			out.Tables++
		case st.State == offsets.SnapshotFailed, st.State == offsets.SnapshotStopped:
			out.Failed++
		}
	}
	return out
}
