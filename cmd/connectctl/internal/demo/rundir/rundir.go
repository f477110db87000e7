//go:build linux || darwin

package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

const (
	prefix      = "run-"
	lockName    = "lock"
	recordsName = "processes"
	// maxSocketPath is the longest path a Unix socket can have, in bytes, on every system.
	maxSocketPath = 103
)

// Dir is the directory of one run. Its lock is held until Remove or the end of the process.
type Dir struct {
	Path string
	lock *os.File

	mu sync.Mutex // guards the records file
}

// Cache is the folder where runs and fetched programs live: the caller's choice, else
// /var/cache/tidemark for root (another user must be able to enter it), else tidemark in the user's cache folder.
func Cache(chosen string) (string, error) {
	if chosen != "" {
		return filepath.Abs(chosen)
	}
	if os.Geteuid() == 0 {
		return "/var/cache/tidemark", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder (%w): name one with --cache", err)
	}
	return filepath.Join(dir, "tidemark"), nil
}

// Create makes and locks a new directory below runs, which is made too.
func Create(runs string) (*Dir, error) {
	if err := os.MkdirAll(runs, 0o755); err != nil { //nolint:gosec // the folder is the caller's choice
		return nil, fmt.Errorf("make the demo's folder: %w: name another with --cache", err)
	}
	// A sweep must not take a directory between its creation and its lock.
	guard, err := flock(filepath.Join(runs, lockName), true)
	if err != nil {
		return nil, fmt.Errorf("lock the demo's folder: %w", err)
	}
	defer guard.Close()
	path, err := os.MkdirTemp(runs, prefix)
	if err != nil {
		return nil, fmt.Errorf("make a run directory: %w", err)
	}
	// Others may pass through to reach what belongs to them; they may not list.
	if err := os.Chmod(path, 0o711); err != nil { //nolint:gosec // as above
		return nil, fmt.Errorf("make a run directory: %w", err)
	}
	lock, err := flock(filepath.Join(path, lockName), false)
	if err != nil {
		return nil, fmt.Errorf("lock run directory %s: %w", path, err)
	}
	return &Dir{Path: path, lock: lock}, nil
}

// Join returns a path within the directory.
func (d *Dir) Join(elem ...string) string {
	return filepath.Join(append([]string{d.Path}, elem...)...)
}

// Remove deletes the directory, then gives up its lock. Stop everything that runs in it first.
func (d *Dir) Remove() error {
	err := removeAll(d.Path)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("remove run directory: %w", err)
	}
	return nil
}

// removeAll tries again: a process that was just stopped may write its last file meanwhile.
func removeAll(path string) error {
	var err error
	for range 3 {
		if err = os.RemoveAll(path); err == nil {
			return nil
		}
	}
	return err
}

// CheckSocket refuses a socket path that the kernel would cut off.
func CheckSocket(path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf("the socket path %s is %d bytes long and may have %d: name a folder with a shorter path with --cache", path, len(path), maxSocketPath)
	}
	return nil
}

// CheckSpace refuses to start where the file system of dir has less than need bytes left.
func CheckSpace(dir string, need uint64) error {
	for {
		var fs syscall.Statfs_t
		err := syscall.Statfs(dir, &fs)
		if errors.Is(err, syscall.ENOENT) && filepath.Dir(dir) != dir {
			dir = filepath.Dir(dir)
			continue
		}
		if err != nil {
			return fmt.Errorf("read the free space of %s: %w", dir, err)
		}
		if free := fs.Bavail * uint64(fs.Bsize); free < need {
			return fmt.Errorf("%s has %d MiB free and the demo needs %d MiB: make room, or name a folder elsewhere with --cache", dir, free>>20, need>>20)
		}
		return nil
	}
}

// CheckReachable makes sure that another user can enter dir: every folder above it must allow it.
func CheckReachable(dir string) error {
	for p := dir; ; p = filepath.Dir(p) {
		st, err := os.Stat(p)
		if err != nil {
			return fmt.Errorf("look at %s: %w", p, err)
		}
		if st.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("PostgreSQL runs as an unprivileged user, which may not enter %s (mode %04o): name another folder with --cache, or use --postgres-url", p, st.Mode().Perm())
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

// CheckCharacters refuses paths that the shell pg_ctl uses, or a list of socket directories, would read otherwise.
func CheckCharacters(dir string) error {
	if i := strings.IndexAny(dir, "\"$`\\,'\n"); i >= 0 {
		return fmt.Errorf("the folder %q has the character %q in its name, which PostgreSQL's start cannot take: name another with --cache", dir, dir[i])
	}
	return nil
}

// Lock takes an exclusive lock on a file, waiting for other processes. Close it to give it up.
func Lock(path string) (*os.File, error) { return flock(path, true) }

var errLocked = errors.New("locked by another process")

func flock(path string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	return nil, errors.Join(err, f.Close())
}
