package snapshot

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// most is how many rows of an exported snapshot a batch has.
const most = 4096

// fill makes rows the changes of a batch.
func (s *Source) fill(b *connectors.Batch, def *schema.Table, rows []schema.Row, first int64) {
	s.grow(len(rows))
	b.Changes = s.changes[:len(rows)]
	for i, row := range rows {
		c := &b.Changes[i]
		c.Table, c.After, c.Seq = def, row, first+int64(i)
	}
}

// nextExported returns the next batch of the exported snapshot; none where it is over, or has to wait and something may have changed.
func (s *Source) nextExported(ctx context.Context) (connectors.Batch, bool, error) {
	if s.state.Paused {
		if s.bounded() { // the run ends without its rows
			return connectors.Batch{}, false, s.endExported(ctx, errors.New("snapshots are paused"))
		}
		return connectors.Batch{}, false, s.wait(ctx, time.Minute)
	}
	for {
		if len(s.rows.Rows) == 0 && !s.rows.Last {
			if d := s.limiter.wait(); d > 0 {
				return connectors.Batch{}, false, s.wait(ctx, d)
			}
			rows, err := s.exported.Next(ctx)
			if err != nil {
				if ctx.Err() != nil {
					return connectors.Batch{}, false, ctx.Err()
				}
				if s.ctx.Err() != nil {
					return connectors.Batch{}, false, errClosed
				}
				return connectors.Batch{}, false, s.endExported(ctx, err)
			}
			s.rows = rows
			s.limiter.took(len(rows.Rows))
		}
		t := s.tables[s.rows.Table.QualifiedName()]
		if t == nil || !t.exported {
			s.rows = connectors.ExportedRows{}
			continue
		}
		if err := s.rows.Err; err != nil {
			s.cfg.Log.Warn("a table of the exported snapshot is read again by chunks", "table", t.name, "reason", err)
			s.rows = connectors.ExportedRows{}
			t.exported = false // read with the others that are left
			continue
		}
		if len(s.rows.Rows) == 0 && !s.rows.Last {
			continue
		}
		return s.exportedRows(t), true, nil
	}
}

func (s *Source) exportedRows(t *table) connectors.Batch {
	n := min(most, len(s.rows.Rows))
	b := connectors.Batch{
		Tx:   connectors.Transaction{Pos: s.exported.Position(), CommitTime: s.rows.ReadTime, Snapshot: connectors.SnapshotInitial},
		Last: true, Boundary: s.last.Boundary,
	}
	s.fill(&b, s.rows.Table, s.rows.Rows[:n], s.rowsAt(t, b.Tx.Pos, n))
	t.progress.State = offsets.SnapshotReading
	if s.rows.Rows = s.rows.Rows[n:]; len(s.rows.Rows) == 0 {
		if s.rows.Last {
			s.end(t, offsets.SnapshotDone, "")
		}
		s.rows.Last, s.rows.Rows = false, nil
	}
	b.Progress = []connectors.TableProgress{{Table: s.rows.Table, Progress: t.progress}}
	s.activate(&b)
	s.observe(t)
	return b
}

// endExported ends the exported snapshot; what is left of it is read by chunks.
func (s *Source) endExported(ctx context.Context, why error) error {
	if !errors.Is(why, io.EOF) {
		s.cfg.Log.Warn("the exported snapshot has ended early: its tables are read by chunks", "reason", why)
	}
	s.mu.Lock()
	exported := s.opened
	s.opened = nil
	s.mu.Unlock()
	s.exported = nil
	if exported != nil {
		if err := exported.Close(ctx); err != nil {
			s.cfg.Log.Warn("close the exported snapshot", "reason", err)
		}
	}
	for _, t := range s.order {
		t.exported = false
		if t.progress.Open() && t.job == nil {
			s.read(t)
		}
	}
	s.startReaders()
	return nil
}
