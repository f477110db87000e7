package embeddedpg

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// task is what the child is told on its standard input.
type task struct {
	Port       uint32
	Data       string // data directory, made by the child
	Runtime    string // emptied by the library
	Cache      string // where archives are kept
	Binaries   string // unpacked programs
	Password   string
	Offline    bool // the archive is there; ask no network
	Parameters map[string]string
}

// completeName marks unpacked programs as whole; the library takes half of them for all of them.
const completeName = ".complete"

// Child runs the library's calls: it reads its task from in and leaves a running server behind. The
// error is one sentence or the server's own output.
func Child(in io.Reader) error {
	var t task
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	complete := filepath.Join(t.Binaries, completeName)
	if _, err := os.Stat(complete); err != nil {
		// The parent holds the folder's lock: what lies around is of a run that was killed.
		half, _ := filepath.Glob(filepath.Join(t.Cache, "temp_*"))
		for _, path := range append(half, t.Binaries) {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("remove half of PostgreSQL's programs: %w", err)
			}
		}
	}
	c := embedded.DefaultConfig().Version(Version).Port(t.Port).
		Username(User).Password(t.Password).Database("postgres").
		Locale("C").Encoding("UTF8").
		CachePath(t.Cache).RuntimePath(t.Runtime).DataPath(t.Data).BinariesPath(t.Binaries).
		StartParameters(t.Parameters).StartTimeout(30 * time.Second).Logger(io.Discard)
	if t.Offline {
		c = c.BinaryRepositoryURL("http://127.0.0.1:1")
	}
	if err := embedded.NewDatabase(c).Start(); err != nil {
		return err
	}
	f, err := os.OpenFile(complete, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("mark PostgreSQL's programs as complete: %w", err)
	}
	return errors.Join(f.Close())
}
