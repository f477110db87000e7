package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// topic is what was committed, and what is stored with it.
type topic struct {
	t         *testing.T
	d         *database
	records   []published
	open      []published // handed out, not committed
	whole     int         // of them, those of transactions that have ended
	entries   map[string]offsets.Entry
	staged    []offsets.Entry
	activated int
	pos       int
	seq       int64
	markers   []string
	versions  map[string]int // of tables, of the rows handed out last in this life
}

type published struct {
	op    connectors.Op
	table string
	id    int
	row   row // empty members: not carried
	lacks bool
	old   int
	moved int
	pos   int
	seq   int64
	life  int
	of    string // id of the snapshot
}

func newTopic(t *testing.T, d *database) *topic {
	return &topic{t: t, d: d, entries: map[string]offsets.Entry{}}
}

func (p *topic) stored() (out []offsets.Entry) {
	for _, e := range p.entries {
		out = append(out, e)
	}
	return out
}

func (p *topic) put(e offsets.Entry) { p.entries[e.Partition.String()] = e }

// progress is what is stored of a table.
func (p *topic) progress(name string) offsets.Progress {
	e, ok := p.entries[offsets.TablePartition(server, name).String()]
	if !ok {
		return offsets.Progress{}
	}
	st, err := offsets.TableStateFrom(e.Offset)
	if err != nil {
		p.t.Fatal(err)
	}
	return st.Snapshot
}

// take copies a batch; commit says whether all that is open commits where the batch is a boundary.
func (p *topic) take(b connectors.Batch, life int, commit bool) {
	for i := range b.Changes {
		c := &b.Changes[i]
		r := published{op: c.Op, table: c.Table.QualifiedName(), seq: c.Seq, life: life, pos: place(0).end(&b)}
		if v := p.versions[r.table]; c.Table.Version < v {
			p.t.Fatalf("a row of version %d of table %s comes after one of version %d", c.Table.Version, r.table, v)
		}
		p.versions[r.table] = c.Table.Version
		image := c.After
		if image == nil {
			image = c.Before
		}
		if image != nil {
			r.id = int(image[0].Num)
			r.row = row{string(image[1].Bytes), string(image[2].Bytes)}
			if strings.Contains(r.row.v+r.row.big, "scribbled") || r.id == 0 {
				p.t.Fatalf("a row that was overwritten: %+v", r)
			}
			r.lacks = c.After != nil && image[2].Kind == schema.KindUnavailable
		}
		if c.OldKey != nil {
			r.old = int(c.OldKey[0].Num)
		}
		if c.NewKey != nil {
			r.moved = int(c.NewKey[0].Num)
		}
		if r.pos < p.pos || r.pos == p.pos && r.seq <= p.seq {
			p.t.Fatalf("(%d, %d) comes after (%d, %d)", r.pos, r.seq, p.pos, p.seq)
		}
		p.pos, p.seq = r.pos, r.seq
		if c.Op == connectors.OpRead {
			r.of = b.Progress[0].Progress.ID
		}
		p.open = append(p.open, r)
	}
	if !b.Last {
		return
	}
	p.whole = len(p.open)
	for _, tp := range b.Progress {
		st := offsets.TableState{Name: tp.Table.QualifiedName(), Generation: 1, Snapshot: tp.Progress}
		p.staged = append(p.staged, offsets.Entry{Partition: offsets.TablePartition(server, st.Name), Offset: st.Object()})
	}
	p.staged = append(p.staged, b.Entries...)
	p.staged = append(p.staged, offsets.Entry{Partition: offsets.StreamPartition(server), Offset: append(offsets.Object(nil), b.Boundary...)})
	p.markers = append(p.markers, b.Markers...)
	if b.Activate {
		p.activated++
		p.staged = append(p.staged, offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1, Baseline: true}.Object()})
	}
	if commit {
		p.commit()
	}
}

func (p *topic) commit() {
	p.records = append(p.records, p.open[:p.whole]...)
	for _, e := range p.staged {
		p.put(e)
	}
	p.open, p.staged, p.whole = p.open[p.whole:], nil, 0
}

// kill forgets what was not committed.
func (p *topic) kill() {
	p.open, p.staged, p.whole, p.pos, p.seq = nil, nil, 0, -1, 0
	if n := len(p.records); n > 0 {
		p.pos, p.seq = p.records[n-1].pos, p.records[n-1].seq
	}
}

