package config

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// FuzzParse: a file is read or refused in a sentence that names it; what was read of any format is the same when it is read
// from JSON and from YAML that other libraries wrote.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"# comment\nname=shop\ntasks.max = 1\na: true\np=${env:X}\n", `{"name":"shop","tasks.max":1,"a":true,"gone":null}`, `{"name":"shop","config":{"a":"1"}}`,
		"name: shop\nconfig:\n  tasks.max: 1\n  a: on\n", "x: |\n  a\n  b\n", "a\\\n  b=c\\u00e9\n", "\xef\xbb\xbfa=b", "&a x: *a", "a: &b 1\nc: *b", "<<: {a: 1}", "? a\n: b", "{}"} {
		for kind := range 3 {
			f.Add([]byte(s), uint8(kind))
		}
	}
	files := []string{"c.properties", "c.json", "c.yaml"}
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		path := files[int(kind)%len(files)]
		got, err := parse(path, data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "read configuration "+path+": ") {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		for name, value := range got {
			if !utf8.ValidString(name) || !utf8.ValidString(value) {
				return
			}
		}
		for file, write := range map[string]func(any) ([]byte, error){"again.json": json.Marshal, "again.yaml": yaml.Marshal} {
			text, err := write(got)
			if err != nil {
				t.Fatal(err)
			}
			again, err := parse(file, text)
			if d := cmp.Diff(got, again); err != nil || d != "" {
				t.Fatalf("%q as %s: %v %s", data, text, err, d)
			}
		}
	})
}

// FuzzResolve: without references nothing changes, and what cannot be resolved is named.
func FuzzResolve(f *testing.F) {
	for _, s := range []string{"x", "${env:NOT_THERE_AT_ALL}", "${env:}", "${file:/nowhere/x:y}", "${plain}", "$${env:A}", "${env:${env:A}}", "${file:}", "${file::}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		refers := reference.MatchString(s)
		if strings.Contains(s, "${file:") && !strings.Contains(s, "${file:/nowhere/") || strings.Contains(s, "/..") {
			return // of this machine
		}
		got, err := Resolve(map[string]string{"p": s})
		switch {
		case err != nil && (!refers || !strings.Contains(err.Error(), "p: ${")):
			t.Fatalf("%q: %v", s, err)
		case err == nil && !refers && got["p"] != s:
			t.Fatalf("%q became %q", s, got["p"])
		}
	})
}
