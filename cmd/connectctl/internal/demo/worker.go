//go:build linux || darwin

package demo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/rundir"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/shop"
)

const (
	connectorName    = "shop"
	passwordVariable = "TIDEMARK_DEMO_PASSWORD" //nolint:gosec // a name, not a password
	groupSuffix      = "-worker"
)

// worker is the pipeline as a child process: `connectctl run`.
type worker struct {
	run     *rundir.Dir
	cmd     *exec.Cmd
	process rundir.Process
	ended   chan struct{}
	err     error // valid once ended is closed
}

// configure writes the two files that anybody would write to run the pipeline.
func configure(run *rundir.Dir, d *database, t *topics) error {
	include := make([]string, len(shop.Tables()))
	for i, name := range shop.Tables() {
		include[i] = d.shop.Schema + "\\." + name
	}
	files := map[string][][2]string{
		"worker.properties": {
			{"bootstrap.servers", strings.Join(t.seeds, ",")},
			{"group.id", t.prefix + groupSuffix},
			{"offset.storage.topic", t.offsets},
			{"offset.storage.replication.factor", "-1"},
			{"schema.registry.url", t.registry},
		},
		"connector.properties": {
			{"name", connectorName},
			{"connector.class", "postgres"},
			{"database.hostname", d.config.Host},
			{"database.port", strconv.Itoa(int(d.config.Port))},
			{"database.user", d.config.User},
			{"database.password", "${env:" + passwordVariable + "}"},
			{"database.dbname", d.config.Database},
			{"slot.name", d.slot},
			{"publication.name", d.publication},
			{"publication.autocreate.mode", "disabled"},
			{"table.include.list", strings.Join(include, ",")},
			{"snapshot.mode", "no_data"},
			{"heartbeat.interval.ms", "1000"},
			{"topic.prefix", t.prefix},
			{"topic.creation.default.partitions", "2"},
			{"topic.creation.default.replication.factor", "-1"},
		},
	}
	for name, value := range d.tls {
		files["connector.properties"] = append(files["connector.properties"], [2]string{"database." + name, value})
	}
	for name, lines := range files {
		var b bytes.Buffer
		for _, kv := range lines {
			fmt.Fprintf(&b, "%s=%s\n", kv[0], strings.ReplaceAll(kv[1], `\`, `\\`))
		}
		if err := os.WriteFile(run.Join(name), b.Bytes(), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// self is a path under which our own program can be run, even if its file was replaced meanwhile.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find our own program: %w", err)
	}
	return path, nil
}

// startWorker runs the pipeline; what it writes goes to worker.log in the run directory.
func startWorker(run *rundir.Dir, d *database) (*worker, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(run.Join("worker.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the worker's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(path, "run", run.Join("worker.properties"), run.Join("connector.properties"))
	cmd.Args[0] = "connectctl"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), passwordVariable+"="+d.config.Password)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we stop it
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	w := &worker{run: run, cmd: cmd, ended: make(chan struct{})}
	if w.process, err = rundir.Identify(cmd.Process.Pid, "connectctl"); err == nil {
		err = run.Record(w.process)
	}
	go func() {
		defer close(w.ended)
		w.err = cmd.Wait()
	}()
	if err != nil {
		return nil, errors.Join(err, w.kill())
	}
	return w, nil
}

// kill ends the worker as a power cut would end it, and waits until it is gone.
func (w *worker) kill() error {
	_ = w.cmd.Process.Kill() // an error says that it is gone already
	select {
	case <-w.ended:
		return nil
	case <-time.After(5 * time.Second):
		return fmt.Errorf("the worker (pid %d) does not die", w.process.PID)
	}
}

// stop asks it to end, and insists after the given time.
func (w *worker) stop(patience time.Duration) error {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-w.ended:
		return nil
	case <-time.After(patience):
		return w.kill()
	}
}

// reason is what the worker said last about why it waits; empty where it never did.
func reason(run *rundir.Dir) string {
	text, _ := os.ReadFile(run.Join("worker.log"))
	lines := strings.Split(string(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if _, quoted, ok := strings.Cut(lines[i], " reason="); ok {
			if text, err := strconv.Unquote(quoted); err == nil {
				return text
			}
			return quoted
		}
		if strings.Contains(lines[i], "state=RUNNING") {
			return ""
		}
	}
	return ""
}

// failure says why the worker ended by itself: the last sentence it wrote.
func (w *worker) failure() error {
	text, _ := os.ReadFile(w.run.Join("worker.log"))
	lines := strings.Split(string(text), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if sentence, ok := strings.CutPrefix(lines[i], "connectctl: "); ok {
			return fmt.Errorf("the worker ended by itself: %s", sentence)
		}
	}
	if w.err == nil {
		return fmt.Errorf("the worker (pid %d) ended by itself", w.process.PID)
	}
	return fmt.Errorf("the worker (pid %d) ended by itself: %w", w.process.PID, w.err)
}