// view replays what is committed, as a consumer that upserts by key; a column nobody has is "?".
func (p *topic) view() map[string]map[int]row {
	out := map[string]map[int]row{}
	gone := map[string]row{}
	for _, t := range p.d.tables {
		out[t.QualifiedName()] = map[int]row{}
	}
	for _, r := range p.records {
		m := out[r.table]
		at := func(id int) string { return r.table + "/" + strconv.Itoa(id) }
		switch r.op {
		case connectors.OpTruncate:
			clear(m)
		case connectors.OpDelete:
			if have, ok := m[r.id]; ok && r.moved != 0 {
				gone[at(r.id)] = have
			} else {
				delete(gone, at(r.id))
			}
			delete(m, r.id)
		default:
			now := r.row
			if r.lacks {
				now.big = "?"
				if have, ok := m[r.id]; ok {
					now.big = have.big
				} else if have, ok := gone[at(r.old)]; ok && r.old != 0 {
					now.big = have.big
				}
			}
			m[r.id] = now
		}
	}
	return out
}

// check compares what is committed with the log up to the stored boundary: rows behind a table's progress must be there and
// right, keys to be read again aside; of a table that was read, all.
func (p *topic) check(when string) {
	p.t.Helper()
	e, ok := p.entries[offsets.StreamPartition(server).String()]
	if !ok {
		return
	}
	end, _ := e.Offset.Int("end")
	view := p.view()
	for i, t := range p.d.tables {
		name := t.QualifiedName()
		pr := p.progress(name)
		if len(t.Key) == 0 || pr.State == "" || pr.State == offsets.SnapshotFailed || pr.State == offsets.SnapshotStopped || pr.Where != "" {
			continue
		}
		upto := 0
		if pr.After != "" {
			upto, _ = strconv.Atoi(pr.After)
		}
		if pr.State == offsets.SnapshotDone {
			upto = 1 << 30
		}
		if pr.Kind != KindInitial && pr.Kind != KindAdded {
			upto = 1 << 30 // all was there before
		}
		want := asOf(p.d.base[i], p.d.log[:end], i)
		again := map[string]bool{}
		for _, k := range decode(pr.Again) {
			again[k] = true
		}
		got := view[name]
		for id, r := range want {
			have, ok := got[id]
			if again[moreKeys] && have.big == "?" { // a further pass reads it
				have.big = r.big
			}
			if id <= upto && !again[strconv.Itoa(id)] && (!ok || have != r) {
				p.t.Errorf("%s: row %d of %s is %v (%v), should be %v; progress %+v", when, id, name, have, ok, r, pr)
				p.history(name, id)
			}
		}
		for id, r := range got {
			if _, ok := want[id]; !ok {
				p.t.Errorf("%s: row %d of %s is %v, should not be; progress %+v", when, id, name, r, pr)
				p.history(name, id)
			}
		}
	}
}

func (p *topic) history(name string, id int) {
	for _, r := range p.records {
		if r.table == name && (r.id == id || r.op == connectors.OpTruncate) {
			p.t.Logf("    %c (%d,%d) %+v", r.op, r.pos, r.seq, r)
		}
	}
}

// begin stores what the pipeline stores at a start.
func (p *topic) begin(o connectors.Opened) {
	if _, ok := p.entries[offsets.GenerationPartition(server).String()]; !ok {
		p.put(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1, Start: o.Start, Baseline: o.Baseline, Building: o.Baseline}.Object()})
	}
	p.put(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: o.Boundary})
}

// life runs one incarnation until stop says so, the source ends, or time is up.
func (p *topic) life(cfg Config, f *fake, life int, stop func(*Source) bool) (s *Source, ended bool) {
	p.t.Helper()
	cfg.Server = server
	p.kill()
	p.versions = map[string]int{}
	s = New(cfg, f)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	defer func() {
		if err := s.Close(ctx); err != nil {
			p.t.Error(err)
		}
	}()
	o, err := s.Open(ctx, p.stored())
	if err != nil {
		p.t.Fatal(err)
	}
	p.begin(o)
	for !stop(s) {
		b, err := s.Next(ctx)
		if errors.Is(err, connectors.ErrEnd) {
			p.commit()
			return s, true
		}
		if err != nil {
			p.t.Fatalf("next: %v; at %v of %d, steps %d, open %d; status %+v", err, s.last.Boundary, len(f.d.log), f.d.steps, len(f.d.open), s.Status())
		}
		f.d.mu.Lock()
		commit := f.d.rng.Intn(3) == 0 || f.d.steps <= 0
		f.d.mu.Unlock()
		p.take(b, life, commit)
	}
	return s, false
}

// state is the engine's own stored state.
func (p *topic) state() (s state) {
	e := p.entries[Partition(server).String()]
	text, _ := e.Offset.Text(fieldState)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// forget has a channel read from its beginning.
func (p *topic) forget(channel string) {
	s := p.state()
	delete(s.Cursors, channel)
	text, _ := json.Marshal(&s)
	p.put(offsets.Entry{Partition: Partition(server), Offset: offsets.Object{{Name: fieldState, Value: string(text)}}})
}
