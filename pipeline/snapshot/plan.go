package snapshot

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

func newNonce() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// plan decides what is read, from what is stored and what the inner source has found.
func (s *Source) plan(stored []offsets.Entry, opened *connectors.Opened) error {
	gen, begins, err := s.generation(stored, opened)
	if err != nil {
		return err
	}
	if err := s.load(stored, begins); err != nil {
		return err
	}
	s.last = connectors.Batch{Tx: connectors.Transaction{Pos: opened.Start}, Last: true, Boundary: append(offsets.Object(nil), opened.Boundary...)}
	progress := map[string]offsets.Progress{}
	s.seq.stored = map[string]int64{}
	for _, e := range stored {
		if kind, _ := e.Partition.Text("kind"); kind != "table" || e.Offset == nil || begins {
			continue
		}
		name, _ := e.Partition.Text("table")
		if !e.Partition.Equal(offsets.TablePartition(s.cfg.Server, name)) {
			continue
		}
		st, err := offsets.TableStateFrom(e.Offset)
		if err != nil {
			return connectors.Refuse(err)
		}
		if p := st.Snapshot; st.Generation == gen.Number {
			progress[name] = p
			if p.Pos != "" {
				s.seq.stored[p.Pos] = max(p.Seq, s.seq.stored[p.Pos])
			}
		}
	}
	for _, def := range opened.Tables {
		name := def.QualifiedName()
		t := &table{name: name, def: def, progress: progress[name]}
		s.tables[name] = t
		s.order = append(s.order, t)
	}
	s.choose(gen, begins)
	return nil
}

// generation returns the generation that applies, as far as the stored entries tell: the number of one that begins is not known.
func (s *Source) generation(stored []offsets.Entry, opened *connectors.Opened) (g offsets.Generation, begins bool, err error) {
	o, ok := offsets.Find(stored, offsets.GenerationPartition(s.cfg.Server))
	_, streamed := offsets.Find(stored, offsets.StreamPartition(s.cfg.Server))
	if !ok || !streamed || opened.Renew {
		return offsets.Generation{Baseline: opened.Baseline}, true, nil
	}
	if g, err = offsets.GenerationFrom(o); err != nil {
		return g, false, connectors.Refuse(fmt.Errorf("the stored generation cannot be used: %w", err))
	}
	return g, false, nil
}

// choose makes the tables pending that are to be read, and hands those to the readers that the exported snapshot does not have.
func (s *Source) choose(gen offsets.Generation, begins bool) {
	if s.exported != nil {
		for _, e := range s.exported.Tables() {
			t := s.tables[e.Table.QualifiedName()]
			if t == nil || !s.cfg.Tables(t.name) {
				continue
			}
			s.pend(t, offsets.Progress{ID: s.run(), Kind: KindInitial})
			t.progress.Total, t.exported, s.first = e.Rows, true, true
			s.observe(t)
		}
	}
	open := false // what an interrupted start has begun; what was asked for is no reason to leave tables out
	for _, t := range s.order {
		open = open || t.progress.Open() && (t.progress.Kind == KindInitial || t.progress.Kind == KindAlways)
	}
	always := s.cfg.Mode == ModeAlways && (begins || !open)
	for _, t := range s.order {
		switch {
		case t.exported || t.progress.Open() || !s.cfg.Tables(t.name):
		case gen.Baseline && s.reads() && t.progress.State == "":
			s.pend(t, offsets.Progress{ID: s.run(), Kind: KindInitial})
			s.first = true
		case always && t.progress.ID != s.run():
			s.pend(t, offsets.Progress{ID: s.run(), Kind: KindAlways})
			s.first = true
		}
	}
	s.baseline = gen.Baseline && (begins || gen.Building)
	for _, t := range s.order {
		s.baseline = s.baseline || gen.Baseline && t.progress.Kind == KindInitial && t.progress.Open()
		if t.progress.Open() && s.exported == nil {
			s.read(t)
		}
		s.observe(t)
	}
}

// reads tells that the mode has tables read when a baseline begins.
func (s *Source) reads() bool {
	switch s.cfg.Mode {
	case ModeNoData, ModeNever:
		return false
	}
	return true
}

// run is the id of snapshots that a start begins.
func (s *Source) run() string {
	if s.cfg.Mode != ModeAlways {
		return KindInitial
	}
	if s.cfg.Run == "" {
		s.cfg.Run = newNonce()
	}
	return KindAlways + "-" + s.cfg.Run
}

// begin is the first batch: it stores which tables are to be read.
func (s *Source) begin() connectors.Batch {
	b := s.boundary()
	for _, t := range s.order {
		if t.progress.Open() {
			b.Progress = append(b.Progress, t.stored())
		}
	}
	return b
}

// activates tells that the baseline is whole now.
func (s *Source) activates() bool {
	if !s.baseline || s.exported != nil && s.unread() {
		return false
	}
	for _, t := range s.order {
		if t.progress.State != offsets.SnapshotDone && s.cfg.Tables(t.name) {
			return false
		}
	}
	return true
}

// unread tells that the exported snapshot still has tables to be read.
func (s *Source) unread() bool {
	for _, t := range s.order {
		if t.exported {
			return true
		}
	}
	return false
}

// activate marks a batch that makes the baseline whole.
func (s *Source) activate(b *connectors.Batch) {
	if s.activates() {
		b.Activate, s.baseline, s.given.activates = true, false, true
		s.cfg.Log.Info("the initial content of all tables is published", "tables", len(s.order))
	}
}
