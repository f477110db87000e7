package embedded

import (
	"fmt"
	"strings"
	"testing"
)

func record(fields ...string) string {
	return `{"type":"record","name":"R","namespace":"n","fields":[` + strings.Join(fields, ",") + `]}`
}

func field(name, typ string, more ...string) string {
	return fmt.Sprintf(`{"name":%q,"type":%s%s}`, name, typ, strings.Join(append([]string{""}, more...), ","))
}

const (
	optional    = `["null","string"]`
	nullDefault = `"default":null`
	decimal     = `{"type":"bytes","logicalType":"decimal","precision":%d,"scale":%d}`
)

// change is a step from one schema to the next.
type change struct {
	name, old, next   string
	backward, forward bool // new readers read old data; old readers read new data
}

// changes are judged by our rules here, and by a real registry where there is one.
func changes() []change {
	a := field("a", `"int"`)
	enum := func(symbols string, more string) string {
		return record(field("e", `{"type":"enum","name":"E","symbols":[`+symbols+`]`+more+`}`))
	}
	cs := []change{
		{"same", record(a), record(a), true, true},
		{"nullable field added with default", record(a), record(a, field("b", optional, nullDefault)), true, true},
		{"nullable field added without default", record(a), record(a, field("b", optional)), false, true},
		{"required field added with default", record(a), record(a, field("b", `"int"`, `"default":1`)), true, true},
		{"field with default dropped", record(a, field("b", optional, nullDefault)), record(a), true, true},
		{"field without default dropped", record(a, field("b", `"int"`)), record(a), true, false},
		{"field renamed, no default", record(a), record(field("b", `"int"`)), false, false},
		{"field renamed with alias", record(a), record(field("b", `"int"`, `"aliases":["a"]`)), true, false},
		{"field renamed with defaults", record(field("a", optional, nullDefault)), record(field("b", optional, nullDefault)), true, true},
		{"fields reordered", record(a, field("b", `"int"`)), record(field("b", `"int"`), a), true, true},
		{"int to long", record(a), record(field("a", `"long"`)), true, false},
		{"long to int", record(field("a", `"long"`)), record(a), false, true},
		{"int to double", record(a), record(field("a", `"double"`)), true, false},
		{"int to string", record(a), record(field("a", `"string"`)), false, false},
		{"string to bytes", record(field("a", `"string"`)), record(field("a", `"bytes"`)), true, true},
		{"int to nullable int", record(a), record(field("a", `["null","int"]`, nullDefault)), true, false},
		{"nullable int to int", record(field("a", `["null","int"]`)), record(a), false, true},
		{"nullable int to nullable long", record(field("a", `["null","int"]`)), record(field("a", `["null","long"]`)), true, false},
		{"nullable long to nullable int", record(field("a", `["null","long"]`)), record(field("a", `["null","int"]`)), false, true},
		{"nullable int to nullable string", record(field("a", `["null","int"]`)), record(field("a", optional)), false, false},
		{"branch added to a union", record(field("a", optional)), record(field("a", `["null","string","int"]`)), true, false},
		{"order of branches", record(field("a", optional)), record(field("a", `["string","null"]`)), true, true},
		{"enum symbol added", enum(`"A"`, ""), enum(`"A","B"`, ""), true, false},
		{"enum symbol removed", enum(`"A","B"`, ""), enum(`"A"`, ""), false, true},
		{"enum symbol removed, default", enum(`"A","B"`, ""), enum(`"A"`, `,"default":"A"`), true, true},
		{"record name", record(a), strings.Replace(record(a), `"R"`, `"S"`, 1), false, false},
		{"record name with alias", record(a), strings.Replace(record(a), `"R"`, `"S","aliases":["R"]`, 1), true, false},
		{"namespace only", record(a), strings.Replace(record(a), `"n"`, `"m"`, 1), true, true},
		{"array of int to long", record(field("a", `{"type":"array","items":"int"}`)), record(field("a", `{"type":"array","items":"long"}`)), true, false},
		{"map to array", record(field("a", `{"type":"map","values":"int"}`)), record(field("a", `{"type":"array","items":"int"}`)), false, false},
		{"fixed size", record(field("a", `{"type":"fixed","name":"F","size":2}`)), record(field("a", `{"type":"fixed","name":"F","size":3}`)), false, false},
		{"decimal precision", record(field("a", fmt.Sprintf(decimal, 10, 2))), record(field("a", fmt.Sprintf(decimal, 12, 2))), false, false},
		{"decimal scale", record(field("a", fmt.Sprintf(decimal, 10, 2))), record(field("a", fmt.Sprintf(decimal, 10, 3))), false, false},
		{"nested record", record(field("a", record(field("x", `"int"`)))), record(field("a", record(field("x", `"long"`)))), true, false},
		{"nullable field without default in a nested record", record(field("a", record(field("x", `"int"`)))), record(field("a", record(field("x", `"int"`), field("y", optional)))), false, true},
		{"recursive record", record(field("next", `["null","R"]`)), record(field("next", `["null","R"]`), field("b", optional)), false, true},
		{"documentation", record(a), record(field("a", `"int"`, `"doc":"new"`)), true, true},
	}
	for i := range cs { // a record within a record needs a name of its own
		for _, text := range []*string{&cs[i].old, &cs[i].next} {
			*text = strings.Replace(*text, `"type":{"type":"record","name":"R"`, `"type":{"type":"record","name":"In"`, 1)
		}
	}
	return cs
}

func TestCompare(t *testing.T) {
	for _, tc := range changes() {
		t.Run(tc.name, func(t *testing.T) {
			s := newState("NONE")
			if err := s.apply(event{Op: opRegister, Subject: "s", Version: 1, ID: 1, Schema: tc.old}); err != nil {
				t.Fatal(err)
			}
			next, err := parse(tc.next)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range levels() {
				want := (tc.backward || !l.backward) && (tc.forward || !l.forward)
				reasons := s.compare(l, next, s.subjects["s"].live())
				if got := len(reasons) == 0; got != want {
					t.Errorf("%s: compatible %t, want %t: %s", l.name, got, want, reasons)
				}
				for _, r := range reasons {
					if !strings.Contains(r, "version 1") || strings.Contains(r, "\n") {
						t.Errorf("%s: reason does not say which version: %s", l.name, r)
					}
				}
			}
		})
	}
}

// Versions 1 to 3 are each compatible with the next, 1 and 3 are not.
func TestTransitiveLevelsLookAtAllVersions(t *testing.T) {
	old1 := record(field("a", `"int"`))
	old2 := record(field("a", `"int"`), field("b", `"int"`, `"default":1`))
	next := record(field("a", `"int"`), field("b", `"int"`))
	s := newState("NONE")
	for i, text := range []string{old1, old2} {
		if err := s.apply(event{Op: opRegister, Subject: "s", Version: i + 1, ID: i + 1, Schema: text}); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := parse(next)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"NONE": true, "BACKWARD": true, "FORWARD": true, "FULL": true,
		"BACKWARD_TRANSITIVE": false, "FORWARD_TRANSITIVE": true, "FULL_TRANSITIVE": false,
	} {
		l, ok := levelByName(name)
		if !ok {
			t.Fatalf("no level %s", name)
		}
		if reasons := s.compare(l, parsed, s.subjects["s"].live()); (len(reasons) == 0) != want {
			t.Errorf("%s: want compatible %t: %s", name, want, reasons)
		}
	}
}
