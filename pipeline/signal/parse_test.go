package signal

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The examples of Debezium's page on signals are read as they stand there, with what each asks for.
func TestDebeziumExamples(t *testing.T) {
	for _, c := range []struct {
		name, message string
		want          Request
	}{
		{"message of a snapshot, without an id", `{"type":"execute-snapshot","data": {"data-collections": ["schema1.table1", "schema1.table2"], "type": "INCREMENTAL"}}`,
			Request{Execute: &Execute{Collections: []string{"schema1.table1", "schema1.table2"}, Kind: KindIncremental}}},
		{"condition, before 2.5", `{"type":"execute-snapshot","data": {"data-collections": ["public.MyFirstTable"], "type": "INCREMENTAL", "additional-condition":"color=blue AND brand=foo"}}`,
			Request{Execute: &Execute{Collections: []string{"public.MyFirstTable"}, Kind: KindIncremental, Conditions: []Condition{{".*", "color=blue AND brand=foo"}}}}},
		{"conditions", `{"type":"execute-snapshot","data": {"data-collections": ["schema1.products"], "type":"BLOCKING", "additional-conditions": [{"data-collection": "schema1.products" ,"filter":"color='blue'"}]}}`,
			Request{Execute: &Execute{Collections: []string{"schema1.products"}, Kind: KindBlocking, Conditions: []Condition{{"schema1.products", "color='blue'"}}}}},
		{"several conditions and a surrogate key", `{"id":"ad-hoc","type":"execute-snapshot","data": {"data-collections": ["db1.schema1.table1", "db1.schema1.table2"],"type":"incremental","surrogate-key":"c1","additional-conditions":[{"data-collection": "db1.schema1.table1" ,"filter":"color='blue'"},{"data-collection": "db1.schema1.table2" ,"filter":"color='blue' AND quantity>10"}]}}`,
			Request{Execute: &Execute{Collections: []string{"db1.schema1.table1", "db1.schema1.table2"}, Kind: KindIncremental, SurrogateKey: "c1",
				Conditions: []Condition{{"db1.schema1.table1", "color='blue'"}, {"db1.schema1.table2", "color='blue' AND quantity>10"}}}}},
		{"line of a file", `{"id":"d139b9b7-7777-4547-917d-e1775ea61d41","type":"execute-snapshot","data":{"data-collections":["public.MyFirstTable", "public.MySecondTable"]},"additionalData":{},"channelOffset":3}`,
			Request{Execute: &Execute{Collections: []string{"public.MyFirstTable", "public.MySecondTable"}, Kind: KindIncremental}}},
		{"data as text", `{"id":"1","type":"execute-snapshot","data":"{\"data-collections\":[\"inventory\\\\..*\"]}"}`,
			Request{Execute: &Execute{Collections: []string{`inventory\..*`}, Kind: KindIncremental}}},
		{"stop some", `{"type":"stop-snapshot","data":{"type":"INCREMENTAL", "data-collections": ["public.MyFirstTable"]}}`,
			Request{Stop: &Stop{Collections: []string{"public.MyFirstTable"}, Kind: KindIncremental}}},
		{"stop all", `{"id":"2","type":"stop-snapshot"}`, Request{Stop: &Stop{Kind: KindIncremental}}},
		{"pause", `{"id":"3","type":"pause-snapshot","data":{"anything":1}}`, Request{}},
		{"resume", `{"type":"resume-snapshot","data":null}`, Request{}},
		{"tables", `{"id":"4","type":"change-tables","data":{"add":[" public.a "],"remove":["public.b"]}}`,
			Request{Tables: &Tables{Add: []string{"public.a"}, Remove: []string{"public.b"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseMessage([]byte(c.message), "from its place")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.message, `"id"`) == (s.ID == "from its place") {
				t.Errorf("id %q", s.ID)
			}
			got, err := Parse(s.ID, s.Type, s.Data)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestRefusals: what is wrong is said in one sentence that names it.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ message, says string }{
		{``, `the signal is not a JSON object: unexpected end of JSON input`},
		{`[1]`, `the signal is not a JSON object: it is of type array`},
		{`{"id":"1"`, `the signal is not a JSON object: unexpected end of JSON input`},
		{`{"id":"1","type":"pause-snapshot"} {}`, `the signal is not a JSON object: invalid character '{' after top-level value`},
		{`{"id":"1","type":"pause-snapshot","Data":{}}`, `the signal has the member "Data", which is not known; there are id, type, data`},
		{`{"id":7,"type":"pause-snapshot"}`, `the signal cannot be read: id is of type number`},
		{`{"id":"","type":"pause-snapshot"}`, `the id is missing`},
		{`{"id":"a\u0000b","type":"pause-snapshot"}`, `the id holds control characters`},
		{`{"id":"` + strings.Repeat("x", 256) + `","type":"pause-snapshot"}`, `the id has 256 bytes; at most 255 are kept`},
		{`{"id":"1"}`, `the type is missing; there are execute-snapshot, stop-snapshot, pause-snapshot, resume-snapshot, change-tables`},
		{`{"id":"1","type":"exec"}`, `type "exec" is not known; there are execute-snapshot,`},
		{`{"id":"1","type":"log","data":{"message":"x"}}`, `type "log" is not known`},
		{`{"id":"1","type":"execute-snapshot"}`, `the data of execute-snapshot is missing; it is an object with data-collections`},
		{`{"id":"1","type":"execute-snapshot","data":"public.a"}`, `the data of execute-snapshot is not a JSON object: invalid character 'p'`},
		{`{"id":"1","type":"execute-snapshot","data":{}}`, `data-collections is missing or empty`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":[]}}`, `data-collections is missing or empty`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":"public.a"}}`, `cannot be read: data-collections is of type string`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":[" "]}}`, `data-collections has an empty member`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a("]}}`, `"a(" is not a regular expression (RE2 syntax): error parsing regexp: missing closing )`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a"],"type":"full"}}`, `type "full" of a snapshot is not one of incremental, blocking`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a"],"where":"x"}}`, `the data of execute-snapshot has the member "where", which is not known; there are data-collections, type, additional-conditions`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a"],"additional-conditions":[{"data-collection":"a"}]}}`, `the condition of "a" has no filter`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a"],"additional-conditions":[{"data-collection":"[","filter":"x"}]}}`, `"[" is not a regular expression`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a"],"additional-conditions":[{"filter":"x"}]}}`, `data-collection of additional-conditions has an empty member`},
		{`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a"],"additional-conditions":[{"data-collection":"a","filter":"` + strings.Repeat("x", maxFilter+1) + `"}]}}`, `the filter of "a" has 16385 bytes; at most 16384 are kept`},
		{`{"id":"1","type":"stop-snapshot","data":{"data-collections":["*"]}}`, `"*" is not a regular expression`},
		{`{"id":"1","type":"change-tables","data":{}}`, `neither add nor remove names a table`},
		{`{"id":"1","type":"change-tables","data":{"add":["a"],"remove":["a"]}}`, `table "a" is to be added and removed`},
		{`{"id":"1","type":"change-tables","data":{"add":[""]}}`, `add or remove has an empty name`},
	} {
		_, err := ParseMessage([]byte(c.message), "x")
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.200s\n  says %v\n  want %s", c.message, err, c.says)
		}
	}
}

