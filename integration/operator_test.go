package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// Offsets set and reset raise the generation and write its activation record; a running connector is not touched.
func TestOffsetsSetAndReset(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY)"}})
		w := s.Run()
		s.SQL("INSERT INTO a VALUES (1)")
		s.CaughtUp(soon)
		if code, out, errs := s.Ctl("offsets", "reset", s.WorkerFile, s.ConfigFile); code == 0 || !strings.Contains(errs, "running") {
			t.Errorf("reset of a running connector: code %d %s%s", code, out, errs)
		}
		w.Stop()
		s.SlotFree()
		s.SQL("INSERT INTO a VALUES (2)")
		end := check.FormatLSN(s.LSN("SELECT pg_current_wal_insert_lsn()::text"))
		// Set after row 2: it is skipped, as asked.
		if code, out, errs := s.Ctl("offsets", "set", s.WorkerFile, s.ConfigFile, `{"boundary_lsn":"`+end+`"}`); code != 0 || !strings.Contains(out, "generation 2") {
			t.Fatalf("set: code %d %s%s", code, out, errs)
		}
		w = s.Run()
		s.SQL("INSERT INTO a VALUES (3)")
		s.CaughtUp(soon)
		w.Stop()
		s.SlotFree()
		if code, out, errs := s.Ctl("offsets", "reset", s.WorkerFile, s.ConfigFile); code != 0 || !strings.Contains(out, "boundary_lsn") {
			t.Fatalf("reset: code %d %s%s", code, out, errs)
		}
		s.SQL("INSERT INTO a VALUES (4)") // after the slot's position: it is published
		w = s.Run()
		s.SQL("INSERT INTO a VALUES (5)")
		s.CaughtUp(soon)
		w.Stop()
		s.SlotFree()
		got := map[string]int64{}
		for _, r := range s.Records(harness.Committed) {
			v, err := s.Decoder.Decode(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			got[*v.Columns["id"]] = r.Gen
		}
		want := map[string]int64{"1": 1, "3": 2, "4": 3, "5": 3}
		for id, gen := range want {
			if got[id] != gen {
				t.Errorf("row %s in generation %d, want %d; all %v", id, got[id], gen, got)
			}
		}
		if len(got) != len(want) {
			t.Errorf("rows by generation %v, want %v", got, want)
		}
		activated := []float64{}
		for _, r := range s.Raw(harness.Committed, s.GenerationsTopic()) {
			var v map[string]any
			if err := json.Unmarshal(r.Value, &v); err != nil {
				t.Fatal(err)
			}
			activated = append(activated, v["gen"].(float64))
		}
		if len(activated) != 3 || activated[0] != 1 || activated[1] != 2 || activated[2] != 3 {
			t.Errorf("activated generations %v, want 1 2 3", activated)
		}
		s.Verify()
	})
}

// Columns come and go while the stream runs and while it is stopped.
func TestColumnsAddedAndDropped(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, gone text, n int)"}})
		w := s.Run()
		s.SQL("INSERT INTO a VALUES (1, 'x', 1)",
			"ALTER TABLE a ADD c text", "INSERT INTO a VALUES (2, 'y', 2, 'c')",
			"ALTER TABLE a DROP gone", "INSERT INTO a VALUES (3, 3, 'c')",
			"BEGIN; INSERT INTO a VALUES (4, 4, 'before'); ALTER TABLE a ADD d numeric(10,2) DEFAULT 1.50; INSERT INTO a VALUES (5, 5, 'after', 2.25); COMMIT",
			"ALTER TABLE a RENAME n TO m", "UPDATE a SET m = 50 WHERE id = 5")
		s.CaughtUp(soon)
		w.Kill()
		s.SlotFree()
		s.SQL("INSERT INTO a VALUES (6, 6, 'stopped')", "ALTER TABLE a ADD e timestamptz", "INSERT INTO a VALUES (7, 7, 'stopped', NULL, now())", "ALTER TABLE a DROP c", "INSERT INTO a VALUES (8, 8, NULL, now())")
		w = s.Run()
		s.SQL("ALTER TABLE a DROP e", "DELETE FROM a WHERE id = 1")
		if res := s.Finish(w, harness.Expect{}); res.Changes != 10 {
			t.Errorf("%s", res)
		}
	})
}

// What this version cannot publish blocks: exit code 3 and one sentence, good transactions before it are published, nothing of it
// is, and the next start ends alike.
func TestBlocks(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		for name, bad := range map[string]string{
			"truncate":    "BEGIN; INSERT INTO b VALUES (10, 'with it'); TRUNCATE a; INSERT INTO a VALUES (11, 'after it'); COMMIT",
			"type change": "BEGIN; INSERT INTO b VALUES (10, 'with it'); ALTER TABLE a ALTER v TYPE int USING 1; INSERT INTO a VALUES (11, 1); COMMIT",
			"key change":  "BEGIN; INSERT INTO b VALUES (10, 'with it'); ALTER TABLE a DROP CONSTRAINT a_pkey; ALTER TABLE a ALTER v SET NOT NULL; ALTER TABLE a ADD PRIMARY KEY (v); INSERT INTO a VALUES (11, 'k'); COMMIT",
		} {
			t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
				s := stream(t, major, harness.Options{Setup: []string{"CREATE TABLE a(id int PRIMARY KEY, v text)", "CREATE TABLE b(id int PRIMARY KEY, v text)"}})
				w := s.Run()
				s.SQL("INSERT INTO a VALUES (1, 'one')", "INSERT INTO b VALUES (2, 'two')")
				s.CaughtUp(soon) // so that the tables were seen as they were
				end := s.LSN("SELECT pg_current_wal_insert_lsn()::text")
				s.SQL(bad, "INSERT INTO b VALUES (3, 'later')")
				for i := range 2 {
					if code := w.Wait(soon); code != connectorBlocked || !strings.Contains(w.Message(), "public.a") {
						t.Errorf("start %d: code %d, want %d: %s", i, code, connectorBlocked, w.Message())
					}
					t.Log(w.Message())
					s.SlotFree()
					s.SlotNotAhead()
					if n := len(s.Records(harness.Committed)); n != 2 {
						t.Errorf("start %d: %d records, want the 2 before", i, n)
					}
					if s.Confirmed() > end {
						t.Errorf("start %d: the slot moved to %s, past %s", i, check.FormatLSN(s.Confirmed()), check.FormatLSN(end))
					}
					w = s.Start()
				}
				w.Wait(soon)
				s.Verify()
			})
		}
	})
}
