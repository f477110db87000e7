package snapshot

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// collect takes what the readers have left.
func (s *Source) collect() {
	s.mu.Lock()
	results := s.results
	s.results = nil
	oldest := uint64(math.MaxUint64)
	for n := range s.reading {
		oldest = min(oldest, n)
	}
	s.mu.Unlock()
	for _, r := range results {
		if r.chunk != nil && s.win.cand == nil {
			s.win.cand = &candidate{r.chunk.Visible, r.latest}
		}
		if t := s.tables[r.job.name]; t != nil && t.job == r.job {
			t.results = append(t.results, r)
		}
	}
	if s.win.cand == nil {
		return
	}
	var waiting []connectors.Visibility
	for _, t := range s.order {
		for _, r := range t.results {
			if r.chunk != nil {
				waiting = append(waiting, r.chunk.Visible)
			}
		}
	}
	s.win.settle(oldest, waiting)
}

// advance returns the next batch of a table's rows or the end of its reading, where there is one for this boundary.
func (s *Source) advance(t *table) (connectors.Batch, bool) {
	for t.job != nil {
		if b, ok, waits := s.advanceCopy(t); ok || waits {
			return b, ok
		}
		if len(t.results) == 0 {
			break
		}
		r := t.results[0]
		switch {
		case r.failure != nil:
			return s.ends(t, offsets.SnapshotFailed, r.failure.Error()), true
		case r.copied:
			return s.ends(t, offsets.SnapshotDone, ""), true
		case r.def != nil:
			t.results = t.results[1:]
			if reason := s.described(t, r); reason != "" {
				return s.ends(t, offsets.SnapshotFailed, reason), true
			}
		case r.epoch != t.job.epoch: // written by this goroutine alone
			t.results = t.results[1:]
			r.free()
		case !r.chunk.Place.Reached(&s.last):
			return connectors.Batch{}, false
		case s.flight.full():
			return connectors.Batch{}, false
		default:
			t.results = t.results[1:]
			if b, ok := s.decide(t, r); ok {
				return b, true
			}
		}
	}
	return connectors.Batch{}, false
}

// ends ends the reading of a table with a batch that says so.
func (s *Source) ends(t *table, state, reason string) connectors.Batch {
	s.end(t, state, reason)
	b := s.boundary()
	b.Progress = []connectors.TableProgress{t.stored()}
	s.activate(&b)
	return b
}

// described takes note of the table as its reader found it.
func (s *Source) described(t *table, r *result) (reason string) {
	if changed := keyChange(r.job.def, r.def); changed != "" {
		return changed
	}
	if t.progress.Rows == 0 || t.progress.Total < 0 {
		t.progress.Total = r.rows
	}
	s.observe(t)
	return ""
}

func keyChange(before, now *schema.Table) string {
	if slices.Equal(before.KeyColumns(), now.KeyColumns()) {
		return ""
	}
	return fmt.Sprintf("the key of table %s changed from (%s) to (%s) while it was to be read; what was read of it stands, begin again with a new snapshot",
		now.QualifiedName(), strings.Join(before.KeyColumns(), ", "), strings.Join(now.KeyColumns(), ", "))
}

// decide hands a chunk out where it counts; else it is read again.
func (s *Source) decide(t *table, r *result) (connectors.Batch, bool) {
	if changed := keyChange(r.job.def, r.chunk.Table); changed != "" {
		return s.ends(t, offsets.SnapshotFailed, changed), true
	}
	if r.chunk.Table.Version < t.version { // consumers, and the schema registry, have seen the table as it is since
		s.repeat(t, r, "the table was altered after they were read")
		return connectors.Batch{}, false
	}
	changed, why := s.win.judge(t, r.chunk.Visible)
	if why != "" {
		s.repeat(t, r, why)
		return connectors.Batch{}, false
	}
	again, n := s.stand(t, r, changed)
	if len(again) > mostAgain && r.query.Limit > minChunk {
		s.repeat(t, r, "too many of its rows change while they are read")
		return connectors.Batch{}, false
	}
	if t.again.hidden(changed) {
		s.repeat(t, r, "rows that were moved to other keys are not yet visible there")
		return connectors.Batch{}, false
	}
	return s.publish(t, r, again, n), true
}

