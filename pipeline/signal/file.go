package signal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"
)

// maxFile is how large a file of signals may be: it is read whole where it has changed.
const maxFile = 64 << 20

// File is the channel of a file: a signal a line, as JSON. The file may be absent, appear, grow, be truncated and be replaced.
//
// The cursor says how many bytes were read and what they hash to. A file that begins with them is read on from there; another
// one from its start.
type File struct {
	path string
	poll time.Duration
	log  *slog.Logger
}

// NewFile returns the channel of the file at path, which is looked at every poll.
func NewFile(path string, poll time.Duration, log *slog.Logger) *File {
	return &File{path: path, poll: poll, log: log}
}

// Name returns the channel's name.
func (f *File) Name() string { return ChannelFile }

// Run reads the file until ctx ends or it is there and cannot be read.
func (f *File) Run(ctx context.Context, cursor string, deliver func(Signal)) error {
	r := fileReader{log: f.log, cursor: parseFileCursor(cursor)}
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	var before fs.FileInfo
	for {
		now, err := os.Stat(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			now = nil
		case err != nil:
			return fmt.Errorf("the signal file: %w", err)
		case now.IsDir():
			return fmt.Errorf("the signal file %s is a directory", f.path)
		case !now.Mode().IsRegular(): // opening a pipe would wait for who writes it
			return fmt.Errorf("the signal file %s is a pipe, a socket or a device; it must be a regular file", f.path)
		case now.Size() > maxFile:
			return fmt.Errorf("the signal file %s has %d bytes; at most %d are read: begin a new one", f.path, now.Size(), maxFile)
		}
		still := before != nil && now != nil && os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
		if now != nil && (!still || r.partial) {
			content, err := readFile(f.path)
			if err != nil {
				return fmt.Errorf("the signal file: %w", err)
			}
			r.read(content, still, deliver)
		}
		before = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// readFile reads at most what a file may have.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) { // just removed
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxFile))
}

// fileCursor is how much of which content was read.
type fileCursor struct {
	size int
	hash string
}

func parseFileCursor(s string) fileCursor {
	size, hash, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(size)
	if !ok || err != nil || n < 0 {
		return fileCursor{}
	}
	return fileCursor{n, hash}
}

func cursorOf(size int, h hash.Hash) fileCursor {
	return fileCursor{size, hex.EncodeToString(h.Sum(nil)[:12])}
}

func (c fileCursor) String() string { return strconv.Itoa(c.size) + ":" + c.hash }

// fileReader reads contents of a file one after the other.
type fileReader struct {
	log     *slog.Logger
	cursor  fileCursor
	partial bool // the last line has no end and may be one that is being written
}

// read delivers the lines after the cursor. A last line without an end counts once the content is still and it is a signal:
// somebody may be writing it.
func (r *fileReader) read(content []byte, still bool, deliver func(Signal)) {
	seen := sha256.New()
	from := min(r.cursor.size, len(content))
	_, _ = seen.Write(content[:from])
	if cursorOf(from, seen) != r.cursor {
		from = 0
		seen.Reset()
	}
	r.partial = false
	for from < len(content) {
		line, to := content[from:], len(content)
		end := bytes.IndexByte(line, '\n')
		if end >= 0 {
			line, to = line[:end], from+end+1
		}
		line = bytes.TrimSpace(line)
		s, err := ParseMessage(line, "")
		if end < 0 && (err != nil || !still) {
			r.partial = !still
			break
		}
		_, _ = seen.Write(content[from:to])
		r.cursor = cursorOf(to, seen)
		switch {
		case len(line) == 0:
		case err != nil:
			r.log.Warn("a line of the signal file is not a signal and was passed", "line", 1+bytes.Count(content[:from], []byte{'\n'}), "reason", err.Error())
		default:
			s.Channel, s.Cursor = ChannelFile, r.cursor.String()
			deliver(s)
		}
		from = to
	}
}
