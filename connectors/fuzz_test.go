package connectors

import (
	"strconv"
	"strings"
	"testing"
)

// FuzzSpec: a property is known, or a problem names it; a number or a truth that is no problem is what strconv reads.
func FuzzSpec(f *testing.F) {
	spec := Spec{{Name: "number", Type: TypeInt, Default: "7"}, {Name: "truth", Type: TypeBoolean, Default: "false"}, {Name: "one.of", Type: TypeString, Allowed: []string{"a", "B"}},
		{Name: "needed", Type: TypeString, Required: true, Doc: "Say it."}, {Name: "list", Type: TypeList}, {Name: "open.*", Type: TypeString}}
	for _, s := range []string{"number=1\ntruth=TRUE\nneeded=x", "nmuber=x", "one.of=b\nlist= a,,b ,", "open.a=1\nopen.=2", "needed= \nnumber=9223372036854775808", "tasks.max=1\nkey.converter=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw := map[string]string{}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "=")
			raw[name] = value
		}
		cfg, problems := spec.Parse(raw)
		wrong := map[string]bool{}
		for i, p := range problems {
			wrong[p.Property] = true
			if p.Message == "" || i > 0 && problems[i-1].Property > p.Property {
				t.Fatalf("%q: problems %v", text, problems)
			}
		}
		for name, value := range raw {
			known := spec.knows(name) && name != "open.*"
			if !known && name != "open.*" && !wrong[name] {
				t.Fatalf("%q: nothing is said about %q", text, name)
			}
			if known && !wrong[name] && cfg.String(name) != strings.TrimSpace(value) {
				t.Fatalf("%q: %s is %q", text, name, cfg.String(name))
			}
		}
		if n, err := strconv.ParseInt(cfg.String("number"), 10, 64); !wrong["number"] && (err != nil || cfg.Int("number") != n) {
			t.Fatalf("%q: number %d, %v", text, cfg.Int("number"), err)
		}
		if b, err := strconv.ParseBool(strings.ToLower(cfg.String("truth"))); !wrong["truth"] && (err != nil || cfg.Bool("truth") != b) {
			t.Fatalf("%q: truth %t, %v", text, cfg.Bool("truth"), err)
		}
		if _, given := raw["needed"]; !given && !wrong["needed"] {
			t.Fatalf("%q: nothing is said about what is missing", text)
		}
		for _, member := range cfg.List("list") {
			if member == "" || member != strings.TrimSpace(member) || strings.Contains(member, ",") {
				t.Fatalf("%q: member %q", text, member)
			}
		}
	})
}
