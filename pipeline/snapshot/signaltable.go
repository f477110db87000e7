package snapshot

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
	"github.com/tidemark-cdc/tidemark/schema"
)

// rowSignals takes note of rows that were inserted into the signal table: id, type and data are its first columns, whatever their
// names.
func (s *Source) rowSignals(b *connectors.Batch) {
	if s.cfg.SignalTable == "" {
		return
	}
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Op != connectors.OpCreate || c.OldKey != nil || c.Table == nil || !strings.EqualFold(c.Table.QualifiedName(), s.cfg.SignalTable) {
			continue
		}
		sig, err := signal.FromRow(text(c.After, 0), text(c.After, 1), text(c.After, 2))
		if err != nil {
			s.cfg.Log.Warn("a row of the signal table is not a signal and was passed", "id", sig.ID, "reason", err.Error())
			continue
		}
		s.inserted = append(s.inserted, sig)
	}
}

// text copies a column; what is neither text nor a number is empty.
func text(row schema.Row, i int) string {
	switch {
	case i < len(row) && row[i].Kind == schema.KindString:
		return string(row[i].Bytes)
	case i < len(row) && row[i].Kind == schema.KindInt:
		return strconv.FormatInt(row[i].Num, 10)
	}
	return ""
}

// insertedSignals works the transaction's signals off, and stores what they ask for with its boundary: a crash finds both or neither.
func (s *Source) insertedSignals(b *connectors.Batch, progress []connectors.TableProgress) []connectors.TableProgress {
	if len(s.inserted) == 0 {
		return progress
	}
	for _, sig := range s.inserted {
		progress = append(progress, s.signal(sig)...)
	}
	s.inserted = nil
	if s.dirty {
		b.Entries, b.Lazy = append(append([]offsets.Entry(nil), b.Entries...), s.entry()), false
	}
	return progress
}

// entry is the engine's own entry, as it is to be stored now.
func (s *Source) entry() offsets.Entry {
	s.dirty = false
	s.publishState()
	text, _ := json.Marshal(&s.state) // texts and numbers
	return offsets.Entry{Partition: Partition(s.cfg.Server), Offset: offsets.Object{{Name: fieldState, Value: string(text)}}}
}

// Stored is what is stored of a stream's snapshots.
type Stored struct {
	Tables   []TableStatus // of which a snapshot was begun; without rate and time left
	Paused   bool
	Queued   []string // ids of requests that wait
	Executed []string // ids of signals that were taken, the newest last
	Results  []Outcome
}

// ReadStored reads it from the stream's entries.
func ReadStored(server string, stored []offsets.Entry) (Stored, error) {
	var out Stored
	st, err := readState(server, stored)
	if err != nil {
		return out, err
	}
	out.Paused, out.Executed, out.Results = st.Paused, st.Executed, st.Outcomes
	for _, r := range st.Requests {
		out.Queued = append(out.Queued, r.ID)
	}
	for _, e := range stored {
		name, _ := e.Partition.Text("table")
		if name == "" || e.Offset == nil || !e.Partition.Equal(offsets.TablePartition(server, name)) {
			continue
		}
		t, err := offsets.TableStateFrom(e.Offset)
		if err != nil {
			return out, err
		}
		if p := t.Snapshot; p.State != "" {
			out.Tables = append(out.Tables, TableStatus{Table: name, State: p.State, ID: p.ID, Kind: p.Kind, Reason: p.Reason,
				Rows: p.Rows, Total: p.Total, Left: -1, Began: moment(p.Began), Ended: moment(p.Ended)})
		}
	}
	return out, nil
}
