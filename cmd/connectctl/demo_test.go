//go:build linux || darwin

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/shop"
)

// The whole demo, as its user runs it: real PostgreSQL, a worker killed inside the large transaction, and
// a judge that believes neither.
func TestDemo(t *testing.T) {
	if os.Getenv("TIDEMARK_TEST_DEMO") == "" {
		t.Skip("TIDEMARK_TEST_DEMO=1 is not set: the demo takes up to a minute and fetches PostgreSQL once")
	}
	binary := filepath.Join(t.TempDir(), "connectctl")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := os.Chmod(binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(os.TempDir(), "tidemark-demo-test") // kept: PostgreSQL is fetched once
	cmd := exec.Command(binary, "demo", "--json", "--cache", cache)
	var out, progress bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &progress
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("more than one line on standard output: %q", out.String())
	}
	var r demo.Result
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Lost+r.Duplicated+r.OrderViolations != 0 || r.HotPositions != 1 || r.DedupLatest != shop.HotUpdates {
		t.Errorf("got %+v", r)
	}
	if r.Changes < shop.BulkRows+shop.HotUpdates || r.Transactions < 100 || r.EventsPerSecond <= 0 || r.SlotConfirmed == "" || r.Committed == "" {
		t.Errorf("got %+v", r)
	}
	if !strings.Contains(progress.String(), "SIGKILL to the worker") {
		t.Error("the worker was not killed")
	}
	if runs, _ := filepath.Glob(filepath.Join(cache, "demo", "runs", "run-*")); len(runs) != 0 {
		t.Errorf("left behind: %v", runs)
	}
}
