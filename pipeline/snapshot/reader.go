package snapshot

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema"
)

const (
	minChunk  = 256
	readTime  = 50 * time.Millisecond // aimed at for a chunk
	readAhead = 2                     // chunks of a table read and not decided on, or being read
	mostAgain = 1024                  // keys a chunk reads again
)

// shared is what Next and the readers share.
type shared struct {
	mu       sync.Mutex
	jobs     []*job
	results  []*result // for Next, in the order they were read
	changed  chan struct{}
	paused   bool
	reading  map[uint64]bool // reads under way, by number
	number   uint64          // of the read that began last
	opened   connectors.Exported
	signals  []received
	applied  []applied
	status   map[string]*TableStatus
	shown    time.Time
	queued   []string
	outcomes []Outcome
}

func (h *shared) init() {
	h.changed, h.reading, h.status = make(chan struct{}), map[uint64]bool{}, map[string]*TableStatus{}
}

// wake makes readers look again; the lock is held.
func (h *shared) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// job is a table to be read. What follows def is guarded by the lock.
type job struct {
	name  string
	where string
	key   []string // surrogate
	def   *schema.Table
	first bool // the table's initial content

	after     string   // where the next chunk begins
	again     []string // keys to be read again
	issued    int      // of them, those that reads under way or undecided have
	paged     bool     // the last page was read
	waiting   int      // reads issued and not decided on
	epoch     int      // grows when what was read ahead is void
	limit     int
	notBefore time.Time
	pause     time.Duration
	taken     bool
	over      bool
	cancel    context.CancelFunc // of the reader at work, nil: none
	copy      *copying
	stall     bool // hold the stream until the copy's place is known
	reason    string
}

// result is what a reader made of a job.
type result struct {
	job     *job
	epoch   int
	number  uint64
	latest  uint64 // number of the read that had begun last when this one ended
	query   connectors.ChunkQuery
	chunk   *connectors.Chunk
	def     *schema.Table // the job's table, described
	rows    int64         // estimate
	failure error         // the job's own
	copied  bool          // the copy is complete
}

func (s *Source) startReaders() {
	for range s.cfg.Threads {
		s.workers.Go(s.work)
	}
}

func (s *Source) enqueue(j *job) {
	s.mu.Lock()
	s.jobs = append(s.jobs, j)
	s.wake()
	s.mu.Unlock()
}

// drop ends a job; what is being read of it is cut off.
func (s *Source) drop(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.over = true
	if j.cancel != nil {
		j.cancel()
	}
	for i := range s.jobs {
		if s.jobs[i] == j {
			s.jobs = append(s.jobs[:i:i], s.jobs[i+1:]...)
			break
		}
	}
	s.wake()
}

// restart voids what was read ahead: the table is read again from after, not before a pause.
func (s *Source) restart(j *job, after string, again []string, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.epoch++
	j.after, j.again, j.issued, j.paged, j.waiting = after, again, 0, false, 0
	if limit > 0 {
		j.limit = min(s.cfg.ChunkSize, max(minChunk, limit))
	}
	s.wake()
}

func (s *Source) toRead(j *job) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), j.again...)
}

func (s *Source) post(r *result) {
	s.mu.Lock()
	s.results = append(s.results, r)
	s.mu.Unlock()
	s.notify()
}

