package snapshot

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

// worked tells that every signal was taken and nothing is left to do.
func (p *topic) worked(s *Source, ch *channel) bool {
	for _, t := range s.order {
		if t.progress.Open() {
			return false
		}
	}
	n, _ := s.last.Boundary.Int("end")
	return len(s.state.Executed) == len(ch.list) && len(s.state.Requests) == 0 && !s.first && !s.dirty && int(n) == len(p.d.log)
}

// requested runs one life that begins with a stream whose tables were read, and ends when all signals are worked off.
func requested(t *testing.T, d *database, ch *channel, f *fake) (*topic, *Source) {
	p := newTopic(t, d)
	p.put(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: boundary(0)})
	p.put(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1}.Object()})
	cfg := small()
	cfg.Channels = []signal.Channel{ch}
	s, _ := p.life(cfg, f, 0, func(s *Source) bool { return p.worked(s, ch) })
	p.commit()
	return p, s
}

// TestSignalIsExecutedOnce: however often it comes, over whatever channel, before and after restarts.
func TestSignalIsExecutedOnce(t *testing.T) {
	d := still(10, "a", "b")
	ch := newChannel()
	ch.send("1", signal.TypeExecute, `{"data-collections":["public.a"]}`)
	p, _ := requested(t, d, ch, newFake(d))
	cfg := small()
	for life := 1; life < 4; life++ {
		again := newChannel() // forgets its cursor
		for range life {
			again.send("1", signal.TypeExecute, `{"data-collections":["public.a"]}`)
		}
		again.send("last"+strconv.Itoa(life), signal.TypeResume, "")
		cfg.Channels = []signal.Channel{again}
		p.forget("fake")
		p.life(cfg, newFake(d), life, func(s *Source) bool {
			return s.state.Cursors["fake"] == again.list[len(again.list)-1].Cursor && !s.dirty
		})
		p.commit()
	}
	if n := p.reads(); len(n) != 1 || n["public.a 1"] != 10 {
		t.Errorf("rows read: %v", n)
	}
}

// TestRequestSurvivesKills: at whatever batch, it is carried out once; rows may only repeat with the batch that was lost.
func TestRequestSurvivesKills(t *testing.T) {
	for kill := 1; kill < 12; kill++ {
		d := still(10, "a", "b")
		ch := newChannel()
		ch.send("1", signal.TypeExecute, `{"data-collections":[".*"]}`)
		ch.send("2", signal.TypeExecute, `{"data-collections":["public.a"],"additional-conditions":[{"data-collection":"public.a","filter":"x > 1"}]}`)
		p := newTopic(t, d)
		p.put(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: boundary(0)})
		p.put(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1}.Object()})
		cfg := small()
		cfg.Channels = []signal.Channel{ch}
		stop := after(kill)
		p.life(cfg, newFake(d), 0, func(s *Source) bool { return stop(s) || p.worked(s, ch) })
		if kill%2 == 0 {
			p.commit()
		}
		p.kill()
		p.life(cfg, newFake(d), 1, func(s *Source) bool { return p.worked(s, ch) })
		p.commit()
		if n := p.reads(); n["public.a 1"] != 10 || n["public.b 1"] != 10 || n["public.a 2"] != 10 {
			t.Errorf("kill after %d batches: rows read %v", kill, n)
		}
		if pr := p.progress("public.a"); pr.ID != "2" || pr.Where != "x > 1" || pr.State != offsets.SnapshotDone {
			t.Errorf("kill after %d batches: %+v", kill, pr)
		}
	}
}