// repeat has a chunk read again after a pause that grows.
func (s *Source) repeat(t *table, r *result, why string) {
	j := t.job
	s.mu.Lock()
	j.pause = min(max(2*j.pause, s.cfg.pause), 5*time.Second)
	j.notBefore = time.Now().Add(j.pause)
	long := j.pause >= 10*s.cfg.pause
	s.chunk(t, r, 0)
	s.mu.Unlock()
	if long {
		s.waits(j, why)
	}
	s.restart(j, t.progress.After, s.toRead(j), r.query.Limit/2)
	t.void()
	r.free()
}

// void drops the chunks that were read ahead.
func (t *table) void() {
	t.results = slices.DeleteFunc(t.results, func(r *result) bool {
		r.free()
		return r.chunk != nil
	})
}

// free gives the memory of a chunk back that is not handed out.
func (r *result) free() {
	if r.chunk != nil && r.chunk.Free != nil {
		r.chunk.Free()
	}
}

// stand fills changes with the rows that stand, and returns the keys of those to be read again; a key of changed whose last change
// lacks columns is marked off where a row has it.
func (s *Source) stand(t *table, r *result, changed map[string]bool) (again []string, n int) {
	c := r.chunk
	s.grow(len(c.Rows))
	for _, row := range c.Rows {
		if len(changed) > 0 || t.again.pass {
			s.win.buf, _ = appendKey(s.win.buf[:0], c.Table, row)
			lacks, ok := changed[string(s.win.buf)]
			if lacks {
				again = append(again, c.Key(row))
				changed[string(s.win.buf)] = false // found
			}
			if ok || !t.again.wants(s.win.buf) && !slices.Contains(r.query.Again, c.Key(row)) {
				continue
			}
		}
		s.changes[n].Table, s.changes[n].After = c.Table, row
		n++
	}
	return again, n
}

// grow makes room for rows in changes, all of whose elements are reads.
func (s *Source) grow(n int) {
	for have := len(s.changes); have < n; have++ {
		s.changes = append(s.changes, connectors.Change{Op: connectors.OpRead})
	}
}

// publish hands out the n rows of a chunk that stand, with the progress they make.
func (s *Source) publish(t *table, r *result, again []string, n int) connectors.Batch {
	j, p := t.job, &t.progress
	s.mu.Lock()
	j.pause, j.waiting = 0, j.waiting-1
	j.again = append(j.again[len(r.query.Again):], again...)
	j.issued -= len(r.query.Again)
	left := append([]string(nil), j.again...)
	s.chunk(t, r, n)
	s.wake()
	s.mu.Unlock()
	s.runs(j)
	s.last.Boundary = slices.Clone(s.last.Boundary) // memory of its own: see flight
	b := s.boundary()
	s.flight.leaves(&b, n)
	b.Tx.CommitTime = r.chunk.ReadTime
	first := s.rowsAt(t, b.Tx.Pos, n)
	if b.Changes = s.changes[:n]; r.chunk.Free != nil {
		s.chunkOut = r.chunk
	}
	for i := range b.Changes {
		b.Changes[i].Seq = first + int64(i)
	}
	t.def = r.chunk.Table
	p.State, p.Again = offsets.SnapshotReading, t.again.stored(left)
	if r.query.Limit > 0 {
		if r.chunk.Next != "" {
			p.After = r.chunk.Next
		}
		t.paged = r.chunk.Done
	}
	if t.paged && len(left) == 0 {
		if t.again.begin() {
			p.After, p.Again, t.paged = "", t.again.stored(nil), false
			s.restart(j, "", nil, 0)
			t.void()
		} else {
			s.end(t, offsets.SnapshotDone, "")
		}
	}
	b.Progress = []connectors.TableProgress{{Table: r.chunk.Table, Progress: *p}}
	s.activate(&b)
	s.observe(t)
	return b
}
