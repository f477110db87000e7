package env

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

//go:embed *.sh broker/pom.xml clients peer/*/pom.xml
var scripts embed.FS

// closeTimeout bounds how long the reaper may take to stop every server of a run.
const closeTimeout = 30 * time.Second

func runPattern() string { return fmt.Sprintf("tidemark-env-%d-", os.Getuid()) }

// newRunDir makes the folder of a run, locked for as long as the file returned, or a copy of it in a child, is open.
// Folders whose lock is free are leftovers; they are swept first.
func newRunDir(ctx context.Context, parent string) (dir string, lock *os.File, err error) {
	if err := sweepStale(ctx, parent); err != nil {
		return "", nil, err
	}
	for range 5 {
		if dir, err = os.MkdirTemp(parent, runPattern()); err != nil {
			return "", nil, fmt.Errorf("make a folder for the servers: %w", err)
		}
		if err = fill(dir); err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
		if err == nil && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			if _, err = os.Stat(lock.Name()); err == nil {
				return dir, lock, nil
			}
		}
		// Another run took the folder for a leftover between its making and its lock, and sweeps it.
		if lock != nil {
			_ = lock.Close()
		}
	}
	return "", nil, fmt.Errorf("make a folder for the servers in %s: %w", parent, err)
}

// fill writes the scripts and env.json; servers run as another user where the caller is root, so everybody may look.
func fill(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	err := fs.WalkDir(scripts, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := scripts.ReadFile(path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, "scripts", path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o755)
	})
	if err != nil {
		return fmt.Errorf("write the scripts of the servers: %w", err)
	}
	return writeJSON(filepath.Join(dir, "env.json"), envFile{Dir: dir})
}

func sweepStale(ctx context.Context, parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, runPattern()+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := sweepIfStale(ctx, dir); err != nil {
			return fmt.Errorf("clean up after a killed run: %w", err)
		}
	}
	return nil
}

func sweepIfStale(ctx context.Context, dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return nil //nolint:nilerr // gone, or not yet a run's
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil
	}
	script, err := scripts.ReadFile("sweep.sh")
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "bash", "-c", string(script), "sweep.sh", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// reaper is a process that outlives this one by as long as it takes to stop the run's servers.
type reaper struct {
	cmd  *exec.Cmd
	hold *os.File // the end of the pipe whose closing, by close or by our death, sets the reaper off
	dir  string
}

// startReaper takes over lock: the reaper keeps it until the folder is gone.
func startReaper(dir string, lock *os.File) (*reaper, error) {
	defer lock.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command("bash", filepath.Join(dir, "scripts", "sweep.sh"), "--at-eof", dir)
	cmd.Stdin = r
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal's ^C is not for it
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the reaper: %w", err), w.Close())
	}
	return &reaper{cmd: cmd, hold: w, dir: dir}, nil
}

func (r *reaper) close() error {
	if r.hold == nil {
		return nil
	}
	_ = r.hold.Close()
	r.hold = nil
	kill := time.AfterFunc(closeTimeout, func() { _ = r.cmd.Process.Kill() })
	defer kill.Stop()
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("stop the servers of %s: %w", r.dir, err)
	}
	return nil
}
