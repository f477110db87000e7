// Package docs keeps the pages below docs/ true: tests beside the code hand it what the code says, and it compares that
// with the part of a page between two comments.
//
//	<!-- begin NAME -->
//	…
//	<!-- end NAME -->
//
// go test ./the/package -update-docs writes those parts anew.
package docs

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update-docs", false, "write the generated parts of the pages below docs/ anew")

// Root returns the repository's folder.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test's folder")
		}
	}
}

// Page returns the text of a page, named from the repository's folder.
func Page(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Section compares the named part of a page with want, or writes it with -update-docs.
func Section(t testing.TB, page, name, want string) {
	t.Helper()
	text := Page(t, page)
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	head, rest, ok := strings.Cut(text, begin)
	got, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no part between %q and %q", page, strings.TrimSpace(begin), end)
	}
	want = strings.TrimRight(want, "\n") + "\n"
	if got == want {
		return
	}
	if *update {
		path := filepath.Join(Root(t), filepath.FromSlash(page))
		if err := os.WriteFile(path, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		is, should := line(g, i), line(w, i)
		if is != should {
			t.Errorf("%s, part %s, line %d: the page says\n  %s\nthe code\n  %s\nwrite it anew with -update-docs", page, name, i+1, is, should)
			return
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

// Cell makes text fit into a cell of a table.
func Cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}
