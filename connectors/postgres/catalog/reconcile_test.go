package catalog

import (
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// base is a stream at rest: generation from 1000, last transaction at 1F00, processed to 2000,
// acknowledged and confirmed to 1800, WAL to 3000, timeline 3.
func base() Inputs {
	return Inputs{
		Server:   Server{SystemID: "7001", Timeline: 3, Version: 180000, WALFlush: 0x3000, WALLevel: "logical", Encoding: "UTF8", Database: "shop"},
		SlotName: "s",
		Slot:     Slot{Exists: true, Name: "s", Plugin: "pgoutput", Database: "shop", ConfirmedFlush: 0x1800, WALStatus: "reserved"},
		Stored: &Position{SystemID: "7001", Timeline: 3, Pos: FormatPos(0x1F00), PosLSN: 0x1F00,
			BoundaryLSN: 0x2000, AckedLSN: 0x1800, HighestXID: 9},
		GenerationStart: 0x1000,
	}
}

func TestReconcileGoesOn(t *testing.T) {
	cases := []struct {
		name   string
		change func(*Inputs)
		want   func(*Decision) // from: start at 2000, position as stored
	}{
		{"at rest", func(*Inputs) {}, func(*Decision) {}},
		{"slot behind the acknowledgement is advanced", func(in *Inputs) { in.Slot.ConfirmedFlush = 0x1700 }, func(d *Decision) { d.AdvanceSlotTo = 0x1800 }},
		{"slot at the generation's start is advanced", func(in *Inputs) { in.Slot.ConfirmedFlush = 0x1000 }, func(d *Decision) { d.AdvanceSlotTo = 0x1800 }},
		{"slot after the acknowledgement is adopted", func(in *Inputs) { in.Slot.ConfirmedFlush = 0x1900 }, func(d *Decision) { d.Adopted, d.Position.AckedLSN = true, 0x1900 }},
		{"slot at the processed boundary is adopted", func(in *Inputs) { in.Slot.ConfirmedFlush = 0x2000 }, func(d *Decision) { d.Adopted, d.Position.AckedLSN = true, 0x2000 }},
		{"WAL ends at the boundary", func(in *Inputs) { in.Server.WALFlush = 0x2000 }, func(*Decision) {}},
		{"no acknowledgement recorded", func(in *Inputs) { in.Stored.AckedLSN = 0 }, func(d *Decision) { d.Adopted = true }},
		{"newer timeline after the boundary", func(in *Inputs) {
			in.Server.Timeline, in.History = 4, TimelineHistory{{2, 0x500, ""}, {3, 0x2000, ""}}
		}, func(d *Decision) { d.Position.Timeline = 4 }},
		{"two timelines later, the stored one's end counts", func(in *Inputs) {
			in.Server.Timeline, in.History = 5, TimelineHistory{{3, 0x1F80, ""}, {4, 0x2800, ""}}
		}, func(d *Decision) {
			d.Position.Timeline, d.SetBack, d.Position.BoundaryLSN, d.StartLSN = 5, true, 0x1F80, 0x1F80
		}},
		{"branch right after the last transaction sets both back", func(in *Inputs) {
			in.Server.Timeline, in.History = 4, TimelineHistory{{3, 0x1F01, ""}}
			in.Stored.AckedLSN, in.Slot.ConfirmedFlush = 0x2000, 0x1F01
		}, func(d *Decision) {
			d.Position.Timeline, d.SetBack = 4, true
			d.Position.BoundaryLSN, d.Position.AckedLSN, d.StartLSN = 0x1F01, 0x1F01, 0x1F01
		}},
		{"set back, then the slot is behind", func(in *Inputs) {
			in.Server.Timeline, in.History = 4, TimelineHistory{{3, 0x1F80, ""}}
			in.Stored.AckedLSN, in.Slot.ConfirmedFlush = 0x2000, 0x1200
		}, func(d *Decision) {
			d.Position.Timeline, d.SetBack, d.AdvanceSlotTo = 4, true, 0x1F80
			d.Position.BoundaryLSN, d.Position.AckedLSN, d.StartLSN = 0x1F80, 0x1F80, 0x1F80
		}},
		{"nothing published yet, only idle boundaries beyond the branch", func(in *Inputs) {
			in.Server.Timeline, in.History = 4, TimelineHistory{{3, 0x1900, ""}}
			in.Stored.Pos, in.Stored.PosLSN = "", 0
		}, func(d *Decision) {
			d.Position.Pos, d.Position.PosLSN = "", 0
			d.Position.Timeline, d.SetBack, d.Position.BoundaryLSN, d.StartLSN = 4, true, 0x1900, 0x1900
		}},
		{"slot lost its place in a crash, soon after the generation began", func(in *Inputs) { in.Slot.ConfirmedFlush = 0xFFF }, func(d *Decision) { d.AdvanceSlotTo = 0x1800 }},
		{"offset set beyond the slot", func(in *Inputs) {
			in.GenerationStart, in.Stored.AckedLSN, in.Stored.BoundaryLSN, in.Stored.Pos, in.Stored.PosLSN = 0x2000, 0x2000, 0x2000, "", 0
			in.Slot.ConfirmedFlush = 0xFFF
		}, func(d *Decision) {
			d.AdvanceSlotTo, d.StartLSN = 0x2000, 0x2000
			d.Position.AckedLSN, d.Position.BoundaryLSN, d.Position.Pos, d.Position.PosLSN = 0x2000, 0x2000, "", 0
		}},
		{"generation start not known", func(in *Inputs) { in.GenerationStart, in.Slot.ConfirmedFlush = 0, 0x100 }, func(d *Decision) { d.AdvanceSlotTo = 0x1800 }},
		{"set by hand without identity", func(in *Inputs) { in.Stored.SystemID, in.Stored.Timeline = "", 0 }, func(*Decision) {}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := base()
			want := Decision{StartLSN: 0x2000, Position: *base().Stored}
			c.change(&in)
			before := *in.Stored
			if in.Stored.AckedLSN == 0 {
				want.Position.AckedLSN = 0x1800
			}
			c.want(&want)
			got, err := Reconcile(in)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if *in.Stored != before {
				t.Error("Reconcile changed its input")
			}
		})
	}
}

