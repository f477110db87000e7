package embedded

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const (
	journalName   = "registry.jsonl"
	journalFormat = "tidemark-registry"
	// journalVersion is raised when old code could no longer read new journals.
	journalVersion = 1
)

// Ops of an event.
const (
	opRegister = "register"
	opDelete   = "delete"
	opLevel    = "level"
	opMode     = "mode"
)

// event is one line of the journal (JSON Lines, UTF-8, one object per line, LF).
// The first line is {"format":"tidemark-registry","version":1}.
type event struct {
	Op string `json:"op"`
	// Subject is empty where a level or a mode is the registry's.
	Subject string `json:"subject,omitempty"`
	// Version and ID of a registered schema. Schema is set where ID is new.
	Version int    `json:"version,omitempty"`
	ID      int    `json:"id,omitempty"`
	Schema  string `json:"schema,omitempty"`
	// Versions that a delete removes; Permanent forgets them.
	Versions  []int `json:"versions,omitempty"`
	Permanent bool  `json:"permanent,omitempty"`
	// Value is a level or a mode; empty takes the subject's own away.
	Value string `json:"value,omitempty"`
}

type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// journal is the file that every change is appended to and synced. A failed
// write is cut off again; where that fails too it takes no more.
type journal struct {
	f      *os.File
	size   int64
	broken error
}

// openJournal replays dir's journal into apply, cuts a torn tail (a write that
// was never answered) and is then ready to append.
func openJournal(dir string, apply func(event) error) (*journal, error) {
	path := filepath.Join(dir, journalName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open journal of the embedded schema registry: %w", err)
	}
	j := &journal{f: f}
	if err := j.load(path, apply); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := j.start(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare journal %s: %w", path, err), f.Close())
	}
	return j, nil
}

// load leaves j.size at the end of the last whole line.
func (j *journal) load(path string, apply func(event) error) error {
	br := bufio.NewReaderSize(j.f, 1<<16)
	for line := 1; ; line++ {
		raw, err := br.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // raw is empty or torn
		}
		if err != nil {
			return fmt.Errorf("read journal %s: %w", path, err)
		}
		if err := replay(raw, line == 1, apply); err != nil {
			// A tail of unwritten blocks reads as zeros after a power cut; a
			// bad line with more behind it is damage that nobody may guess over.
			if _, err := br.Peek(1); errors.Is(err, io.EOF) && len(bytes.Trim(raw, "\x00\n")) == 0 {
				return nil
			}
			return fmt.Errorf("journal %s is damaged in line %d (%w): restore it from a backup, or move it away, which loses all schema ids", path, line, err)
		}
		j.size += int64(len(raw))
	}
}

func replay(raw []byte, first bool, apply func(event) error) error {
	if first {
		var h header
		if err := json.Unmarshal(raw, &h); err != nil || h.Format != journalFormat {
			return errors.New("it is not a journal of the embedded schema registry")
		}
		if h.Version != journalVersion {
			return fmt.Errorf("its format version %d is not the %d this program reads", h.Version, journalVersion)
		}
		return nil
	}
	var e event
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	return apply(e)
}

// start cuts what load did not accept and writes the header of a new file.
func (j *journal) start(dir string) error {
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	if j.size > 0 {
		return j.f.Sync()
	}
	if err := j.write(header{Format: journalFormat, Version: journalVersion}); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (j *journal) append(events []event) error {
	values := make([]any, len(events))
	for i, e := range events {
		values[i] = e
	}
	return j.write(values...)
}

func (j *journal) write(values ...any) error {
	if j.broken != nil {
		return fmt.Errorf("journal takes no more changes until a restart, after: %w", j.broken)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	for _, v := range values {
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("encode journal line: %w", err)
		}
	}
	if _, err := j.f.WriteAt(buf.Bytes(), j.size); err != nil {
		if cut := j.f.Truncate(j.size); cut != nil {
			j.broken = err
		}
		return fmt.Errorf("write journal: %w", err)
	}
	if err := j.f.Sync(); err != nil {
		// After a failed sync the kernel may have dropped the pages: what is on
		// disk is known only after reading it again.
		j.broken = err
		return fmt.Errorf("sync journal: %w", err)
	}
	j.size += int64(buf.Len())
	return nil
}

func (j *journal) close() error {
	j.broken = os.ErrClosed
	return j.f.Close()
}
