package snapshot

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

// still makes a database whose log has n transactions and whose workload is over.
func still(rows int, tables ...string) *database {
	var d *database
	switch len(tables) {
	case 1:
		d = newDatabase(1, newTable(tables[0], false))
	default:
		d = newDatabase(1, newTable(tables[0], false), newTable(tables[1], false))
	}
	d.keys = 10 * rows
	for t := range d.tables {
		for id := 1; id <= rows; id++ {
			r := row{d.value(), d.value()}
			d.base[t][id], d.vis[t][id], d.cur[t][id] = r, r, r
		}
	}
	return d
}

func small() Config {
	return Config{Mode: ModeInitial, ChunkSize: 3, Threads: 2, Log: quiet(), pause: time.Microsecond, retry: time.Millisecond}
}

// reads counts rows read, by table and snapshot.
func (p *topic) reads() map[string]int {
	n := map[string]int{}
	for _, r := range p.records {
		if r.op == connectors.OpRead {
			n[r.table+" "+r.of]++
		}
	}
	return n
}

// after stops a life after n batches.
func after(n int) func(*Source) bool {
	return func(*Source) bool { n--; return n < 0 }
}

// TestOrdinalsGoOn: rows at one position are numbered on across restarts, also by a snapshot that was begun anew (take checks it).
func TestOrdinalsGoOn(t *testing.T) {
	d := still(10, "a", "b")
	p := newTopic(t, d)
	ch := newChannel()
	cfg := small()
	cfg.Channels = []signal.Channel{ch}
	for life := 0; life < 60; life++ {
		f := newFake(d)
		had := len(p.records)
		stop := func(s *Source) bool { return len(p.records) > had || p.done(s) }
		if life == 20 {
			ch.send("again", signal.TypeExecute, `{"data-collections":["public.a"]}`)
			stop = func(s *Source) bool { return s.tables["public.a"].progress.ID == "again" }
		}
		p.life(cfg, f, life, func(s *Source) bool { p.commit(); return stop(s) })
		p.commit()
		p.kill()
	}
	if n := p.reads(); n["public.a initial"] != 10 || n["public.b initial"] != 10 || n["public.a again"] != 10 {
		t.Errorf("rows read: %v", n)
	}
	last := p.records[len(p.records)-1]
	if last.pos != 0 || last.seq != connectors.FirstReadSeq+29 {
		t.Errorf("the last row is at (%d, 2^50+%d), want (0, 2^50+29)", last.pos, last.seq-connectors.FirstReadSeq)
	}
	p.check("at the end")
}

// TestInitialOnlyEnds: with the last rows, from the exported snapshot or by chunks; another start ends at once.
func TestInitialOnlyEnds(t *testing.T) {
	for _, export := range []bool{true, false} {
		d := still(20, "a", "b")
		p := newTopic(t, d)
		cfg := small()
		cfg.Mode = ModeInitialOnly
		for life := range 2 {
			f := newFake(d)
			f.export = export
			s, ended := p.life(cfg, f, life, func(*Source) bool { return false })
			if sum := s.Summary(); !ended || life == 0 && (sum.Rows != 40 || sum.Tables != 2 || sum.Failed != 0) || life == 1 && (sum.Rows != 0 || sum.Tables != 0) {
				t.Errorf("life %d ended %v: %+v", life, ended, sum)
			}
		}
		if n := p.reads(); n["public.a initial"] != 20 || n["public.b initial"] != 20 || p.activated == 0 {
			t.Errorf("exported %v: rows read %v, activated %d", export, n, p.activated)
		}
	}
}

// TestUntilCurrentEndsAtItsMarker: not before what was in the log when it began, nor before tables are read; two runs in a row lose nothing.
func TestUntilCurrentEndsAtItsMarker(t *testing.T) {
	d := still(20, "a", "b")
	p := newTopic(t, d)
	cfg := small()
	cfg.UntilCurrent = true
	for life := range 4 {
		d.mu.Lock()
		for range 20 {
			tx := d.begin()
			d.commit(tx)
			d.show(tx)
		}
		end := len(d.log)
		d.mu.Unlock()
		f := newFake(d)
		f.begin, f.export = 0, life == 0
		f.quiet = true
		s, ended := p.life(cfg, f, life, func(*Source) bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			if len(d.log) < end+40 { // a writer goes on; the run does not wait for it
				tx := d.begin()
				d.commit(tx)
				d.show(tx)
			}
			return false
		})
		e := p.entries[offsets.StreamPartition(server).String()]
		at, _ := e.Offset.Int("end")
		if !ended || int(at) <= end || len(p.markers) != life+1 {
			t.Errorf("run %d ended %v at %d, the log had %d when it began; markers %v", life, ended, at, end, p.markers)
		}
		if s.Summary().Transactions == 0 {
			t.Errorf("run %d: %+v", life, s.Summary())
		}
		p.check("after a run")
	}
}