// TestPauseOutlivesRestart: nothing is read until it is resumed, and then all of it.
func TestPauseOutlivesRestart(t *testing.T) {
	d := still(30, "a", "b")
	ch := newChannel()
	ch.send("p", signal.TypePause, "")
	ch.send("1", signal.TypeExecute, `{"data-collections":["public.a"]}`)
	p := newTopic(t, d)
	p.put(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: boundary(0)})
	p.put(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1}.Object()})
	cfg := small()
	cfg.Channels = []signal.Channel{ch}
	for life := range 3 {
		d.steps, d.calm = 100, true
		s, _ := p.life(cfg, newFake(d), life, func(s *Source) bool { return len(s.state.Executed) == 2 && d.over() && !s.dirty })
		p.commit()
		if st := s.Status(); !st.Paused || len(p.reads()) > 0 {
			t.Fatalf("life %d: rows read %v, status %+v", life, p.reads(), st)
		}
	}
	ch.send("r", signal.TypeResume, "")
	p.life(cfg, newFake(d), 4, func(s *Source) bool { return p.worked(s, ch) })
	p.commit()
	if pr := p.progress("public.a"); pr.State != offsets.SnapshotDone {
		t.Errorf("progress %+v", pr)
	}
	p.check("at the end")
}

// TestStopEnds: what is being read and what is queued, the stream goes on; a table not named goes on too.
func TestStopEnds(t *testing.T) {
	d := still(40, "a", "b")
	ch := newChannel()
	ch.send("1", signal.TypeExecute, `{"data-collections":[".*"]}`)
	ch.send("2", signal.TypeExecute, `{"data-collections":["public.a"]}`)
	d.steps, d.calm = 300, true
	p := newTopic(t, d)
	p.put(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: boundary(0)})
	p.put(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1}.Object()})
	cfg := small()
	cfg.Channels = []signal.Channel{ch}
	p.life(cfg, newFake(d), 0, func(s *Source) bool {
		if a := s.tables["public.a"]; len(ch.list) == 2 && a.progress.Rows > 0 {
			ch.send("3", signal.TypeStop, `{"data-collections":["public.A"]}`)
			waitFor(t, func() bool { return s.received("3") })
		}
		return len(ch.list) == 3 && p.worked(s, ch) && d.over()
	})
	p.commit()
	a, b := p.progress("public.a"), p.progress("public.b")
	if a.State != offsets.SnapshotStopped || a.ID != "1" || !strings.Contains(a.Reason, `"3"`) || a.Ended == 0 || b.State != offsets.SnapshotDone {
		t.Errorf("a %+v\nb %+v", a, b)
	}
	if n := p.reads(); n["public.a 2"] != 0 {
		t.Errorf("rows read: %v", n)
	}
}

// TestBadRequests: each ends with its sentence, and the stream goes on.
func TestBadRequests(t *testing.T) {
	d := still(10, "a", "b")
	d.steps, d.calm = 100, true
	ch := newChannel()
	ch.send("pattern", signal.TypeExecute, `{"data-collections":["public.(a"]}`)
	ch.send("missing", signal.TypeExecute, `{"data-collections":["public.c"]}`)
	ch.send("type", "snapshot-execute", `{}`)
	ch.send("data", signal.TypeExecute, `[]`)
	ch.send("where", signal.TypeExecute, `{"data-collections":["public.a"],"additional-conditions":[{"data-collection":"public.a","filter":"bad"}]}`)
	p, s := requested(t, d, ch, newFake(d))
	if pr := p.progress("public.a"); pr.State != offsets.SnapshotFailed || !strings.Contains(pr.Reason, "syntax error") {
		t.Errorf("bad condition: %+v", pr)
	}
	errs := map[string]string{}
	for _, o := range s.Status().Results {
		errs[o.ID] = o.Error
	}
	for id, part := range map[string]string{"pattern": "regular expression", "missing": "public.c", "type": "not known", "data": "object"} {
		if !strings.Contains(errs[id], part) {
			t.Errorf("%s: %q", id, errs[id])
		}
	}
}

