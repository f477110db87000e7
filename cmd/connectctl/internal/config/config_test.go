package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	want := map[string]string{"name": "shop", "tasks.max": "1", "a": "true", "p": "${env:X}"}
	for file, content := range map[string]string{
		"c.properties": "# comment\nname=shop\ntasks.max = 1\na: true\np=${env:X}\n",
		"c.json":       `{"name":"shop","tasks.max":1,"a":true,"p":"${env:X}","gone":null}`,
		"rest.json":    `{"name":"shop","config":{"tasks.max":"1","a":"true","p":"${env:X}"}}`,
		"c.yaml":       "name: shop\ntasks.max: 1\na: true\np: ${env:X}\n",
		"c.yml":        "name: shop\nconfig:\n  tasks.max: 1\n  a: true\n  p: ${env:X}\n",
	} {
		got, err := Load(write(t, file, content))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for file, c := range map[string]struct{ content, says string }{
		"a.json":  {"{\n\"x\": 1,\n}", "line 3"},
		"b.json":  {`{"x":{"y":1}}`, "x must be a single value"},
		"c.json":  {`{"x":1}{"y":2}`, "one connector per file"},
		"d.json":  {`[1]`, "not a JSON object"},
		"e.yaml":  {"x: [1, 2]\n", "x must be a single value"},
		"f.yaml":  {"- x\n", "not a YAML mapping"},
		"g.yaml":  {"x: 1\nx: 2\n", "x is given twice"},
		"h.json":  {`{"name":"a","config":{"name":"b"}}`, "keep one"},
		"i.yaml":  {"\tx: 1\n", "cannot start any token"},
		"no.such": {"", "no such file"},
	} {
		path := write(t, file, c.content)
		if c.content == "" {
			path += ".missing"
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", file, err, c.says)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Setenv("TIDEMARK_TEST_SECRET", "s3cret")
	secret := write(t, "pw", "from file\n")
	props := write(t, "db.properties", "user=u\npassword=a${b}\n")
	got, err := Resolve(map[string]string{
		"a": "x${env:TIDEMARK_TEST_SECRET}y", "b": "${file:" + secret + "}", "c": "${file:" + props + ":password}", "d": "${plain}",
	})
	want := map[string]string{"a": "xs3crety", "b": "from file", "c": "a${b}", "d": "${plain}"}
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	_, err = Resolve(map[string]string{
		"a": "${env:TIDEMARK_TEST_SECRET}", "b": "${env:NOT_THERE_AT_ALL}", "c": "${file:/nowhere/x}", "d": "${file:" + props + ":no}",
	})
	for _, part := range []string{"NOT_THERE_AT_ALL", "/nowhere/x", "no property no"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error shows a secret: %v", err)
	}
	if _, err = Resolve(map[string]string{"a": "${file:/dev/zero}"}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a file without end: %v", err)
	}
}