// TestAlwaysReadsOnceARun: not at every Open of a run, and what an interrupted one left is gone on with.
func TestAlwaysReadsOnceARun(t *testing.T) {
	d := still(20, "a", "b")
	p := newTopic(t, d)
	cfg := small()
	cfg.Mode = ModeAlways
	complete := func(s *Source) bool { return p.done(s) }
	for i, run := range []string{"1", "1", "2", "2", "3"} {
		cfg.Run = run
		f := newFake(d)
		f.export = i == 0
		stop := complete
		if i == 2 {
			stop = after(3) // interrupted
		}
		p.life(cfg, f, i, stop)
		p.commit()
	}
	if n := p.reads(); len(n) != 6 || n["public.a always-1"] != 20 || n["public.a always-2"] != 20 || n["public.b always-3"] != 20 {
		t.Errorf("rows read: %v", n)
	}
}

// TestAlwaysBesideARequest: an interrupted snapshot that was asked for is no reason to leave the other tables out at a start.
func TestAlwaysBesideARequest(t *testing.T) {
	d := still(20, "a", "b")
	p := newTopic(t, d)
	ch := newChannel()
	cfg := small()
	cfg.Mode, cfg.Channels, cfg.Run = ModeAlways, []signal.Channel{ch}, "1"
	p.life(cfg, newFake(d), 0, func(s *Source) bool { return p.done(s) })
	p.commit()
	ch.send("asked", signal.TypeExecute, `{"data-collections":["public.a"]}`)
	p.life(cfg, newFake(d), 1, func(s *Source) bool { p.commit(); return p.progress("public.a").ID == "asked" })
	cfg.Run = "2"
	p.life(cfg, newFake(d), 2, func(s *Source) bool { return p.done(s) })
	p.commit()
	if n := p.reads(); n["public.a asked"] != 20 || n["public.b always-2"] != 20 {
		t.Errorf("rows read: %v", n)
	}
}

// TestExportedSnapshotObeys: it is paused, goes on and is stopped by signals, as one by chunks is.
func TestExportedSnapshotObeys(t *testing.T) {
	d := still(40, "a", "b")
	p := newTopic(t, d)
	ch := newChannel()
	cfg := small()
	cfg.Channels = []signal.Channel{ch}
	f := newFake(d)
	f.export = true
	// The first rows are out before anything is asked for.
	sent, paused := 0, 0
	s, _ := p.life(cfg, f, 0, func(s *Source) bool {
		p.commit()
		switch n := len(p.records); {
		case sent == 0 && n > 0:
			sent = 1
			ch.send("stop", signal.TypeStop, `{"data-collections":["public.b"]}`)
			ch.send("pause", signal.TypePause, "")
			for !s.received("pause") {
				time.Sleep(time.Millisecond)
			}
		case sent == 1 && s.Status().Paused:
			sent, paused = 2, n
			time.AfterFunc(50*time.Millisecond, func() { ch.send("resume", signal.TypeResume, "") })
		case sent == 2 && s.Status().Paused && n > paused:
			t.Errorf("%d rows were handed out while it was paused", n-paused)
			return true
		}
		return sent == 2 && !s.Status().Paused && p.progress("public.a").State == offsets.SnapshotDone && p.progress("public.b").State == offsets.SnapshotStopped
	})
	p.commit()
	if n := p.reads(); sent != 2 || n["public.a initial"] != 40 || n["public.b initial"] == 40 || p.activated != 0 {
		t.Errorf("rows read: %v, activated %d, status %+v", n, p.activated, s.Status())
	}
}

