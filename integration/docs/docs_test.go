package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fence   = regexp.MustCompile("(?s)```.*?```")
	named   = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)`")
)

// Every link from a page of ours leads to a file, and to a heading where it names one.
func TestLinks(t *testing.T) {
	root := Root(t)
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(Page(t, page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			name, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if name != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), name))
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(Page(t, target)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
}

// pages returns the Markdown pages a reader meets: those at the top and below docs/.
func pages(t *testing.T) []string {
	t.Helper()
	root := Root(t)
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := append(top, filepath.Join(root, "integration", "env", "README.md"))
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range all {
		rel, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = filepath.ToSlash(rel)
	}
	if len(all) < 8 {
		t.Fatalf("found only %v", all)
	}
	return all
}

// anchors are a page's headings as GitHub links them.
func anchors(page string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(m[1]) {
			switch {
			case r == ' ', r == '-':
				b.WriteByte('-')
			case r == '_', r >= 'a' && r <= 'z', r >= '0' && r <= '9', r > 127:
				b.WriteRune(r)
			}
		}
		out = append(out, b.String())
	}
	return out
}

// Every test a page names, as `package.TestName` with the package's folder, is in the tree.
func TestNamedTestsExist(t *testing.T) {
	count := 0
	for _, page := range pages(t) {
		for _, m := range named.FindAllStringSubmatch(Page(t, page), -1) {
			count++
			if !slices.Contains(testsOf(t, m[1]), m[2]) {
				t.Errorf("%s names %s.%s, which does not exist", page, m[1], m[2])
			}
		}
	}
	if count < 20 {
		t.Errorf("only %d tests are named; is the expression still right?", count)
	}
}

// In docs/cases.md every case has a test or a reason why it waits.
func TestCasesAreCoveredOrWait(t *testing.T) {
	rows := 0
	for n, row := range strings.Split(Page(t, "docs/cases.md"), "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 5 || strings.Trim(cells[1], " 0123456789") != "" || strings.TrimSpace(cells[1]) == "" {
			continue
		}
		rows++
		if what := strings.TrimSpace(cells[3]); !named.MatchString(what) && !strings.HasPrefix(what, "waits: ") {
			t.Errorf("docs/cases.md line %d: case %s has neither a test nor a reason (waits: …)", n+1, strings.TrimSpace(cells[1]))
		}
	}
	if rows < 30 {
		t.Errorf("only %d cases are listed", rows)
	}
}

// testsOf returns the names of the tests in a package's folder.
func testsOf(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(Root(t), filepath.FromSlash(folder), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

// docs/architecture.md has a line for every folder with Go code, and none for a folder that is gone. A line that
// says "with all below" covers the folders in it.
func TestArchitectureListsEveryFolder(t *testing.T) {
	root := Root(t)
	page := Page(t, "docs/architecture.md")
	listed, covers := map[string]bool{}, []string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9/._-]+)/` \\|(.*)$").FindAllStringSubmatch(page, -1) {
		listed[m[1]] = true
		if strings.Contains(m[2], "with all below") {
			covers = append(covers, m[1]+"/")
		}
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("docs/architecture.md lists %s/, which does not exist", m[1])
		}
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && rel != ".") {
			return filepath.SkipDir
		}
		folder := filepath.ToSlash(filepath.Dir(rel))
		covered := listed[folder] || slices.ContainsFunc(covers, func(parent string) bool { return strings.HasPrefix(folder, parent) })
		if strings.HasSuffix(path, ".go") && !covered {
			listed[folder] = true // once is enough
			t.Errorf("docs/architecture.md has no line for %s/", folder)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
