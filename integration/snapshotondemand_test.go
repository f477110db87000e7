package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/harness"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
	"github.com/tidemark-cdc/tidemark/pipeline/signal/kafkasignal"
)

// demand asks a stream for snapshots and looks at what becomes of it.
type demand struct {
	*harness.Stream
	t *testing.T
}

// ctl runs connectctl snapshot and compares the exit code.
func (d demand) ctl(code int, args ...string) (stdout, stderr string) {
	d.t.Helper()
	got, stdout, stderr := d.Ctl(append([]string{"snapshot", args[0], d.WorkerFile, d.ConfigFile}, args[1:]...)...)
	if got != code {
		d.t.Fatalf("snapshot %v: code %d, want %d: %s%s", args, got, code, stdout, stderr)
	}
	return stdout, stderr
}

type demandStatus struct {
	Paused bool
	Tables []struct {
		Table, State, ID, Reason string
		Rows                     int64
	}
	Waiting []string
	Results []struct{ ID, Error string }
}

func (d demand) status() (s demandStatus) {
	d.t.Helper()
	text, _ := d.ctl(0, "status", "--json")
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		d.t.Fatalf("%v: %s", err, text)
	}
	return s
}

// until waits until the stored status is so.
func (d demand) until(what string, is func(demandStatus) bool) {
	d.t.Helper()
	if !harness.Eventually(soon, func() bool { return is(d.status()) }) {
		d.t.Fatalf("not %s, but %+v", what, d.status())
	}
}

// ended waits until a table's snapshot of that id is in a state.
func (d demand) ended(table, id, state string) {
	d.t.Helper()
	d.until(table+" "+state, func(s demandStatus) bool {
		for _, t := range s.Tables {
			if t.Table == table && t.ID == id {
				return t.State == state
			}
		}
		return false
	})
}

// reads counts the rows that were published as read, by table.
func (d demand) reads() map[string]int {
	d.t.Helper()
	n := map[string]int{}
	for _, r := range d.Records(harness.Committed) {
		if r.Op == 'r' {
			n[strings.TrimPrefix(r.Topic, d.Name+".public.")]++
		}
	}
	return n
}

func (d demand) expectReads(want map[string]int) {
	d.t.Helper()
	got := d.reads()
	for table, n := range want {
		if got[table] != n {
			d.t.Errorf("rows read %v, want %v", got, want)
			return
		}
	}
}

// send writes a signal as another program might.
func (d demand) send(s signal.Signal) {
	d.t.Helper()
	if _, err := kafkasignal.Send(d.Ctx, []kgo.Opt{kgo.SeedBrokers(d.KafkaAddr())}, d.Name+"-signal", d.Name, s); err != nil {
		d.t.Fatal(err)
	}
}

// settled has everything that was sent so far executed.
func (d demand) settled() {
	d.t.Helper()
	d.ctl(0, "resume", "--wait")
}

