package snapshot

import (
	"encoding/json"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// Why a table is read: offsets.Progress.Kind.
const (
	KindInitial     = "initial"
	KindAlways      = "always"
	KindAdded       = "added"
	KindIncremental = "incremental"
)

// table is a captured table, on Next's goroutine.
type table struct {
	name     string
	def      *schema.Table    // newest version known
	progress offsets.Progress // as last handed out
	exported bool             // being read from the exported snapshot
	job      *job             // being read by chunks or a copy; nil: not
	results  []*result        // of the job, in the order they were read

	from    uint64                  // transactions from this number on are tracked for it
	floor   *connectors.Transaction // must be settled for a chunk to count
	again   second                  // what has to be read once more, by a further pass
	paged   bool                    // the last page was handed out
	version int                     // of its newest streamed change
	touched *connectors.Transaction // the newest streamed one that changed the table; of keyless tables being read
}

// pend makes a table one to be read.
func (s *Source) pend(t *table, p offsets.Progress) {
	p.State, p.Total, p.Began = offsets.SnapshotPending, -1, time.Now().UnixMilli()
	p.Pos, p.Seq = t.progress.Pos, t.progress.Seq // numbers must not repeat at the same position
	t.progress = p
	s.observe(t)
}

// read hands a table that is pending or was interrupted to the readers.
func (s *Source) read(t *table) {
	p := &t.progress
	if p.After == "" && p.Rows > 0 {
		s.cfg.Log.Warn("a table whose reading was interrupted is read from its beginning: rows may repeat, at a later position", "table", t.name, "rows", p.Rows)
		p.Rows = 0
	}
	again := decode(p.Again)
	t.again = second{}
	if len(again) > 0 && again[0] == moreKeys {
		t.again.due, t.again.unknown, again = true, true, again[1:]
	}
	j := &job{name: t.name, def: t.def, where: p.Where, key: decode(p.Key), after: p.After, again: again, limit: min(1024, s.cfg.ChunkSize),
		first: p.Kind == KindInitial || p.Kind == KindAlways}
	t.job, t.results, t.touched, t.paged = j, nil, nil, false
	s.win.track(t)
	s.enqueue(j)
}

// stored is the progress with what is still to be read again.
func (t *table) stored() connectors.TableProgress {
	return connectors.TableProgress{Table: t.def, Progress: t.progress}
}

// rowsAt counts rows of a batch at the boundary last handed out, and returns the ordinal of the first.
func (s *Source) rowsAt(t *table, pos string, n int) int64 {
	s.given.rows = t
	first := s.seq.take(pos, n)
	if n > 0 {
		t.progress.Pos, t.progress.Seq = pos, first+int64(n)-1
		t.progress.Rows += int64(n)
		s.summary.rows.Add(int64(n))
	}
	return first
}

// given is what a batch has of a table.
type given struct {
	rows      *table // nil: none
	activates bool   // the baseline is whole with it
}

// Reject implements connectors.Rejecter.
func (s *Source) Reject(reason error) ([]connectors.TableProgress, bool) {
	t := s.given.rows
	if t == nil {
		return nil, false
	}
	s.baseline = s.baseline || s.given.activates
	s.end(t, offsets.SnapshotFailed, reason.Error())
	return []connectors.TableProgress{t.stored()}, true
}

// end ends the reading of a table. What readers still have of it is dropped.
func (s *Source) end(t *table, state, reason string) {
	t.progress.State, t.progress.Reason, t.progress.Ended = state, reason, time.Now().UnixMilli()
	t.progress.Again = ""
	if t.job != nil {
		s.drop(t.job)
		s.runs(t.job)
	}
	t.job, t.results, t.again, t.exported = nil, nil, second{}, false
	s.win.untrack(t)
	s.observe(t)
	switch state {
	case offsets.SnapshotDone:
		s.cfg.Log.Info("table read", "table", t.name, "rows", t.progress.Rows, "kind", t.progress.Kind)
	default:
		s.cfg.Log.Warn("the snapshot of a table has ended", "table", t.name, "state", state, "reason", reason)
	}
}

// lookup returns the captured table of a version.
func (s *Source) lookup(def *schema.Table) *table {
	if def == nil {
		return nil
	}
	if s.win.seen == nil || len(s.win.seen) > 4096 {
		s.win.seen = map[*schema.Table]*table{}
	}
	t, ok := s.win.seen[def]
	if !ok {
		t = s.tables[def.QualifiedName()]
		s.win.seen[def] = t
	}
	return t
}

// touched takes note of a change of a table that is being read, and returns the table; nil for others.
func (s *Source) touched(b *connectors.Batch, c *connectors.Change) *table {
	t := s.lookup(c.Table)
	if t == nil || t.job == nil {
		return nil
	}
	t.def, t.version = c.Table, max(t.version, c.Table.Version)
	if len(c.Table.Key) == 0 {
		if t.touched == nil || t.touched.Pos != b.Tx.Pos {
			tx := b.Tx
			t.touched = &tx
		}
		return nil
	}
	if (c.Op == connectors.OpCreate || c.Op == connectors.OpUpdate && t.job.key != nil) && incomplete(c.After) {
		t.again.moved(c, s.cfg.MaxTrackedKeys/4)
	}
	return t
}

func incomplete(row schema.Row) bool {
	for i := range row {
		if row[i].Kind == schema.KindUnavailable {
			return true
		}
	}
	return false
}

// encode writes a list of texts as a member of a stored value: a JSON array, nothing for none.
func encode(list []string) string {
	if len(list) == 0 {
		return ""
	}
	b, _ := json.Marshal(list) // texts always can be
	return string(b)
}

func decode(text string) (list []string) {
	if text != "" {
		_ = json.Unmarshal([]byte(text), &list) // ours; else none
	}
	return list
}
