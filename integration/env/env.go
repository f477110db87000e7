package env

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env/port"
)

// Variable names the run to join: the path of its env.json.
const Variable = "TIDEMARK_ENV"

const (
	host         = "127.0.0.1"
	startTimeout = 10 * time.Minute // of one server, its first download included
)

// Options of a run. The zero value is what tests want.
type Options struct {
	// TempDir is the folder the run's own folder is made in; os.TempDir when empty. Every user must be able to enter it.
	TempDir string
	// Alone starts a run of its own even where Variable names one to join.
	Alone bool
}

// Env is one run: a folder with servers in it. Its methods may be called from any goroutine.
type Env struct {
	dir   string
	owner *reaper // nil where the run is another process's
	ports func() (int, error)
}

type envFile struct {
	Dir string `json:"dir"`
}

// Start joins the run Variable names, or begins one. It starts no server yet. Whatever this machine lacks is listed in
// one error. The caller closes the run.
func Start(ctx context.Context, o Options) (*Env, error) {
	if file := os.Getenv(Variable); file != "" && !o.Alone {
		return join(file)
	}
	parent := o.TempDir
	if parent == "" {
		parent = os.TempDir()
	}
	dir, lock, err := newRunDir(ctx, parent)
	if err != nil {
		return nil, err
	}
	e := &Env{dir: dir, ports: port.Free}
	if e.owner, err = startReaper(dir, lock); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if _, err := e.script(ctx, "check.sh", nil); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func join(file string) (*Env, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("join the servers of %s: %w (unset it to start others)", Variable, err)
	}
	var f envFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("join the servers of %s: %s: %w", Variable, file, err)
	}
	return &Env{dir: f.Dir, ports: port.Free}, nil
}

// Dir is the run's folder; each server's folder with its log is below.
func (e *Env) Dir() string { return e.dir }

// File is the path to give other processes in Variable, so that they join.
func (e *Env) File() string { return filepath.Join(e.dir, "env.json") }

// Fetch fills the cache with everything Start, the servers and the clients may need, so that they need no network afterwards.
func (e *Env) Fetch(ctx context.Context) error {
	for _, major := range Majors() {
		if _, err := e.script(ctx, "setup-postgres.sh", []string{fmt.Sprintf("VERSION=%d", major)}, "fetch"); err != nil {
			return err
		}
	}
	for _, name := range []string{"setup-kafka.sh", "setup-registry.sh", "setup-python.sh", "setup-java.sh"} {
		if _, err := e.script(ctx, name, nil, "fetch"); err != nil {
			return err
		}
	}
	return nil
}

// Close stops all servers of the run and removes its folder, if this process began it; a joined run is left as it is.
func (e *Env) Close() error {
	if e.owner == nil {
		return nil
	}
	return e.owner.close()
}

// shared fills state with what runs as name: read from the run's folder, or made by start, which fills it too. Across
// processes only one starts it.
func (e *Env) shared(ctx context.Context, name string, state any, start func() error) error {
	unlock, err := lockFile(ctx, filepath.Join(e.dir, name+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	file := filepath.Join(e.dir, name+".json")
	b, err := os.ReadFile(file)
	if err == nil {
		return json.Unmarshal(b, state)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := start(); err != nil {
		return err
	}
	return writeJSON(file, state)
}

func writeJSON(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".part", b, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

// lockFile takes an exclusive lock on file, creating it; it is freed when the process ends at the latest.
func lockFile(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for %s: %w", file, ctx.Err()), f.Close())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
}

// Unique returns prefix with a random suffix of eight hex digits: a name no other test of the run has.
func Unique(prefix string) string {
	b := make([]byte, 4)
	_, _ = rand.Read(b) // never fails
	return prefix + hex.EncodeToString(b)
}

// waitFor polls ok until it holds.
func waitFor(ctx context.Context, what string, ok func() bool) error {
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}