// Snapshots on demand: from the command line, from other programs through Kafka, a file and a table; each once, whatever restarts; what
// fails fails alone. Cases 153, 154.
func TestSnapshotOnDemand(t *testing.T) {
	full(t, func(t *testing.T, major int) {
		file := filepath.Join(t.TempDir(), "signals")
		d := demand{t: t, Stream: stream(t, major, harness.Options{
			Setup: []string{`CREATE TABLE a(id int PRIMARY KEY, region text); CREATE TABLE b(id int PRIMARY KEY, v text); CREATE TABLE c(id text PRIMARY KEY);
				CREATE TABLE signals(id text PRIMARY KEY, type text NOT NULL, data text);
				INSERT INTO a SELECT g, CASE WHEN g % 4 = 0 THEN 'eu' ELSE 'us' END FROM generate_series(1, 2000) g;
				INSERT INTO b SELECT g, 'before' FROM generate_series(1, 1500) g; INSERT INTO c SELECT g FROM generate_series(1, 300) g`},
			Connector: map[string]string{"signal.enabled.channels": "kafka,file,source", "signal.file": file, "signal.poll.interval.ms": "50",
				"signal.data.collection": "public.signals", "incremental.snapshot.chunk.size": "200"},
		})}
		w := d.Run()

		// From the command line.
		_, errs := d.ctl(2, "start", "--table", "public.nope")
		if !strings.Contains(errs, "no captured table is named public.nope; there are public.a, public.b, public.c") {
			t.Errorf("a table that is not there: %s", errs)
		}
		if out, errs := d.ctl(0, "start", "--table", "public.a", "--where", "region = 'eu'", "--id", "one", "--wait"); out != "one\n" || !strings.Contains(errs, "public.a: 500 rows in ") {
			t.Errorf("start: %s%s", out, errs)
		}
		if out, _ := d.ctl(0, "status"); !strings.Contains(out, "TABLE") || !strings.Contains(out, "public.a  done   500") {
			t.Errorf("status: %s", out)
		}
		d.expectReads(map[string]int{"a": 500})

		// The same id again.
		if _, errs := d.ctl(2, "start", "--table", "public.a", "--id", "one"); !strings.Contains(errs, `id "one" was executed before`) {
			t.Errorf("an id again: %s", errs)
		}
		d.send(signal.Signal{ID: "one", Type: signal.TypeExecute, Data: []byte(`{"data-collections":["public.a"]}`)})

		// A file, a table.
		if err := os.WriteFile(file, []byte(`{"id":"two","type":"execute-snapshot","data":{"data-collections":["public.B"]}}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.ended("public.b", "two", "done")
		d.SQL(`INSERT INTO signals VALUES ('three', 'execute-snapshot', '{"data-collections":["public\\.c"]}')`)
		d.ended("public.c", "three", "done")
		d.settled()
		d.expectReads(map[string]int{"a": 500, "b": 1500, "c": 300})

		// What fails fails alone.
		if _, errs := d.ctl(1, "start", "--table", "public.a", "--where", "regoin = 'eu'", "--id", "bad", "--wait"); !strings.Contains(errs, "regoin") {
			t.Errorf("a bad condition: %s", errs)
		}
		d.send(signal.Signal{ID: "nowhere", Type: signal.TypeExecute, Data: []byte(`{"data-collections":["public.nope"]}`)})
		d.send(signal.Signal{ID: "garbage", Type: "nonsense"})
		d.until("failed", func(s demandStatus) bool {
			for _, r := range s.Results {
				if r.ID == "nowhere" && strings.Contains(r.Error, "public.nope") {
					return true
				}
			}
			return false
		})
		d.SQL("INSERT INTO a VALUES (3000, 'eu')")
		d.CaughtUp(soon)

		d.pauseAndStop(&w)

		// Nothing runs again after a restart.
		before := d.reads()
		w.Stop()
		d.SlotFree()
		w = d.Run()
		d.settled()
		if now := d.reads(); now["a"] != before["a"] || now["b"] != before["b"] || now["c"] != before["c"] {
			t.Errorf("rows read %v after a restart, %v before", now, before)
		}
		w.Stop()
		d.Verify()
	})
}

// pauseAndStop: nothing is read while paused, also across a restart; stop ends what waits.
func (d demand) pauseAndStop(w **harness.Worker) {
	d.t.Helper()
	before := d.reads()
	d.ctl(0, "pause", "--wait")
	d.ctl(0, "start", "--table", "public.b", "--id", "later")
	d.until("paused with a table to be read", func(s demandStatus) bool {
		return s.Paused && slices.ContainsFunc(s.Tables, func(t struct {
			Table, State, ID, Reason string
			Rows                     int64
		}) bool {
			return t.ID == "later" && t.State == "pending"
		})
	})
	if out, _ := d.ctl(0, "status"); !strings.Contains(out, "public.b  paused  0") || !strings.Contains(out, "snapshot resume goes on") {
		d.t.Errorf("status: %s", out)
	}
	(*w).Stop()
	d.SlotFree()
	// Sent while nobody runs: executed at the next start.
	if _, errs := d.ctl(0, "start", "--table", "public.c", "--id", "meanwhile"); !strings.Contains(errs, "does not run") {
		d.t.Errorf("start of a stopped connector: %s", errs)
	}
	*w = d.Run()
	d.SQL("INSERT INTO c VALUES ('streamed while paused')")
	d.CaughtUp(soon)
	d.until("taken", func(s demandStatus) bool { return len(s.Tables) == 3 && s.Paused })
	if now := d.reads(); now["b"] != before["b"] || now["c"] != before["c"] {
		d.t.Errorf("rows read %v while paused, %v before", now, before)
	}
	d.ctl(0, "stop", "--table", "public.b", "--wait")
	d.ended("public.b", "later", "stopped")
	d.settled()
	d.ended("public.c", "meanwhile", "done")
	d.CaughtUp(soon)
	if now := d.reads(); now["b"] != before["b"] || now["c"] != before["c"]+301 {
		d.t.Errorf("rows read %v at the end, %v before", now, before)
	}
}
