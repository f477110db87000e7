package snapshot

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

const (
	executedKept = 1000 // ids of signals
	outcomesKept = 50
	mostStored   = 256 << 10 // bytes of requests that wait
	mostError    = 1000      // bytes of an outcome's sentence
)

// Partition is the partition of the entry that holds requests: a member "state", JSON.
func Partition(server string) offsets.Object {
	return offsets.Object{{Name: "server", Value: server}, {Name: "kind", Value: "snapshots"}}
}

const fieldState = "state"

// state is what the engine itself stores.
type state struct {
	Paused   bool              `json:"paused,omitempty"`
	Requests []request         `json:"requests,omitempty"` // not begun, the oldest first
	Executed []string          `json:"executed,omitempty"` // ids of signals, the newest last
	Cursors  map[string]string `json:"cursors,omitempty"`  // channel → place after the last signal taken
	Outcomes []Outcome         `json:"outcomes,omitempty"`
}

// request is a signal that was taken and not worked off.
type request struct {
	ID     string   `json:"id"`
	Type   string   `json:"type"`
	Tables []wanted `json:"tables,omitempty"` // still to be begun
	Key    string   `json:"key,omitempty"`    // surrogate
	Add    []string `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

type wanted struct {
	Table string `json:"table"`
	Where string `json:"where,omitempty"`
}

// received is a signal that came in; applied is what became of a change of the table set.
type (
	received struct{ signal.Signal }
	applied  struct {
		id  string
		err error
	}
)

// load reads the engine's own entry.
func (s *Source) load(stored []offsets.Entry, begins bool) error {
	var err error
	if s.state, err = readState(s.cfg.Server, stored); err != nil {
		return connectors.Refuse(err)
	}
	if s.state.Cursors == nil {
		s.state.Cursors = map[string]string{}
	}
	if begins && len(s.state.Requests) > 0 { // their tables are read anew, or their stream is gone
		s.state.Requests, s.dirty = nil, true
	}
	s.publishState()
	for _, r := range s.state.Requests {
		if r.Type == signal.TypeTables {
			s.change(r)
		}
	}
	return nil
}

func readState(server string, stored []offsets.Entry) (st state, err error) {
	if o, ok := offsets.Find(stored, Partition(server)); ok {
		text, _ := o.Text(fieldState)
		if err := json.Unmarshal([]byte(text), &st); err != nil {
			return st, fmt.Errorf("the stored requests for snapshots of %q cannot be read: %w; connectctl offsets shows the entry, deleting it forgets the requests", server, err)
		}
	}
	return st, nil
}

// publishState takes the state over into the status.
func (s *Source) publishState() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused, s.outcomes, s.queued = s.state.Paused, slices.Clone(s.state.Outcomes), nil
	for _, r := range s.state.Requests {
		s.queued = append(s.queued, r.ID)
	}
	s.wake()
}

// listen starts the channels.
func (s *Source) listen() {
	for _, ch := range s.cfg.Channels {
		cursor := s.state.Cursors[ch.Name()]
		s.workers.Go(func() {
			pause := time.Second / 2
			for s.ctx.Err() == nil {
				err := ch.Run(s.ctx, cursor, func(sig signal.Signal) {
					if sig.Channel == "" {
						sig.Channel = ch.Name()
					}
					if sig.Cursor != "" {
						cursor = sig.Cursor
					}
					pause = time.Second / 2
					s.mu.Lock()
					s.signals = append(s.signals, received{sig})
					s.mu.Unlock()
					s.notify()
				})
				if s.ctx.Err() != nil {
					return
				}
				s.cfg.Log.Warn("a channel of signals is read again after a pause", "channel", ch.Name(), "pause", pause, "reason", err)
				if !sleep(s.ctx, pause) {
					return
				}
				pause = min(2*pause, 30*time.Second)
			}
		})
	}
}

// requests works off what came in and begins what can be begun; the batch stores both.
func (s *Source) requests() (connectors.Batch, bool) {
	s.mu.Lock()
	signals, done := s.signals, s.applied
	s.signals, s.applied = nil, nil
	s.mu.Unlock()
	var progress []connectors.TableProgress
	for _, r := range signals {
		progress = append(progress, s.signal(r.Signal)...)
	}
	for _, a := range done {
		s.state.Requests = slices.DeleteFunc(s.state.Requests, func(r request) bool { return r.ID == a.id && r.Type == signal.TypeTables })
		s.outcome(a.id, signal.TypeTables, a.err)
	}
	progress = append(progress, s.start()...)
	if !s.dirty && len(progress) == 0 {
		return connectors.Batch{}, false
	}
	b := s.boundary()
	b.Progress = progress
	if s.dirty {
		b.Entries = []offsets.Entry{s.entry()}
	}
	s.activate(&b)
	return b, true
}

func (s *Source) outcome(id, kind string, err error) {
	o := Outcome{ID: id, Type: kind, At: time.Now().UnixMilli()}
	if err != nil {
		if o.Error = err.Error(); len(o.Error) > mostError {
			o.Error = strings.ToValidUTF8(o.Error[:mostError], "") + "…"
		}
		s.cfg.Log.Warn("a request was not carried out", "id", id, "type", kind, "reason", err)
	} else {
		s.cfg.Log.Info("a request was carried out", "id", id, "type", kind)
	}
	s.state.Outcomes = append(s.state.Outcomes, o)
	if n := len(s.state.Outcomes); n > outcomesKept {
		s.state.Outcomes = slices.Clone(s.state.Outcomes[n-outcomesKept:])
	}
	s.dirty = true
}

// signal carries a signal out, or queues it. One that was before is passed over.
func (s *Source) signal(sig signal.Signal) (progress []connectors.TableProgress) {
	if sig.Cursor != "" && s.state.Cursors[sig.Channel] != sig.Cursor {
		s.state.Cursors[sig.Channel], s.dirty = sig.Cursor, true
	}
	if sig.ID != "" && slices.Contains(s.state.Executed, sig.ID) {
		s.cfg.Log.Info("a signal that was executed before is passed over", "id", sig.ID, "type", sig.Type, "channel", sig.Channel)
		return nil
	}
	if sig.ID != "" {
		s.state.Executed = append(s.state.Executed, sig.ID)
		if n := len(s.state.Executed); n > executedKept {
			s.state.Executed = slices.Clone(s.state.Executed[n-executedKept:])
		}
	}
	s.dirty = true
	r, err := signal.Parse(sig.ID, sig.Type, sig.Data)
	if err == nil {
		switch sig.Type {
		case signal.TypeExecute:
			if err = s.execute(sig.ID, r.Execute); err == nil {
				return nil
			}
		case signal.TypeStop:
			progress, err = s.stop(sig.ID, r.Stop)
		case signal.TypePause, signal.TypeResume:
			s.state.Paused = sig.Type == signal.TypePause
			s.publishState() // before a table that is asked for next is handed to the readers
		case signal.TypeTables:
			if err = s.tableSet(sig.ID, r.Tables); err == nil {
				return nil
			}
		}
	}
	s.outcome(sig.ID, sig.Type, err)
	return progress
}

// execute queues a request for snapshots.
func (s *Source) execute(id string, data *signal.Execute) error {
	r := request{ID: id, Type: signal.TypeExecute, Key: data.SurrogateKey}
	for _, p := range data.Collections {
		names, err := signal.CompileNames([]string{p})
		if err != nil {
			return err
		}
		found := false
		for _, t := range s.order {
			if !names.Match(t.name) {
				continue
			}
			found = true
			if !slices.ContainsFunc(r.Tables, func(w wanted) bool { return w.Table == t.name }) {
				r.Tables = append(r.Tables, wanted{t.name, data.Filter(t.name)})
			}
		}
		if !found {
			s.outcome(id, r.Type, fmt.Errorf("no captured table matches %q; connectctl tables list shows them", p))
		}
	}
	if len(r.Tables) == 0 {
		return nil
	}
	return s.keep(r)
}

// keep queues a request. It is stored in one record until it is done, which must not become one that Kafka refuses: that would end the stream.
func (s *Source) keep(r request) error {
	all, _ := json.Marshal(append(s.state.Requests[:len(s.state.Requests):len(s.state.Requests)], r)) // texts and numbers
	if len(all) > mostStored {
		return fmt.Errorf("the requests that wait would have %d bytes, and at most %d are kept; name fewer tables at once, shorten the condition, or wait until others are done", len(all), mostStored)
	}
	s.state.Requests = append(s.state.Requests, r)
	return nil
}

// start begins requests whose tables are free; those of an initial snapshot go first.
func (s *Source) start() (progress []connectors.TableProgress) {
	if len(s.state.Requests) == 0 {
		return nil
	}
	busy := map[string]bool{}
	for _, t := range s.order {
		if t.progress.Open() {
			if t.progress.Kind == KindInitial {
				return nil
			}
			busy[t.name] = true
		}
	}
	kept := s.state.Requests[:0:0]
	for _, r := range s.state.Requests {
		if r.Type == signal.TypeTables {
			kept = append(kept, r)
			continue
		}
		var left []wanted
		for _, w := range r.Tables {
			t := s.tables[w.Table]
			switch {
			case t == nil:
				s.outcome(r.ID, r.Type, fmt.Errorf("table %s is not captured any more", w.Table))
			case busy[w.Table]:
				left = append(left, w)
			default:
				p := offsets.Progress{ID: r.ID, Kind: KindIncremental, Where: w.Where}
				if r.Key != "" {
					p.Key = encode([]string{r.Key})
				}
				s.pend(t, p)
				s.read(t)
				progress = append(progress, t.stored())
				s.dirty = true
			}
			busy[w.Table] = true
		}
		if r.Tables = left; len(left) > 0 {
			kept = append(kept, r)
		}
	}
	s.state.Requests = kept
	return progress
}

// stop ends snapshots, queued ones too.
func (s *Source) stop(id string, data *signal.Stop) (progress []connectors.TableProgress, err error) {
	names, err := signal.CompileNames(data.Collections)
	if err != nil {
		return nil, err
	}
	concerns := func(name string) bool { return len(names) == 0 || names.Match(name) }
	s.state.Requests = slices.DeleteFunc(s.state.Requests, func(r request) bool {
		return r.Type == signal.TypeExecute && !slices.ContainsFunc(r.Tables, func(w wanted) bool { return !concerns(w.Table) })
	})
	for i := range s.state.Requests {
		r := &s.state.Requests[i]
		r.Tables = slices.DeleteFunc(r.Tables, func(w wanted) bool { return concerns(w.Table) })
	}
	for _, t := range s.order {
		if t.progress.Open() && concerns(t.name) {
			s.end(t, offsets.SnapshotStopped, fmt.Sprintf("stopped by signal %q", id))
			progress = append(progress, t.stored())
		}
	}
	return progress, nil
}
