package snapshot

import (
	"errors"
	"slices"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

// tableSet queues a change of the captured tables and begins it.
func (s *Source) tableSet(id string, data *signal.Tables) error {
	if _, ok := s.inner.(connectors.TableSetter); !ok {
		return errors.New("this connector cannot change its tables while it runs")
	}
	r := request{ID: id, Type: signal.TypeTables, Add: data.Add, Remove: data.Remove}
	if err := s.keep(r); err != nil {
		return err
	}
	s.change(r)
	return nil
}

// change changes the captured tables, on a goroutine of its own; one change at a time.
func (s *Source) change(r request) {
	setter, ok := s.inner.(connectors.TableSetter)
	if !ok {
		return
	}
	before := s.changing
	done := make(chan struct{})
	s.changing = done
	s.workers.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		if s.ctx.Err() != nil {
			return
		}
		err := setter.ChangeTables(s.ctx, r.Add, r.Remove)
		if s.ctx.Err() != nil {
			return // begun again at the next start
		}
		s.mu.Lock()
		s.applied = append(s.applied, applied{r.ID, err})
		s.mu.Unlock()
		s.notify()
	})
}

// membership takes note of tables that joined or left with a batch of the stream.
func (s *Source) membership(b *connectors.Batch, progress []connectors.TableProgress) []connectors.TableProgress {
	if len(b.Joined)+len(b.Left) == 0 {
		return progress
	}
	s.win.seen = nil
	for _, def := range b.Left {
		name := def.QualifiedName()
		t := s.tables[name]
		if t == nil {
			continue
		}
		if t.progress.Open() {
			s.end(t, offsets.SnapshotStopped, "the table is no longer captured")
			progress = append(progress, t.stored())
		}
		delete(s.tables, name)
		s.order = slices.DeleteFunc(s.order, func(o *table) bool { return o == t })
	}
	for _, def := range b.Joined {
		name := def.QualifiedName()
		t := s.tables[name]
		if t == nil {
			t = &table{name: name, def: def}
			s.tables[name] = t
			s.order = append(s.order, t)
		}
		if t.progress.Open() {
			s.end(t, offsets.SnapshotStopped, "the table was added anew")
		}
		t.def = def
		s.pend(t, offsets.Progress{ID: KindAdded, Kind: KindAdded})
		s.read(t)
		progress = append(progress, t.stored())
	}
	return progress
}
