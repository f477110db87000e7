//go:build linux || darwin

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/embeddedpg"
)

// TestMain makes the test binary a connectctl: the demo runs as a child of the test, and the demo's own
// children are the same binary. Its worker does nothing, unless the test names a real one.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != "demo" && os.Args[1] != "run" {
		os.Exit(m.Run())
	}
	var err error
	switch args := os.Args[1:]; {
	case args[0] == "run":
		time.Sleep(time.Hour)
	case args[1] == PostgresChild:
		err = embeddedpg.Child(os.Stdin)
	case args[1] == ReaperChild:
		err = Reap(os.Stdin, args[2])
	default:
		os.Exit(runAsMain(args[1:]))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runAsMain is what main does with signals and exit codes.
func runAsMain(args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	code := 1
	go func() {
		code = 128 + int((<-signals).(syscall.Signal))
		cancel()
	}()
	opt := Options{Cache: args[0], Out: os.Stdout, Err: os.Stderr}
	opt.passing = func(place string) {
		if place == os.Getenv("TEST_PANIC_AT") {
			panic("at " + place)
		}
	}
	err := Run(ctx, opt)
	switch {
	case errors.Is(err, context.Canceled):
		return code
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a demo that runs as a child, and what it says.
type process struct {
	cmd   *exec.Cmd
	lines chan string
	cache string
}

// start runs a demo whose worker publishes nothing, so that it waits for the first record until told otherwise.
func start(t *testing.T, cache string, env ...string) *process {
	t.Helper()
	if os.Getenv("TIDEMARK_TEST_DEMO") == "" {
		t.Skip("TIDEMARK_TEST_DEMO=1 is not set: it starts PostgreSQL, which is fetched once")
	}
	p := &process{cmd: exec.Command(os.Args[0], "demo", cache), lines: make(chan string, 1000), cache: cache}
	p.cmd.Env = append(os.Environ(), env...)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		b, buf := make([]byte, 4096), ""
		for {
			n, err := out.Read(b)
			buf += string(b[:n])
			for i := strings.IndexByte(buf, '\n'); i >= 0; i = strings.IndexByte(buf, '\n') {
				p.lines <- buf[:i]
				buf = buf[i+1:]
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// until waits for a line with the text.
func (p *process) until(t *testing.T, text string) {
	t.Helper()
	for limit := time.After(90 * time.Second); ; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("it ended before it said %q", text)
			}
			t.Log(line)
			if strings.Contains(line, text) {
				return
			}
		case <-limit:
			t.Fatalf("it did not say %q", text)
		}
	}
}

// end waits for the exit code.
func (p *process) end(t *testing.T, limit time.Duration) int {
	t.Helper()
	timer := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	for line := range p.lines {
		t.Log(line)
	}
	err := p.cmd.Wait()
	if !timer.Stop() {
		t.Errorf("it took more than %s", limit)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

// nothingLeft waits until no run directory is there and no process names the cache folder.
func nothingLeft(t *testing.T, cache string, limit time.Duration) {
	t.Helper()
	var runs, processes []string
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		runs, _ = filepath.Glob(filepath.Join(cache, "demo", "runs", "run-*"))
		processes = naming(cache)
		if len(runs) == 0 && len(processes) == 0 {
			return
		}
	}
	t.Errorf("left behind: %v %v", runs, processes)
}

// naming lists the processes, other than this one, whose command line names a folder.
func naming(folder string) []string {
	out, err := exec.Command("ps", "-eo", "pid=,args=").Output()
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, folder) {
			found = append(found, line)
		}
	}
	return found
}

// cacheFolder is a folder of its own, that an unprivileged user may enter, with the programs of an earlier fetch.
func cacheFolder(t *testing.T) string {
	t.Helper()
	base := os.Getenv("TIDEMARK_TEST_CACHE")
	if base == "" {
		base = filepath.Join(os.TempDir(), "tidemark-demo-test")
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	return base
}

func TestSignalsLeaveNothing(t *testing.T) {
	cache := cacheFolder(t)
	for _, tc := range []struct {
		at  string
		sig syscall.Signal
	}{
		{"PostgreSQL", syscall.SIGINT},
		{"listens on", syscall.SIGTERM},
		{"the worker runs", syscall.SIGHUP},
		{"nothing committed", syscall.SIGINT},
	} {
		t.Run(tc.at+" "+tc.sig.String(), func(t *testing.T) {
			p := start(t, cache)
			p.until(t, tc.at)
			if err := p.cmd.Process.Signal(tc.sig); err != nil {
				t.Fatal(err)
			}
			if code := p.end(t, 10*time.Second); code != 128+int(tc.sig) {
				t.Errorf("exit code %d", code)
			}
			nothingLeft(t, cache, time.Second)
		})
	}
}

// A killed run cannot clean up; its reaper does.
func TestReaperClearsAKilledRun(t *testing.T) {
	cache := cacheFolder(t)
	p := start(t, cache)
	p.until(t, "the worker runs")
	_ = p.cmd.Process.Kill()
	p.end(t, 10*time.Second)
	nothingLeft(t, cache, 10*time.Second)
}

// Where the reaper was killed too, the next run clears up.
func TestNextRunClearsAKilledOne(t *testing.T) {
	cache := cacheFolder(t)
	p := start(t, cache)
	p.until(t, "the worker runs")
	for _, line := range naming(ReaperChild) {
		var pid int
		if _, err := fmt.Sscan(line, &pid); err == nil && strings.Contains(line, cache) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = p.cmd.Process.Kill()
	p.end(t, 10*time.Second)
	if len(naming(cache)) == 0 {
		t.Fatal("nothing was left behind, so there is nothing to clear up")
	}
	p = start(t, cache)
	p.until(t, "cleaned up after an earlier run")
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.end(t, 15*time.Second)
	nothingLeft(t, cache, time.Second)
}

// A panic ends as an error does: one sentence, exit code 1, nothing left. "status" is in a goroutine.
func TestPanicLeavesNothing(t *testing.T) {
	cache := cacheFolder(t)
	for _, place := range []string{"run directory", "worker", "status"} {
		p := start(t, cache, "TEST_PANIC_AT="+place)
		p.until(t, "the demo broke down: at "+place)
		if code := p.end(t, 10*time.Second); code != 1 {
			t.Errorf("exit code %d", code)
		}
		nothingLeft(t, cache, time.Second)
	}
}

func TestTwoRunsSideBySide(t *testing.T) {
	cache := cacheFolder(t)
	a, b := start(t, cache), start(t, cache)
	a.until(t, "the worker runs")
	b.until(t, "the worker runs")
	_ = a.cmd.Process.Signal(syscall.SIGINT)
	a.end(t, 10*time.Second)
	b.until(t, "nothing committed") // its servers are untouched
	_ = b.cmd.Process.Signal(syscall.SIGINT)
	b.end(t, 10*time.Second)
	nothingLeft(t, cache, time.Second)
}

// The programs are there from the first run: with no network at all a second one starts as well.
func TestSecondRunNeedsNoNetwork(t *testing.T) {
	cache := cacheFolder(t)
	p := start(t, cache)
	p.until(t, "the worker runs")
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	p.end(t, 10*time.Second)
	const dead = "http://127.0.0.1:1"
	p = start(t, cache, "HTTP_PROXY="+dead, "HTTPS_PROXY="+dead, "http_proxy="+dead, "https_proxy="+dead)
	p.until(t, "the worker runs")
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	p.end(t, 10*time.Second)
	nothingLeft(t, cache, time.Second)
}

// What a killed run made on servers that are gone is named, and keeps nobody from running.
func TestLeftoversOnLostServersAreNamed(t *testing.T) {
	cache := t.TempDir()
	dir := filepath.Join(cache, "demo", "runs", "run-1")
	l := leftovers{PostgresURL: "postgres://u:secret@127.0.0.1:1/db", Schema: "s1", Publication: "p1", Slots: []string{"a1", "a2"}}
	if err := errors.Join(os.MkdirAll(dir, 0o755), l.write(dir)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Reap(emptyFile(t), dir); err == nil {
		t.Error("the reaper took something away that it could not reach")
	}
	_ = Run(context.Background(), Options{Cache: cache, PostgresURL: "postgres://u:x@127.0.0.1:1/db", Out: &out, Err: &out})
	for _, name := range []string{"a1", "a2", "p1", "s1"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("%s is not named: %s", name, out.String())
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Error("the password is shown")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("the old run's directory is still there")
	}
}

func emptyFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestResultIsOneLine(t *testing.T) {
	b, err := json.Marshal(Result{SlotConfirmed: "0/1", Committed: "0/2", EventsPerSecond: 1.5})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"changes":0,"transactions":0,"lost":0,"duplicated":0,"order_violations":0,"distinct_positions_of_hot_row":0,"dedup_latest":0,"slot_confirmed_lsn":"0/1","committed_lsn":"0/2","events_per_second":1.5,"seconds":0}`
	if string(b) != want {
		t.Errorf("got %s", b)
	}
}

func TestVerdict(t *testing.T) {
	good := Result{HotPositions: 1, DedupLatest: 8000, SlotConfirmed: "0/1A", Committed: "0/1A"}
	if err := verdict(good); err != nil {
		t.Errorf("a right stream was refused: %v", err)
	}
	for name, spoil := range map[string]func(*Result){
		"lost": func(r *Result) { r.Lost = 1 }, "duplicated": func(r *Result) { r.Duplicated = 1 },
		"order": func(r *Result) { r.OrderViolations = 1 }, "hot row": func(r *Result) { r.HotPositions = 2 },
		"latest": func(r *Result) { r.DedupLatest = 7999 }, "slot ahead": func(r *Result) { r.SlotConfirmed = "0/1B" },
		"no slot": func(r *Result) { r.SlotConfirmed = "" },
	} {
		r := good
		spoil(&r)
		if !errors.Is(verdict(r), ErrNotProven) {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestBadInput(t *testing.T) {
	defer goleak.VerifyNone(t)
	for url, says := range map[string]string{
		"postgres://u:secret@h:port/db":                 "--postgres-url cannot be read",
		"postgres://u:secret@127.0.0.1:1/db":            "connect to PostgreSQL at 127.0.0.1 port 1",
		"postgres://u:se cret@127.0.0.1:1/db?sslmode=q": "--postgres-url cannot be read",
	} {
		err := Run(context.Background(), Options{Cache: t.TempDir(), PostgresURL: url, Out: io.Discard, Err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