func TestReconcileRefuses(t *testing.T) {
	newer := func(branch pgoutput.LSN) func(*Inputs) {
		return func(in *Inputs) { in.Server.Timeline, in.History = 4, TimelineHistory{{3, branch, ""}} }
	}
	cases := []struct {
		name   string
		change func(*Inputs)
		says   []string
	}{
		{"another system", func(in *Inputs) { in.Server.SystemID = "7002" }, []string{"7001", "7002", "0/2000", "0/3000"}},
		{"older timeline", func(in *Inputs) { in.Server.Timeline = 2 }, []string{"timeline 2", "timeline 3", "0/2000", "0/3000"}},
		{"unrelated timeline", func(in *Inputs) { in.Server.Timeline, in.History = 4, TimelineHistory{{1, 0x100, ""}} }, []string{"does not descend", "0/2000", "0/3000"}},
		{"branch at the last transaction", newer(0x1F00), []string{"branched off", "0/1F00"}},
		{"branch before the last transaction", newer(0x1500), []string{"0/1500", "0/1F00"}},
		{"ahead of the server", func(in *Inputs) { in.Server.WALFlush = 0x1FFF }, []string{"ahead of the server", "0/2000", "0/1FFF"}},
		{"slot missing", func(in *Inputs) { in.Slot = Slot{} }, []string{"slot s does not exist", "0/2000"}},
		{"slot invalidated", func(in *Inputs) { in.Slot.Invalidation = "wal_removed" }, []string{"wal_removed", "0/1800", "0/2000"}},
		{"slot of another plugin", func(in *Inputs) { in.Slot.Plugin = "test_decoding" }, []string{"test_decoding", "slot.name"}},
		{"physical slot", func(in *Inputs) { in.Slot.Plugin = "" }, []string{"physical", "slot.name"}},
		{"slot of another database", func(in *Inputs) { in.Slot.Database = "other" }, []string{`"other"`, `"shop"`, "slot.name"}},
		{"temporary slot", func(in *Inputs) { in.Slot.Temporary = true }, []string{"temporary", "slot.name"}},
		{"two-phase slot", func(in *Inputs) { in.Slot.TwoPhase = true }, []string{"two-phase", "slot.name"}},
		{"slot before the generation, nothing of it acknowledged", func(in *Inputs) {
			in.Slot.ConfirmedFlush, in.Stored.AckedLSN = 0xFFF, 0
		}, []string{"0/FFF", "0/1000", "0/2000"}},
		{"slot after the processed boundary", func(in *Inputs) { in.Slot.ConfirmedFlush = 0x2001 }, []string{"0/2001", "0/2000", "1 bytes"}},
		{"slot after the branch", func(in *Inputs) {
			newer(0x1F80)(in)
			in.Slot.ConfirmedFlush = 0x2000
		}, []string{"0/2000", "0/1F80"}},
		{"acknowledged beyond processed", func(in *Inputs) { in.Stored.AckedLSN = 0x2001 }, []string{"not in order", "0/2001", "0/2000", "connectctl offsets set WORKER CONNECTOR"}},
		{"transaction beyond processed", func(in *Inputs) { in.Stored.PosLSN = 0x2001 }, []string{"not in order", "0/2001", "0/2000"}},
		{"processed before the generation", func(in *Inputs) { in.GenerationStart = 0x2800 }, []string{"0/2000", "0/2800"}},
		{"wal_level", func(in *Inputs) { in.Server.WALLevel = "replica" }, []string{"wal_level replica", "wal_level = logical"}},
		{"version", func(in *Inputs) { in.Server.Version, in.Server.VersionText = 130011, "13.11" }, []string{"13.11", "14"}},
		{"encoding", func(in *Inputs) { in.Server.Encoding = "SQL_ASCII" }, []string{"SQL_ASCII", "UTF8"}},
		{"first start with a foreign slot", func(in *Inputs) { in.Stored, in.Slot.Plugin = nil, "wal2json" }, []string{"wal2json"}},
		{"first start with a lost slot", func(in *Inputs) { in.Stored, in.Slot.Invalidation = nil, "wal_removed" }, []string{"wal_removed"}},
		{"first start ahead of the server", func(in *Inputs) { in.Stored, in.Slot.ConfirmedFlush = nil, 0x4000 }, []string{"0/4000", "0/3000"}},
	}
	noReset := map[string]bool{"wal_level": true, "version": true, "encoding": true}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := base()
			c.change(&in)
			d, err := Reconcile(in)
			if err == nil {
				t.Fatalf("got %+v", d)
			}
			if connectors.ClassOf(err) != connectors.ClassRefused || d != (Decision{}) {
				t.Errorf("class %v, decision %+v", connectors.ClassOf(err), d)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q lacks %q", err, s)
				}
			}
			if !noReset[c.name] && !strings.Contains(err.Error(), "connectctl offsets reset WORKER CONNECTOR") && !strings.Contains(err.Error(), "slot.name") {
				t.Errorf("%q names no way out", err)
			}
		})
	}
}

