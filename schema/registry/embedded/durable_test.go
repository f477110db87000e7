package embedded

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const childVariable = "TIDEMARK_EMBEDDED_REGISTRY_CHILD"

func childDir() string { return os.Getenv(childVariable) }

// runChild registers schemas until it is killed, and prints each answered id.
func runChild(dir string) {
	r, err := Open(dir, Options{})
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(3)
	}
	for n := range 100_000 {
		body, _ := json.Marshal(map[string]string{"schema": numbered(n)})
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, fmt.Sprintf("/subjects/s%d/versions", n), bytes.NewReader(body)))
		var out struct{ ID int }
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.ID == 0 {
			fmt.Println("answered:", w.Body)
			os.Exit(3)
		}
		fmt.Println(out.ID)
	}
}

// child is a process of its own on dir; it is killed at the latest after 30 s.
func child(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	return cmd
}

func TestKilledProcessKeepsAnsweredIDs(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ids []int
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		id, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Errorf("child said %q", lines.Text())
			break
		}
		if ids = append(ids, id); len(ids) == 40 {
			break
		}
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by another process (pid %d)", cmd.Process.Pid)) {
		t.Errorf("second process: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // answered between our break and the kill
		if id, err := strconv.Atoi(lines.Text()); err == nil {
			ids = append(ids, id)
		}
	}
	_ = cmd.Wait()
	if len(ids) < 40 {
		t.Fatalf("child gave %d ids", len(ids))
	}
	r := open(t, dir)
	for n, id := range ids {
		if got := register(t, r, fmt.Sprintf("s%d", n), numbered(n)); got != id {
			t.Fatalf("schema %d had id %d before the kill and %d after", n, id, got)
		}
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := Open(dir, Options{}); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "choose another directory") {
		t.Errorf("second open: %v", err)
	}
	out, err := child(t, dir).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("in use by another process")) {
		t.Errorf("second process: %v, %s", err, out)
	}
}

func journalBytes(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// filled makes a journal of n schemas and returns its bytes.
func filled(t *testing.T, n int) []byte {
	t.Helper()
	dir := t.TempDir()
	r, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		register(t, r, "s", numbered(i))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return journalBytes(t, dir)
}

func dirWith(t *testing.T, journal []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, journalName), journal, 0o640); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A journal cut at any byte holds exactly the schemas of its whole lines, and
// takes new ones, which then survive.
func TestTornTailAnywhere(t *testing.T) {
	full := filled(t, 3)
	for cut := 0; cut <= len(full); cut++ {
		dir := dirWith(t, full[:cut])
		r, err := Open(dir, Options{})
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		whole := max(bytes.Count(full[:cut], []byte("\n"))-1, 0) // without the header
		if got := len(r.state.byID); got != whole {
			t.Fatalf("cut at %d: %d schemas, want %d", cut, got, whole)
		}
		id := register(t, r, "t", `"int"`)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if r, err = Open(dir, Options{}); err != nil {
			t.Fatalf("cut at %d, opened again: %v", cut, err)
		}
		if again := register(t, r, "t", `"int"`); again != id || len(r.state.byID) != whole+1 {
			t.Fatalf("cut at %d: id %d became %d", cut, id, again)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnwrittenBlocksAtTheTail(t *testing.T) {
	for _, tail := range []string{strings.Repeat("\x00", 4096), strings.Repeat("\x00", 100) + "\n"} {
		r := open(t, dirWith(t, append(filled(t, 2), tail...)))
		if len(r.state.byID) != 2 {
			t.Errorf("%d schemas", len(r.state.byID))
		}
	}
}

func TestDamageIsNotGuessedOver(t *testing.T) {
	full := filled(t, 3)
	lines := bytes.SplitAfter(full, []byte("\n"))
	for name, journal := range map[string][]byte{
		"line in the middle": bytes.Join([][]byte{lines[0], []byte("{\"op\n"), lines[2], lines[3]}, nil),
		"missing line":       bytes.Join([][]byte{lines[0], lines[2], lines[1]}, nil),
		"unknown operation":  append(bytes.Clone(full), "{\"op\":\"merge\"}\n"...),
		"unusable schema":    append(bytes.Clone(full), `{"op":"register","subject":"x","version":1,"id":99,"schema":"{"}`+"\n"...),
		"other file":         []byte("hello\n"),
		"newer format":       []byte(`{"format":"tidemark-registry","version":2}` + "\n"),
	} {
		dir := dirWith(t, journal)
		_, err := Open(dir, Options{})
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(journalBytes(t, dir), journal) {
			t.Errorf("%s: the refused journal was changed", name)
		}
	}
}

// What could not be written was not answered, is not shown, and takes no id.
func TestFailedWriteIsNotVisible(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	register(t, r, "s", numbered(1))
	good := r.journal.f
	bad, err := os.Open(filepath.Join(dir, journalName)) // read only: writes fail
	if err != nil {
		t.Fatal(err)
	}
	r.journal.f = bad
	play(t, r, []step{
		{"POST /subjects/s/versions", schemaBody(t, numbered(2)), 500, "~50001"},
		{"PUT /config", `{"compatibility":"NONE"}`, 500, "~50001"},
		{"DELETE /subjects/s", "", 500, "~50001"},
		{"GET /subjects/s/versions", "", 200, `[1]`},
		{"GET /config", "", 200, `{"compatibilityLevel":"BACKWARD"}`},
		{"GET /schemas/ids/2", "", 404, "~40403"},
	})
	r.journal.f = good
	if err := bad.Close(); err != nil {
		t.Fatal(err)
	}
	if status, body := call(t, r, "POST /subjects/s/versions", schemaBody(t, numbered(2))); status != 500 || !strings.Contains(body, "until a restart") {
		t.Errorf("a journal whose failed write could not be cut took another: %d %s", status, body)
	}
}

func TestConcurrentRegistrationsShareIDs(t *testing.T) {
	r := open(t, t.TempDir())
	const writers, schemas = 8, 10
	ids := make([][schemas]int, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range schemas {
				ids[w][n] = register(t, r, fmt.Sprintf("s%d", w%2), numbered(n))
			}
		})
	}
	wg.Wait()
	seen := map[int]bool{}
	for w := range writers {
		if ids[w] != ids[0] {
			t.Errorf("writer %d got %v, writer 0 %v", w, ids[w], ids[0])
		}
	}
	for _, id := range ids[0] {
		seen[id] = true
	}
	if len(seen) != schemas {
		t.Errorf("%d ids for %d schemas", len(seen), schemas)
	}
}

func TestIdentity(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{`{"type":"fixed","name":"F","size":2}`, "{ \"size\":2,\n\"name\":\"F\", \"type\":\"fixed\" }", true},
		{`{"type":"int","doc":"<a>"}`, `{"type":"int","doc":"\u003ca\u003e"}`, true},
		{`{"type":"int"}`, `{"type":"int","doc":"x"}`, false},
		{`{"type":"int","x":9007199254740993}`, `{"type":"int","x":9007199254740992}`, false},
		{`["null","int"]`, `["int","null"]`, false},
	} {
		if same := identity(tc.a) == identity(tc.b); same != tc.same {
			t.Errorf("%s and %s are the same: %t, want %t", tc.a, tc.b, same, tc.same)
		}
	}
}
