package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// copying is the reading of a whole table without a key. Its rows are as of one place in the log: the stream is held
// there until they are handed out.
type copying struct {
	since   time.Time
	stall   bool
	place   connectors.Place     // nil: not known yet
	offer   *connectors.CopyRows // waits to be handed out
	answer  chan error           // to the reader that offered
	checked bool                 // the stream had not passed the place; of Next's goroutine
}

var errLate = errors.New("the stream has passed the place of the copy")

// copyTable reads a whole table.
func (s *Source) copyTable(ctx context.Context, r connectors.Reader, j *job) error {
	for {
		c := &copying{since: time.Now(), answer: make(chan error, 1)}
		s.mu.Lock()
		c.stall, j.copy = j.stall, c
		wait := time.Until(j.notBefore)
		s.mu.Unlock()
		if wait > 0 {
			s.mu.Lock()
			j.copy = nil
			s.mu.Unlock()
			if !sleep(ctx, wait) {
				return nil
			}
			continue
		}
		late := false
		err := r.Copy(ctx, connectors.CopyQuery{Table: j.name, Where: j.where, Initial: j.first}, func(rows connectors.CopyRows) error {
			s.mu.Lock()
			c.place, c.offer = rows.Place, &rows
			s.mu.Unlock()
			s.notify()
			select {
			case err := <-c.answer:
				late = late || errors.Is(err, errLate)
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		s.mu.Lock()
		j.copy = nil
		s.mu.Unlock()
		s.notify()
		switch {
		case late:
			continue
		case err != nil:
			return s.passes(ctx, j, fmt.Errorf("copy %s: %w", j.name, err))
		}
		s.mu.Lock()
		j.over = true
		s.mu.Unlock()
		s.post(&result{job: j, copied: true})
		return nil
	}
}

// advanceCopy hands out what the copy of a table offers; waits: there is a copy, and it offers nothing for this boundary.
func (s *Source) advanceCopy(t *table) (b connectors.Batch, ok, waits bool) {
	j := t.job
	s.mu.Lock()
	c := j.copy
	var offer *connectors.CopyRows
	if c != nil {
		offer = c.offer
	}
	s.mu.Unlock()
	if c == nil {
		return b, false, false
	}
	if offer == nil || s.answered == c {
		return b, false, len(t.results) == 0
	}
	if !c.checked {
		if t.touched != nil && c.place.Before(&connectors.Batch{Tx: *t.touched, Last: true}) {
			s.late(j)
			s.reply(c, errLate)
			return b, false, true
		}
		c.checked = true
		if t.progress.Rows > 0 {
			s.cfg.Log.Warn("a table without a key is copied from its beginning once more: rows repeat, at a later position", "table", t.name, "rows", t.progress.Rows)
			t.progress.Rows = 0
		}
	}
	if len(offer.Rows) == 0 {
		s.reply(c, nil)
		return b, false, true
	}
	if !s.at(c.place) {
		return b, false, true
	}
	s.runs(j)
	b = s.boundary()
	b.Tx.CommitTime = offer.ReadTime
	first := s.rowsAt(t, b.Tx.Pos, len(offer.Rows))
	s.fill(&b, offer.Table, offer.Rows, first)
	t.progress.State = offsets.SnapshotReading
	b.Progress = []connectors.TableProgress{{Table: offer.Table, Progress: t.progress}}
	s.observe(t)
	s.answered = c
	return b, true, false
}

// reply lets the reader of a copy go on.
func (s *Source) reply(c *copying, err error) {
	s.mu.Lock()
	c.offer = nil
	s.mu.Unlock()
	c.answer <- err
}

// release gives memory back that the last batch had of a copy.
func (s *Source) release() {
	if c := s.chunkOut; c != nil {
		s.chunkOut = nil
		c.Free()
	}
	if c := s.answered; c != nil {
		s.answered = nil
		s.reply(c, nil)
	}
}

// late has a copy made again whose place the stream has passed, this time with the stream held.
func (s *Source) late(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.stall { // was held, and not long enough
		j.pause = min(max(2*j.pause, time.Second), time.Minute)
		j.notBefore = time.Now().Add(j.pause)
	}
	j.stall = true
}

// holds tells that a batch of the stream must wait for a copy.
func (s *Source) holds(b *connectors.Batch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		c := j.copy
		switch {
		case c == nil:
		case c.place != nil:
			if c.place.Before(b) {
				return true
			}
		case c.stall && time.Since(c.since) < s.cfg.stall:
			return true
		}
	}
	return false
}

// copies tells that rows of a copy are to come before anything else of the stream.
func (s *Source) copies() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if c := j.copy; c != nil && c.checked && s.at(c.place) {
			return true
		}
	}
	return false
}

// at tells that the stream stands at a place that it had not passed: everything before it was handed out.
func (s *Source) at(p connectors.Place) bool {
	return p.Reached(&s.last) || s.held != nil && !s.partial && p.Before(s.held)
}