// TestStoredRequestsAreBounded: what waits is kept in one record, so that more than fits is refused, as is the text of errors.
func TestStoredRequestsAreBounded(t *testing.T) {
	d := still(10, "a", "b")
	ch := newChannel()
	filter := strings.Repeat("x", 16<<10)
	ch.send("p", signal.TypePause, "")
	for i := range 60 {
		ch.send("w"+strconv.Itoa(i), signal.TypeExecute, `{"data-collections":["public.a"],"additional-conditions":[{"data-collection":".*","filter":"`+filter+`"}]}`)
		ch.send("n"+strconv.Itoa(i), signal.TypeExecute, `{"data-collections":["public.nowhere`+filter+`"]}`)
	}
	ch.send("t", signal.TypeTables, `{"add":["public.`+strings.Repeat("b", 300<<10)+`"]}`)
	p := newTopic(t, d)
	p.put(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: boundary(0)})
	p.put(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1}.Object()})
	cfg := small()
	cfg.Channels = []signal.Channel{ch}
	s, _ := p.life(cfg, newFake(d), 0, func(s *Source) bool { return len(s.state.Executed) == len(ch.list) && !s.dirty })
	p.commit()
	text, _ := p.entries[Partition(server).String()].Offset.Text(fieldState)
	if len(text) > 600<<10 {
		t.Errorf("the entry has %d bytes", len(text))
	}
	results, queued := s.Status().Results, len(s.Status().Queued)
	if last := results[len(results)-1]; last.ID != "t" || !strings.Contains(last.Error, "the requests that wait would have") {
		t.Errorf("result %+v", last)
	}
	if queued < 10 || queued > 16 {
		t.Errorf("%d requests wait", queued)
	}
}

// TestChangeTables: a refusal is kept; a table that joins is read, one that leaves while it is read stops.
func TestChangeTables(t *testing.T) {
	d := still(30, "a", "b")
	d.joinAt[1] = 1 << 30
	ch := newChannel()
	ch.send("1", signal.TypeTables, `{"add":["public.b"]}`)
	f := newFake(d)
	f.setErr = errors.New("the publication is for all tables")
	p, s := requested(t, d, ch, f)
	if r := s.Status().Results; len(r) != 1 || r[0].Error != "the publication is for all tables" || r[0].ID != "1" {
		t.Errorf("results %+v", r)
	}
	cfg := small()
	cfg.Channels = []signal.Channel{ch}
	ch.send("2", signal.TypeTables, `{"add":["public.b"]}`)
	p.life(cfg, newFake(d), 1, func(s *Source) bool { return p.worked(s, ch) && s.tables["public.b"] != nil })
	p.commit()
	if pr := p.progress("public.b"); pr.State != offsets.SnapshotDone || pr.Kind != KindAdded || pr.Rows != 30 {
		t.Errorf("added: %+v", pr)
	}
	ch.send("3", signal.TypeExecute, `{"data-collections":["public.b"]}`)
	p.life(cfg, newFake(d), 2, func(s *Source) bool {
		if b := s.tables["public.b"]; b != nil && len(ch.list) == 3 && b.progress.ID == "3" && b.progress.Rows > 0 {
			ch.send("4", signal.TypeTables, `{"remove":["public.b"]}`)
		}
		return len(ch.list) == 4 && p.worked(s, ch)
	})
	p.commit()
	if pr := p.progress("public.b"); pr.ID != "3" || pr.Open() {
		t.Errorf("left: %+v", pr)
	}
}

// TestTooManyIDs: the oldest are forgotten, the newest thousand are not.
func TestTooManyIDs(t *testing.T) {
	d := still(3, "a", "b")
	ch := newChannel()
	for i := range 1200 {
		ch.send(string(rune('A'+i%26))+strings.Repeat("x", i/26), signal.TypeResume, "")
	}
	p := newTopic(t, d)
	cfg := small()
	cfg.Mode, cfg.Channels = ModeNoData, []signal.Channel{ch}
	p.life(cfg, newFake(d), 0, func(s *Source) bool { return s.state.Cursors["fake"] == "1200" && !s.dirty })
	p.commit()
	if st := p.state(); len(st.Executed) != executedKept || len(st.Outcomes) != outcomesKept {
		t.Errorf("%d ids and %d outcomes are kept", len(st.Executed), len(st.Outcomes))
	}
}

var _ connectors.TableSetter = (*fake)(nil)