// work is one reader's goroutine.
func (s *Source) work() {
	var r connectors.Reader
	release := func() {
		if r == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if err := r.Close(ctx); err != nil {
			s.cfg.Log.Debug("close a reader of snapshots", "reason", err)
		}
		cancel()
		r = nil
	}
	defer release()
	for {
		j, ctx := s.take(release)
		if j == nil {
			return
		}
		for pause := s.cfg.retry; ; pause = min(2*pause, 10*time.Second) {
			began := time.Now()
			err := s.serve(ctx, &r, j)
			if err == nil {
				break
			}
			release()
			if time.Since(began) > 30*time.Second {
				pause = s.cfg.retry
			}
			s.cfg.Log.Warn("reading a table is interrupted and goes on", "table", j.name, "in", pause.String(), "reason", err)
			s.waits(j, err.Error())
			if !sleep(ctx, pause) {
				break
			}
		}
		s.mu.Lock()
		j.taken, j.cancel = false, nil
		s.mu.Unlock()
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// take waits for a job; nil at the end. idle is called before it waits.
func (s *Source) take(idle func()) (*job, context.Context) {
	for {
		s.mu.Lock()
		if s.ctx.Err() != nil {
			s.mu.Unlock()
			return nil, nil
		}
		for _, j := range s.jobs {
			if !j.taken && !j.over && !s.paused {
				j.taken = true
				ctx, cancel := context.WithCancel(s.ctx)
				j.cancel = cancel
				s.mu.Unlock()
				return j, ctx
			}
		}
		changed := s.changed
		s.mu.Unlock()
		idle()
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, nil
		}
	}
}

// serve reads a table to its end; an error is one that passes with the connection.
func (s *Source) serve(ctx context.Context, r *connectors.Reader, j *job) error {
	if ctx.Err() != nil {
		return nil
	}
	if *r == nil {
		opened, err := s.inner.OpenReader(ctx)
		if err != nil {
			return s.passes(ctx, j, fmt.Errorf("open a connection to read %s: %w", j.name, err))
		}
		*r = opened
	}
	def, rows, err := (*r).Table(ctx, j.name)
	if err != nil {
		return s.passes(ctx, j, fmt.Errorf("look up table %s: %w", j.name, err))
	}
	s.post(&result{job: j, def: def, rows: rows})
	if len(def.Key) == 0 {
		if len(j.key) > 0 {
			s.cfg.Log.Info("a table without a key is copied whole: the surrogate key to read it in the order of is not used", "table", j.name, "surrogate_key", strings.Join(j.key, ", "))
		}
		return s.copyTable(ctx, *r, j)
	}
	for {
		q, number, epoch, ok := s.issue(ctx, j)
		if !ok {
			return nil
		}
		began := time.Now()
		chunk, err := (*r).Chunk(ctx, q)
		res := &result{job: j, epoch: epoch, number: number, query: q, chunk: chunk}
		s.over(res, time.Since(began), err)
		if err != nil {
			return s.passes(ctx, j, fmt.Errorf("read a chunk of %s: %w", j.name, err))
		}
		s.limiter.took(len(chunk.Rows))
		s.post(res)
	}
}

// passes returns an error that may pass with the connection; any other fails the job.
func (s *Source) passes(ctx context.Context, j *job, err error) error {
	if ctx.Err() != nil {
		return nil // stopped or closed
	}
	if connectors.ClassOf(err) == connectors.ClassWait {
		return err
	}
	s.mu.Lock()
	j.over = true
	s.mu.Unlock()
	s.post(&result{job: j, failure: err})
	return nil
}

// issue waits until a chunk may be read, and says which; false where the job is over.
func (s *Source) issue(ctx context.Context, j *job) (q connectors.ChunkQuery, number uint64, epoch int, ok bool) {
	for {
		s.mu.Lock()
		wait := max(time.Until(j.notBefore), s.limiter.wait())
		again := min(len(j.again)-j.issued, mostAgain)
		ready := !s.paused && j.waiting < readAhead && wait <= 0 && (!j.paged || again > 0)
		if j.over || ctx.Err() != nil {
			s.mu.Unlock()
			return q, 0, 0, false
		}
		if ready {
			q = connectors.ChunkQuery{Table: j.name, After: j.after, Where: j.where, Key: j.key, Limit: s.limiter.bound(j.limit), Initial: j.first}
			q.Again = append(q.Again, j.again[j.issued:j.issued+again]...)
			if j.paged || again == mostAgain {
				q.Limit = 0
			}
			j.issued += again
			j.waiting++
			s.number++
			number, epoch = s.number, j.epoch
			s.reading[number] = true
			s.mu.Unlock()
			return q, number, epoch, true
		}
		changed := s.changed
		s.mu.Unlock()
		if wait <= 0 {
			wait = math.MaxInt64
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// over notes the end of a read, and where the next one goes on.
func (s *Source) over(r *result, took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reading, r.number)
	r.latest = s.number
	j := r.job
	if j.epoch != r.epoch {
		return
	}
	if err != nil {
		j.waiting--
		j.issued -= len(r.query.Again) // the last ones: nobody else reads the table
		return
	}
	if r.query.Limit == 0 {
		return
	}
	if r.chunk.Next != "" {
		j.after = r.chunk.Next
	}
	j.paged = r.chunk.Done
	if n := len(r.chunk.Rows); n >= r.query.Limit/2 {
		grow := float64(readTime) / float64(max(took, time.Microsecond))
		j.limit = int(min(2, max(0.5, grow)) * float64(j.limit))
	}
	j.limit = min(s.cfg.ChunkSize, max(minChunk, j.limit))
}

// limiter spreads rows over time; a read is paid for afterwards.
type limiter struct {
	mu   sync.Mutex
	rate float64 // rows a second; 0: no limit
	free time.Time
}

func (l *limiter) wait() time.Duration {
	if l.rate <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.free)
}

// bound keeps a read within about a quarter of a second's rows.
func (l *limiter) bound(rows int) int {
	if l.rate <= 0 {
		return rows
	}
	return min(rows, max(1, int(l.rate/4)))
}

func (l *limiter) took(rows int) {
	if l.rate <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(float64(rows) / l.rate * float64(time.Second)))
}
