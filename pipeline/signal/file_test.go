package signal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inbox collects what a channel delivers, and what it logs.
type inbox struct {
	t      *testing.T
	mu     sync.Mutex
	ids    []string
	cursor string
	text   bytes.Buffer
}

func (b *inbox) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *inbox) log() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func (b *inbox) deliver(s Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ids, b.cursor = append(b.ids, s.ID), s.Cursor
}

func (b *inbox) expect(ids string) {
	b.t.Helper()
	b.until("signals "+ids, func() bool { return strings.Join(b.ids, " ") == ids })
}

func (b *inbox) logged(text string) {
	b.t.Helper()
	b.until("log "+text, func() bool { return strings.Contains(b.text.String(), text) })
}

func (b *inbox) until(what string, is func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		ok, has := is(), fmt.Sprint(b.ids, b.text.String())
		b.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("no %s, but %s", what, has)
		}
	}
}

func (b *inbox) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cursor
}

// run runs a channel until the test ends or stop is called.
func (b *inbox) run(ch Channel, cursor string) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ch.Run(ctx, cursor, b.deliver) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				b.t.Errorf("the channel ended with %v", err)
			}
		})
	}
	b.t.Cleanup(stop)
	return stop
}

func line(id string) string { return `{"id":"` + id + `","type":"pause-snapshot"}` }

const poll = 2 * time.Millisecond

func put(t *testing.T, path, content string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, path, content string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestFileLines: a file appears, grows, is replaced and truncated; each line is delivered once, in order, a half one when it is whole.
func TestFileLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signals")
	b := &inbox{t: t}
	b.run(NewFile(path, poll, b.log()), "")
	put(t, path, line("1")+"\n\n  "+line("2")+"\r\n"+line("3")[:10])
	b.expect("1 2")
	add(t, path, line("3")[10:]+"\nnonsense\n"+line("4")+"\n")
	b.expect("1 2 3 4")
	b.logged("line=5 reason=\"the signal is not a JSON object: invalid character 'o'")
	put(t, path, line("5")+"\n") // replaced by a shorter one
	b.expect("1 2 3 4 5")
	put(t, path, line("6")+"\n") // of the same length
	b.expect("1 2 3 4 5 6")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	add(t, path, line("7")) // without an end
	b.expect("1 2 3 4 5 6 7")
	add(t, path, "\n"+line("8")+"\n")
	b.expect("1 2 3 4 5 6 7 8")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	add(t, path, line("9")+"\n")
	b.expect("1 2 3 4 5 6 7 8 9")
}

// TestFileResumes: after a restart only lines after the cursor are delivered, and all lines of a file that is another one.
func TestFileResumes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signals")
	b := &inbox{t: t}
	put(t, path, line("1")+"\n"+line("2")+"\n")
	stop := b.run(NewFile(path, poll, b.log()), "")
	b.expect("1 2")
	stop()
	add(t, path, line("3")+"\n")
	next := &inbox{t: t}
	stop = next.run(NewFile(path, poll, next.log()), b.last())
	next.expect("3")
	stop()
	put(t, path, line("4")+"\n"+line("2")+"\n"+line("3")+"\n") // as long as before
	other := &inbox{t: t}
	other.run(NewFile(path, poll, other.log()), next.last())
	other.expect("4 2 3")
	for _, cursor := range []string{"x", "-1:ab", "7:", ":", "999999:00"} {
		again := &inbox{t: t}
		again.run(NewFile(path, poll, again.log()), cursor)
		again.expect("4 2 3")
	}
}

// TestPersistGoesOn: what keeps a channel from being read is said once, and reading goes on when it is over.
func TestPersistGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signals")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	b := &inbox{t: t}
	p := Persist(NewFile(path, poll, b.log()), b.log()).(*persistent)
	p.first, p.longest = time.Millisecond, 5*time.Second
	b.run(p, "")
	b.logged("is a directory")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, path, line("1")+"\n")
	b.expect("1")
	if n := strings.Count(b.text.String(), "is a directory"); n != 1 {
		t.Errorf("said %d times:\n%s", n, b.text.String())
	}
}

// TestFileIsNoPipe: a pipe in place of the file is said, instead of waiting in vain for who writes it.
func TestFileIsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signals")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	b := &inbox{t: t}
	p := Persist(NewFile(path, poll, b.log()), b.log()).(*persistent)
	p.first, p.longest = time.Millisecond, 5*time.Second
	b.run(p, "")
	b.logged("must be a regular file")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, path, line("1")+"\n")
	b.expect("1")
}

// TestFromRow: a row's columns are a signal of the channel of the table, or a sentence.
func TestFromRow(t *testing.T) {
	s, err := FromRow("2", TypeExecute, `{"data-collections":["a"]}`)
	if err != nil || s.ID != "2" || s.Channel != ChannelSource || s.Cursor != "" {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := FromRow("4", TypeStop, ""); err != nil {
		t.Error(err)
	}
	if _, err := FromRow("3", TypeExecute, `{`); err == nil || !strings.Contains(err.Error(), "the data of execute-snapshot is not a JSON object") {
		t.Error(err)
	}
}
