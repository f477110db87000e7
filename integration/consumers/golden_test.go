package consumers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"testing"
)

var shown = regexp.MustCompile(`(?m)^  (?:key  |value|__old_key) (\{.*\})  \[00000000(0[12])([0-9a-f]+)\]$`)

// The bytes that docs/formats.md shows, and the code's goldens pin, are those Java's Avro writes of what it reads from them.
func TestDocumentedBytes(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]string{"01": block(t, doc, "key schema"), "02": block(t, doc, "value schema")}
	records := shown.FindAllStringSubmatch(block(t, doc, "records"), -1)
	if len(records) != 10 {
		t.Fatalf("%d keys and values in the page, want 10", len(records))
	}
	var ask bytes.Buffer
	for _, r := range records {
		b, _ := json.Marshal(map[string]string{"schema": schemas[r[2]], "body": r[3]})
		ask.Write(append(b, '\n'))
	}
	cmd := servers.Java(t, "java").Command(t.Context(), "Encode")
	cmd.Stdin = &ask
	got := run(t, cmd)
	if len(got) != len(records) {
		t.Fatalf("%d answers to %d questions", len(got), len(records))
	}
	for i, r := range records {
		if got[i].Body != r[3] {
			t.Errorf("of %s Java's Avro writes\n  %s, the page has\n  %s", r[1], got[i].Body, r[3])
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(r[1]), &want); err != nil {
			t.Fatal(err)
		}
		if len(want) != len(got[i].Value) {
			t.Errorf("%s: Java reads %d fields", r[1], len(got[i].Value))
		}
		for _, name := range []string{"id", "customer", "quantity", "price", "__op", "__pos", "__seq", "__gen", "__unavailable"} {
			if g, w := fmt.Sprint(got[i].Value.value(name)), fmt.Sprint(want[name]); g != w {
				t.Errorf("%s: Java reads %s as %s", r[1], name, g)
			}
		}
	}
}

// block is what stands between a page's markers, without the fence.
func block(t *testing.T, doc []byte, name string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)<!-- begin " + name + " -->\n```[a-z]*\n(.*?)\n```\n<!-- end").FindSubmatch(doc)
	if m == nil {
		t.Fatalf("docs/formats.md has no %s", name)
	}
	return string(m[1])
}