// TestNoDataReadsNothing.
func TestNoDataReadsNothing(t *testing.T) {
	d := still(20, "a", "b")
	p := newTopic(t, d)
	cfg := small()
	cfg.Mode, cfg.UntilCurrent = ModeNoData, true
	f := newFake(d)
	f.baseline = false
	if _, ended := p.life(cfg, f, 0, func(*Source) bool { return false }); !ended || len(p.reads()) != 0 || p.activated != 0 {
		t.Errorf("ended %v, read %v, activated %d", ended, p.reads(), p.activated)
	}
}

// TestFilterOfTables: snapshot.include.collection.list names those an initial snapshot reads.
func TestFilterOfTables(t *testing.T) {
	for _, export := range []bool{true, false} {
		d := still(20, "a", "b")
		p := newTopic(t, d)
		cfg := small()
		cfg.Mode = ModeInitialOnly
		cfg.Tables = func(name string) bool { return name == "public.b" }
		f := newFake(d)
		f.export = export
		p.life(cfg, f, 0, func(*Source) bool { return false })
		if n := p.reads(); len(n) != 1 || n["public.b initial"] != 20 || p.activated == 0 {
			t.Errorf("exported %v: read %v, activated %d", export, n, p.activated)
		}
	}
}

// TestFailingTableFailsAlone: with its reason; the stream and the other tables go on, and the baseline is not whole until it was read after all.
func TestFailingTableFailsAlone(t *testing.T) {
	d := still(20, "a", "b")
	d.deny = map[string]error{"public.a": connectors.Block(errors.New("permission denied for table a"))}
	d.steps = 200
	d.calm = true
	p := newTopic(t, d)
	ch := newChannel()
	cfg := small()
	cfg.Channels = []signal.Channel{ch}
	closed := func(s *Source) bool {
		return d.over() && p.progress("public.b").State == offsets.SnapshotDone && p.progress("public.a").State == offsets.SnapshotFailed
	}
	p.life(cfg, newFake(d), 0, closed)
	p.commit()
	if r := p.progress("public.a").Reason; !strings.Contains(r, "permission denied for table a") || p.activated != 0 {
		t.Errorf("reason %q, activated %d", r, p.activated)
	}
	p.check("after the failure")
	d.deny = nil
	ch.send("1", signal.TypeExecute, `{"data-collections":["public.a"]}`)
	p.life(cfg, newFake(d), 1, func(s *Source) bool { return len(ch.list) == len(s.state.Executed) && p.done(s) })
	p.commit()
	if p.activated == 0 {
		t.Error("the baseline was not activated")
	}
	p.check("after it was read")
}

// TestWaitIsReported: who is waited for is told while a chunk does not count, and no longer when it does.
func TestWaitIsReported(t *testing.T) {
	d := still(20, "a", "b")
	tx := d.begin()
	d.commit(tx)
	p := newTopic(t, d)
	cfg := small()
	var mu sync.Mutex
	var states []connectors.State
	cfg.Report = func(s connectors.State) { mu.Lock(); states = append(states, s); mu.Unlock() }
	f := newFake(d)
	f.begin, f.quiet = len(d.log), true
	p.life(cfg, f, 0, func(s *Source) bool {
		mu.Lock()
		if len(states) > 0 && !tx.visible {
			if len(p.reads()) > 0 {
				t.Error("rows were published")
			}
			d.mu.Lock()
			d.show(tx)
			d.mu.Unlock()
		}
		mu.Unlock()
		return p.done(s)
	})
	if n := len(states); n < 2 || !strings.Contains(states[0].Reason, "waits for 101") && !strings.Contains(states[0].Reason, "waits for 102") || states[n-1].Reason != "" {
		t.Errorf("states: %+v", states)
	}
}

// TestRateLimit: reads are spread over time.
func TestRateLimit(t *testing.T) {
	l := limiter{rate: 1000}
	l.took(500)
	if d := l.wait(); d < 400*time.Millisecond || d > 500*time.Millisecond {
		t.Errorf("after 500 rows at 1,000 a second the next read waits %v", d)
	}
	if n := l.bound(10_000); n != 250 {
		t.Errorf("a chunk has %d rows", n)
	}
	if l := (limiter{}); l.wait() != 0 || l.bound(10_000) != 10_000 {
		t.Error("no limit limits")
	}
}