// TestNamesMatchWhole: patterns are anchored and ignore case; a table has the filter of the first condition that matches it.
func TestNamesMatchWhole(t *testing.T) {
	names, err := CompileNames([]string{`public.orders`, `inventory\..*`, `a|b`})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"public.orders": true, "Public.Orders": true, "public.orders2": false, "xpublic.orders": false,
		"inventory.x": true, "inventoryx": false, "a": true, "ab": false} {
		if names.Match(name) != want {
			t.Errorf("match of %s is %v", name, !want)
		}
	}
	e := Execute{Conditions: []Condition{{`public\.a.*`, "1"}, {".*", "2"}}}
	if a, b := e.Filter("public.ab"), e.Filter("public.b"); a != "1" || b != "2" {
		t.Errorf("filters %q, %q", a, b)
	}
}

// FuzzParseMessage: whatever comes is a signal or a sentence, and what is a signal parses again.
func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(`{"id":"1","type":"execute-snapshot","data":{"data-collections":["a"],"type":"BLOCKING"}}`))
	f.Add([]byte(`{"id":"1","type":"stop-snapshot","data":"{}"}`))
	f.Add([]byte(`{"type":"change-tables","data":{"add":["a"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseMessage(b, "x")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		if _, err := Parse(s.ID, s.Type, s.Data); err != nil {
			t.Error(err)
		}
		if len(s.Data) > 0 && s.Type == TypeExecute && !json.Valid(s.Data) {
			t.Errorf("data %q", s.Data)
		}
	})
}
