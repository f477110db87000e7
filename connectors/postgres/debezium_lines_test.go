package postgres

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// differences lists what two records have differently: "path: ours | Debezium's".
func differences(is, should []string) []string {
	split := func(lines []string) (map[string]string, []string) {
		m := map[string]string{}
		var order []string
		for _, l := range lines {
			path, value, _ := strings.Cut(l, " = ")
			m[path] = value
			order = append(order, path)
		}
		return m, order
	}
	a, inA := split(is)
	b, inB := split(should)
	var out []string
	same := true
	for _, path := range append(inB, inA...) {
		x, okX := a[path]
		y, okY := b[path]
		if x == y && okX == okY {
			continue
		}
		same = false
		if !okX {
			x = "absent"
		}
		if !okY {
			y = "absent"
		}
		if d := path + ": " + x + " | " + y; !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if same && !slices.Equal(inA, inB) {
		out = append(out, fmt.Sprintf("order: %v | %v", inA, inB))
	}
	return out
}

// excepted reports whether a difference is one of those listed.
func (g *golden) excepted(topic string, record int, difference string) bool {
	for i, d := range different {
		if !regexp.MustCompile("^("+d.topic+")$").MatchString(strings.TrimPrefix(topic, "golden.")) || !regexp.MustCompile("^("+d.cases+")$").MatchString(g.name) {
			continue
		}
		if regexp.MustCompile(d.pattern).MatchString(fmt.Sprintf("%d %s", record, difference)) {
			g.used[i] = true
			return true
		}
	}
	return false
}

func (g *golden) lines(t *testing.T, r *record) []string {
	t.Helper()
	var out []string
	for _, s := range []struct {
		name string
		side *side
	}{{"key", r.Key}, {"value", r.Value}} {
		if s.side == nil {
			out = append(out, s.name+" = null")
			continue
		}
		out = append(out, s.name+" schema = "+string(g.schemas[s.side.Schema]))
		payload := []byte(s.side.Payload)
		if g.name == "avro" {
			var text string
			if err := json.Unmarshal(payload, &text); err != nil {
				t.Fatal(err)
			}
			body, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			if payload, err = g.codec(t, s.side.Schema).AppendJSON(nil, body); err != nil {
				t.Fatal(err)
			}
			if m := regexp.MustCompile(`"name":"(dbzgolden[^"]*)"`).FindSubmatch(payload); m != nil {
				payload = bytes.ReplaceAll(payload, m[1], []byte("golden"))
			}
		}
		out = flatten(t, out, s.name, payload)
	}
	for _, h := range r.Headers {
		out = append(out, "header "+h.Key+" = "+h.Value)
	}
	return masked(out)
}

func (g *golden) codec(t *testing.T, n int) *avro.Codec {
	t.Helper()
	if g.codecs[n] == nil {
		c, err := avro.NewCodec(string(g.schemas[n]))
		if err != nil {
			t.Fatal(err)
		}
		g.codecs[n] = c
	}
	return g.codecs[n]
}

func (g *golden) linesOfOurs(t *testing.T, r *pipeline.Record, schemas map[int]string) []string {
	t.Helper()
	var out []string
	for _, s := range []struct {
		name string
		b    []byte
	}{{"key", r.Key}, {"value", r.Value}} {
		switch {
		case s.b == nil:
			out = append(out, s.name+" = null")
		case string(s.b) == "refused":
			out = append(out, "refused")
		case g.name == "avro":
			id, body, err := registry.ParseHeader(s.b)
			if err != nil {
				t.Fatal(err)
			}
			codec, err := avro.NewCodec(schemas[id])
			if err != nil {
				t.Fatal(err)
			}
			text, err := codec.AppendJSON(nil, body)
			if err != nil {
				t.Fatal(err)
			}
			out = flatten(t, append(out, s.name+" schema = "+schemas[id]), s.name, text)
		default:
			var v struct{ Schema, Payload json.RawMessage }
			if err := json.Unmarshal(s.b, &v); err != nil {
				t.Fatalf("%v: %s", err, s.b)
			}
			out = flatten(t, append(out, s.name+" schema = "+string(v.Schema)), s.name, v.Payload)
		}
	}
	for _, h := range r.Headers {
		if !ownHeader(h.Key) {
			out = append(out, "header "+h.Key+" = "+string(h.Value))
		}
	}
	return masked(out)
}

// ownHeader tells our headers, which every record has in addition.
func ownHeader(name string) bool {
	return strings.HasPrefix(name, "__") && !strings.HasPrefix(name, "__debezium.")
}

// flatten appends a line for every leaf, in the order of the text: as it stands, numbers too.
func flatten(t *testing.T, out []string, path string, text []byte) []string {
	t.Helper()
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return append(out, path+" = "+string(text))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		out = flatten(t, out, fmt.Sprintf("%s.%s", path, name), v)
	}
	return out
}

var never = regexp.MustCompile(`^value\.ts_(ms|us|ns) = |^header __debezium\.context\.runId = `)

// masked hides what no two runs have alike.
func masked(lines []string) []string {
	for i, l := range lines {
		if list, ok := strings.CutPrefix(l, "value.data_collections = ["); ok { // a set; messages have an object's address there
			list = regexp.MustCompile(`io\.debezium[^"]*`).ReplaceAllString(strings.TrimSuffix(list, "]"), "message")
			parts := strings.Split(list, ",{")
			slices.SortFunc(parts, func(a, b string) int { return strings.Compare(strings.Trim(a, "{"), strings.Trim(b, "{")) })
			lines[i] = "value.data_collections = " + strings.ReplaceAll(strings.Join(parts, ";"), "{", "")
		}
		if m := never.FindString(l); m != "" {
			lines[i] = m + "…"
		}
	}
	return lines
}
