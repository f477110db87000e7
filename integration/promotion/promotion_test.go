package promotion

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

const refusedCode = 5

func seed(t *testing.T) uint64 {
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("TIDEMARK_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("TIDEMARK_SEED: %v", err)
		}
	}
	t.Logf("TIDEMARK_SEED=%d", n)
	return n
}

// Case 23: the primary dies under load and its standby takes over; the worker's address leads to it. The worker goes on with
// the synchronized slot, and the topics are what the new primary's log and tables say, from the first change on.
func TestPrimaryDies(t *testing.T) {
	on(t, func(t *testing.T, major int) {
		p := newPair(t, major, true)
		px, err := proxy.New("127.0.0.1:0", address(p.primary))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(px.Close)
		s := p.stream(harness.Options{Setup: setup, Publication: captured, PGAddr: px.Addr()})
		p.synced(s)
		w := s.Run()
		l := startLoad(t, s, 3, seed(t))
		l.more(t, 200)
		if err := p.primary.Kill(s.Ctx); err != nil {
			t.Fatal(err)
		}
		branch := p.promote()
		px.Retarget(address(p.standby))
		px.Reset()
		l.primary.Store(p.standby)
		s.Move(p.standby)
		p.goesOn(s, w, l, branch)
	})
}

// The standby is promoted while the primary lives and its application goes on writing: nothing of that is published, since
// the standby does not have it. The worker is stopped, its file names the new primary, and it goes on there.
func TestTwoPrimaries(t *testing.T) {
	on(t, func(t *testing.T, major int) {
		p := newPair(t, major, true)
		s := p.stream(harness.Options{Setup: setup, Publication: captured})
		p.synced(s)
		w := s.Run()
		l := startLoad(t, s, 3, seed(t))
		l.more(t, 200)
		branch := p.promote()
		l.more(t, 50)
		ahead := s.LSN("SELECT pg_current_wal_flush_lsn()::text")
		if ahead <= s.LSN("SELECT $1::text::pg_lsn::text", branch) {
			t.Fatalf("the old primary did not get past %s", branch)
		}
		l.primary.Store(p.standby)
		l.more(t, 50)
		w.Stop()
		s.Move(p.standby)
		p.goesOn(s, s.Run(), l, branch)
		// The old primary is still there, with transactions that the stream never had.
		s.Configure(map[string]string{"database.port": strconv.Itoa(p.primary.Port())})
		refused(t, s, "timeline 1", "timeline 2", "point the connector at the current primary")
	})
}

// goesOn lets the worker stream from the new primary, and judges everything.
func (p *pair) goesOn(s *harness.Stream, w *harness.Worker, l *load, branch string) {
	p.t.Helper()
	at := s.LSN("SELECT $1::text::pg_lsn::text", branch)
	s.CaughtUp(time.Minute) // servers come up and a broken Kafka transaction ends meanwhile
	l.more(p.t, 100)
	l.stop()
	res := s.Finish(w, harness.Expect{Captured: func(_, table string) bool { return table != "elsewhere" }})
	before, after := 0, 0
	for _, r := range s.Records(harness.Committed) {
		if r.LSN < at {
			before++
		} else {
			after++
		}
	}
	p.t.Logf("timeline 2 begins at %s: %d records before, %d after", branch, before, after)
	if before == 0 || after == 0 || res.Transactions < 100 {
		p.t.Errorf("%d records before %s and %d after it in %d transactions: the promotion was not under load", before, branch, after, res.Transactions)
	}
	if tl := stored(s, "timeline"); tl != "2" {
		p.t.Errorf("the stored timeline is %s", tl)
	}
	s.SameRows("public", "a", "id", "n", "big")
	s.SameRows("public", "hot", "k", "n")
}

// stored is a member of the stream's offsets entry.
func stored(s *harness.Stream, member string) string {
	for _, v := range s.Offsets() {
		if x, ok := v[member]; ok {
			return fmt.Sprint(x)
		}
	}
	return ""
}

