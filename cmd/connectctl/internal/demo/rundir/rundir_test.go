//go:build linux || darwin

package rundir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be a process of a run: `run PATH` sleeps, as a worker would, and
// `owner RUNS` holds a run and starts such a child.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "run" {
		time.Sleep(time.Hour)
	}
	if len(os.Args) > 2 && os.Args[1] == "owner" {
		owner(os.Args[2])
	}
	os.Exit(m.Run())
}

// owner makes a run with one recorded and one unrecorded child, says where, and waits to be killed.
func owner(runs string) {
	d, err := Create(runs)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, record := range []bool{true, false} {
		c := exec.Command(os.Args[0], "run", d.Join("worker.properties"))
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		p, err := Identify(c.Process.Pid, "worker")
		if err == nil && record {
			err = d.Record(p)
		}
		fmt.Println(d.Path, c.Process.Pid, err)
	}
	time.Sleep(time.Hour)
}

func sleeper(t *testing.T, arg string) Process {
	t.Helper()
	c := exec.Command(os.Args[0], "run", arg)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	p, err := Identify(c.Process.Pid, "worker")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Process.Wait() }()
	return p
}

func TestSweepStopsAKilledRunAndSparesALivingOne(t *testing.T) {
	runs := t.TempDir()
	c := exec.Command(os.Args[0], "owner", runs)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var path, said string
	var children []Process
	for range 2 {
		var pid int
		if _, err := fmt.Fscan(out, &path, &pid, &said); err != nil || said != "<nil>" {
			t.Fatal(err, said)
		}
		p, err := Identify(pid, "worker")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Signal(syscall.SIGKILL) })
		children = append(children, p)
	}
	if swept, err := Sweep(runs, nil); err != nil || len(swept) != 0 || !children[0].Alive() {
		t.Fatalf("a living run was swept: %v %v", swept, err)
	}
	if err := errors.Join(c.Process.Kill(), func() error { _ = c.Wait(); return nil }()); err != nil {
		t.Fatal(err)
	}
	called := ""
	swept, err := Sweep(runs, func(path string) error {
		called = path
		for _, p := range children {
			if p.Alive() {
				t.Errorf("process %d still runs when the run is taken apart", p.PID)
			}
		}
		return nil
	})
	if err != nil || len(swept) != 1 || swept[0].Path != path || called != path {
		t.Fatalf("got %v %v", swept, err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is still there", path)
	}
	if swept, err := Sweep(runs, nil); err != nil || len(swept) != 0 {
		t.Errorf("swept again: %v %v", swept, err)
	}
}

// A pid is reused: a record whose start time is another's must not get that process killed.
func TestAReusedPIDIsNotKilled(t *testing.T) {
	runs := t.TempDir()
	d, err := Create(runs)
	if err != nil {
		t.Fatal(err)
	}
	stranger := sleeper(t, "/elsewhere/file")
	old := stranger
	old.Start = "1"
	if err := errors.Join(d.Record(old), os.WriteFile(d.Join("x"), nil, 0o600), d.lock.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Sweep(runs, nil); err != nil {
		t.Fatal(err)
	}
	if !stranger.Alive() {
		t.Error("a process that only has the same pid was killed")
	}
	if old.Alive() {
		t.Error("a process with another start time counts as alive")
	}
}

// A process that only has a file of the run open is not part of it.
func TestBystandersAreSpared(t *testing.T) {
	d, err := Create(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("tail", "-f", d.Join(lockName))
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	if stopped, err := StopAll(d.Path); err != nil || len(stopped) != 0 {
		t.Errorf("stopped %v %v", stopped, err)
	}
}

func TestStopInsists(t *testing.T) {
	p := sleeper(t, "x")
	if err := p.Stop(300*time.Millisecond, syscall.SIGCONT); err != nil || p.Alive() {
		t.Errorf("%v, alive %t", err, p.Alive())
	}
	if !p.Wait(0) {
		t.Error("Wait says that a dead process lives")
	}
}

func TestRecordsSurviveATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "processes")
	if err := os.WriteFile(path, []byte("12\t345\tpostgres\n1\t2\tinit\nx\ty\tz\n13\t\tnone\n14\t3"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := recorded(path)
	if len(got) != 1 || got[0] != (Process{12, "345", "postgres"}) {
		t.Errorf("got %v", got)
	}
}

func TestRunsHaveDirectoriesOfTheirOwn(t *testing.T) {
	runs := t.TempDir()
	a, err := Create(runs)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Create(runs)
	if err != nil {
		t.Fatal(err)
	}
	if a.Path == b.Path {
		t.Fatal("two runs share a directory")
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.Path); !os.IsNotExist(err) {
		t.Error("a removed run is still there")
	}
	if _, err := os.Stat(b.Path); err != nil {
		t.Error("the other run is gone")
	}
	if err := b.Remove(); err != nil {
		t.Fatal(err)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for says, err := range map[string]error{
		"MiB free and the demo needs": CheckSpace(filepath.Join(dir, "not", "yet", "there"), 1<<62),
		"bytes long and may have 103": CheckSocket("/" + strings.Repeat("x", 110)),
		"the character '$'":           CheckCharacters("/a$b"),
		closed + " (mode 0700)":       CheckReachable(filepath.Join(closed, "in")),
		"name another with --cache":   func() error { _, err := Create("/dev/null/x"); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, says)
		}
	}
	if err := errors.Join(CheckSpace(dir, 1), CheckSocket("/tmp/s"), CheckCharacters("/tmp/a b-c_d"), CheckReachable("/")); err != nil {
		t.Error(err)
	}
}

func TestPostmasterPID(t *testing.T) {
	dir := t.TempDir()
	for content, want := range map[string]int{"4711\n/data\n": 4711, "4711": 4711, "": 0, "x\n": 0, "1\n": 0, "-5\n": 0} {
		if err := os.WriteFile(filepath.Join(dir, "postmaster.pid"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := PostmasterPID(dir); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d %v", content, got, err)
		}
	}
}