func TestReconcileWaits(t *testing.T) {
	standby, creating := base(), base()
	standby.Server.InRecovery, standby.Server.WALLevel = true, "replica"
	creating.Slot.ConfirmedFlush, creating.Slot.ActivePID = 0, 4711
	for says, in := range map[string]Inputs{"standby in recovery": standby, "pid 4711": creating} {
		_, err := Reconcile(in)
		if err == nil || connectors.ClassOf(err) != connectors.ClassWait || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestReconcileFirstStart(t *testing.T) {
	in := base()
	in.Stored, in.GenerationStart = nil, 0
	got, err := Reconcile(in)
	want := Decision{StartLSN: 0x1800, Position: Position{SystemID: "7001", Timeline: 3, BoundaryLSN: 0x1800, AckedLSN: 0x1800}}
	if err != nil || got != want {
		t.Errorf("with a slot: %+v, %v", got, err)
	}
	in.Slot = Slot{}
	got, err = Reconcile(in)
	want = Decision{CreateSlot: true, Position: Position{SystemID: "7001", Timeline: 3}}
	if err != nil || got != want {
		t.Errorf("without: %+v, %v", got, err)
	}
}

// Whatever the positions are, a decision never skips what was not published, never repeats what
// was, and never acknowledges beyond what was processed.
func TestReconcileNeverLosesOrRepeats(t *testing.T) {
	points := []pgoutput.LSN{0, 0x800, 0x1000, 0x1800, 0x1F00, 0x1F80, 0x2000, 0x2800, 0x3000, 0x3800}
	decided := 0
	for _, slot := range points {
		for _, acked := range points {
			for _, boundary := range points {
				for _, branch := range points {
					in := base()
					in.Slot.ConfirmedFlush, in.Stored.AckedLSN, in.Stored.BoundaryLSN = slot, acked, boundary
					if branch > 0 {
						in.Server.Timeline, in.History = 4, TimelineHistory{{3, branch, ""}}
					}
					d, err := Reconcile(in)
					if err != nil {
						continue
					}
					decided++
					p := d.Position
					confirmed := max(slot, d.AdvanceSlotTo)
					if confirmed > d.StartLSN || d.StartLSN > boundary || d.StartLSN <= in.Stored.PosLSN ||
						p.AckedLSN != confirmed || p.AckedLSN > p.BoundaryLSN || p.BoundaryLSN != d.StartLSN ||
						d.StartLSN > in.Server.WALFlush || (branch > 0 && d.StartLSN > branch) {
						t.Fatalf("slot %s acked %s boundary %s branch %s: %+v", slot, acked, boundary, branch, d)
					}
				}
			}
		}
	}
	if decided < 50 {
		t.Fatalf("only %d combinations were decided", decided)
	}
}