// Contract, section 5: what may be published beyond the standby. Its replication ends; what the primary writes then is lost
// with it. A stream that published a transaction of that is refused on the new primary, one that only took note of the log's
// progress is set back to where the timeline branched off and goes on, and one whose slot was not made for failover is refused.
func TestPublishedBeyondTheStandby(t *testing.T) {
	on(t, func(t *testing.T, major int) {
		p := newPair(t, major, false)
		options := harness.Options{Setup: setup, Publication: captured}
		lost, idle, plain := p.stream(options), p.stream(options), p.stream(options)
		p.synced(lost, idle)
		p.slots(false, plain)
		all := []*harness.Stream{lost, idle, plain}
		var workers []*harness.Worker
		for _, s := range all {
			w := s.Run()
			workers = append(workers, w)
			s.SQL("INSERT INTO a SELECT FROM generate_series(1, 10)")
			s.CaughtUp(soon)
			if s == plain {
				w.Stop() // so that it stands before the place where the timelines part
			}
		}
		if err := p.standby.CaughtUp(lost.Ctx, p.primary); err != nil {
			t.Fatal(err)
		}
		p.separate()
		lost.SQL("INSERT INTO a(n) VALUES (4711)")
		lost.CaughtUp(soon)
		idle.SQL("INSERT INTO elsewhere SELECT generate_series(1, 100)")
		written := idle.LSN("SELECT pg_current_wal_flush_lsn()::text")
		idle.Published(written, soon)
		branch := p.promote()
		if at := lost.LSN("SELECT $1::text::pg_lsn::text", branch); at >= written {
			t.Fatalf("timeline 2 begins at %s, after what the standby cannot have", branch)
		}
		if err := p.primary.Kill(lost.Ctx); err != nil {
			t.Fatal(err)
		}
		for i, s := range all {
			workers[i].Kill()
			s.Move(p.standby)
		}
		t.Run("published", func(t *testing.T) { publishedIsRefused(t, lost, branch) })
		t.Run("idle", func(t *testing.T) { idleGoesOn(t, idle) })
		t.Run("slot", func(t *testing.T) { missingSlotIsRefused(t, plain) })
	})
}

// refused starts a worker that must end with the code of a refusal and a sentence that contains all texts; it leaves
// slots, offsets and topics alone.
func refused(t *testing.T, s *harness.Stream, texts ...string) {
	t.Helper()
	slot, offsets, records := s.Confirmed(), fmt.Sprint(s.Offsets()), len(s.Records(harness.Uncommitted))
	for range 2 {
		w := s.Start()
		if code := w.Wait(soon); code != refusedCode {
			t.Errorf("code %d, want %d", code, refusedCode)
		}
		for _, text := range texts {
			if !strings.Contains(w.Message(), text) {
				t.Errorf("%q should say %q", w.Message(), text)
			}
		}
	}
	if s.Confirmed() != slot || fmt.Sprint(s.Offsets()) != offsets || len(s.Records(harness.Uncommitted)) != records {
		t.Errorf("refused, but slot %d became %d, offsets %s became %v, %d records %d", slot, s.Confirmed(), offsets, s.Offsets(), records, len(s.Records(harness.Uncommitted)))
	}
}

// publishedIsRefused: the sentence names both positions, and the way out that it names works.
func publishedIsRefused(t *testing.T, s *harness.Stream, branch string) {
	s.T = t
	pos := stored(s, "pos")
	refused(t, s, "timeline 2 branched off timeline 1 at "+branch, "before the last published transaction at "+position(t, pos), "do not exist on this server", "connectctl offsets reset")
	if code, out, errs := s.Ctl("offsets", "reset", s.WorkerFile, s.ConfigFile); code != 0 {
		t.Fatalf("offsets reset: code %d %s%s", code, out, errs)
	}
	s.SQL("INSERT INTO a(n) VALUES (1)")
	before := s.CommittedEnd(s.Topic("public", "a"))
	w := s.Run()
	s.SQL("INSERT INTO a(n) VALUES (2)")
	if !harness.Eventually(soon, func() bool { return s.CommittedEnd(s.Topic("public", "a")) > before }) {
		t.Error("nothing is published after the reset")
	}
	w.Stop()
	s.Verify()
}

// position is the LSN in a stored __pos.
func position(t *testing.T, pos string) string {
	t.Helper()
	_, lsn, ok := strings.Cut(pos, `"lsn":"`)
	if !ok {
		t.Fatalf("stored position %q", pos)
	}
	return strings.TrimSuffix(lsn, `"}`)
}

// idleGoesOn: the boundary was set back in one entry with the new timeline, nothing is lost and nothing twice.
func idleGoesOn(t *testing.T, s *harness.Stream) {
	s.T = t
	s.SQL("INSERT INTO a(n) SELECT generate_series(1, 10)")
	w := s.Run()
	// Until then the stored boundary is the old primary's, beyond the new one's log.
	if !harness.Eventually(time.Minute, func() bool { return stored(s, "timeline") == "2" }) {
		t.Errorf("the stored timeline is %s", stored(s, "timeline"))
	}
	s.CaughtUp(time.Minute)
	if res := s.Finish(w, harness.Expect{Captured: func(_, table string) bool { return table == "a" }}); res.Changes != 20 {
		t.Errorf("%d changes, want 20", res.Changes)
	}
	s.SameRows("public", "a", "id", "n", "big")
}

// missingSlotIsRefused: the slot stayed on the old primary, and no other is made in its place.
func missingSlotIsRefused(t *testing.T, s *harness.Stream) {
	s.T = t
	boundary := s.Query("SELECT $1::text", stored(s, "boundary_lsn"))
	refused(t, s, "slot "+s.Name+" does not exist", "processed up to "+boundary, "connectctl offsets reset")
}
