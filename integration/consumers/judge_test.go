package consumers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// judge compares what a consumer read with the records as they are in Kafka and, replayed, with the tables.
func judge(t *testing.T, s *harness.Stream, got []record, kinds map[string]string) {
	t.Helper()
	type place struct {
		topic     string
		partition int32
		offset    int64
	}
	read := map[place]*record{}
	for i := range got {
		read[place{got[i].Topic, got[i].Partition, got[i].Offset}] = &got[i]
	}
	raw := s.Records(harness.Committed)
	if len(read) != len(raw) || len(got) != len(raw) {
		t.Errorf("%d records at %d places read, %d are there", len(got), len(read), len(raw))
	}
	tombstones, oldKeys := 0, 0
	for i := range raw {
		k := &raw[i]
		r := read[place{k.Topic, k.Partition, k.Offset}]
		if r == nil {
			t.Fatalf("%s was not read", k)
		}
		if (k.Value == nil) != (r.Value == nil) || (k.Key == nil) != (r.Key == nil) {
			t.Errorf("%s: key %v, value %v", k, r.Key, r.Value)
		}
		if k.Value == nil {
			tombstones++
		}
		if r.Timestamp != k.Timestamp {
			t.Errorf("%s: timestamp %d, want %d", k, r.Timestamp, k.Timestamp)
		}
		if k.OldKey != nil {
			oldKeys++
		}
		checkHeaders(t, r, k.OldKey != nil)
	}
	if tombstones < 20 || oldKeys < 10 {
		t.Errorf("%d tombstones, %d key changes: the workload is not what it was", tombstones, oldKeys)
	}
	checkKinds(t, got, kinds)
	for _, tab := range tables {
		tab.same(t, s, tab.replay(t, got, s.Topic("public", tab.name)))
	}
}

// checkHeaders checks that headers say what the value does, in the documented order.
func checkHeaders(t *testing.T, r *record, oldKey bool) {
	t.Helper()
	var names []string
	for _, h := range r.Headers {
		var name string
		_ = json.Unmarshal(h[0], &name)
		names = append(names, name)
	}
	want := []string{"__pos", "__seq", "__gen", "__op"}
	if oldKey {
		want = append(want, "__old_key")
		if old := r.oldKey(t); len(old) == 0 || len(old) != len(r.Key) {
			t.Errorf("old key %v beside key %v", old, r.Key)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("headers %v, want %v", names, want)
	}
	for _, name := range want[:4] {
		if r.Value != nil && r.header(name) != r.Value.value(name) {
			t.Errorf("header %s is %q, the field %v", name, r.header(name), r.Value.value(name))
		}
	}
}

// checkKinds checks each column's type in the consumer's language, of keys and values.
func checkKinds(t *testing.T, got []record, kinds map[string]string) {
	t.Helper()
	seen := map[string]string{}
	for _, r := range got {
		name := r.Topic[strings.LastIndexByte(r.Topic, '.')+1:]
		for part, f := range map[string]fields{"key ": r.Key, "": r.Value} {
			for column, c := range f {
				if c == nil {
					continue
				}
				at := part + name + "." + column
				if strings.HasPrefix(column, "__") {
					at = column
				}
				if before := seen[at]; before != "" && before != c.kind {
					t.Errorf("%s is %s and %s", at, before, c.kind)
				}
				seen[at] = c.kind
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(kinds)) {
		if seen[at] != kinds[at] {
			t.Errorf("%s is %s, want %s", at, seen[at], kinds[at])
		}
	}
}

// replay does what the contract has a consumer do: in the order of positions it keeps the newest row of each key, and of a column that
// a record does not carry its value so far, after a key change that under the old key.
func (tab *table) replay(t *testing.T, got []record, topic string) (lines []string) {
	t.Helper()
	rows, gone := map[string]map[string]any{}, map[string]map[string]any{}
	count := map[string]int{} // without a key: how often a row is there
	for _, r := range inOrder(t, got, topic) {
		row := map[string]any{}
		for _, c := range tab.columns {
			row[c] = r.Value.value(c)
		}
		if tab.key == nil {
			count[tab.line(func(c string) any { return row[c] })] += map[any]int{"c": 1, "d": -1}[r.Value.value("__op")]
			continue
		}
		key := fmt.Sprint(project(tab.key, r.Key))
		if k := fmt.Sprint(project(tab.key, r.Value)); k != key || len(r.Key) != len(tab.key) {
			t.Errorf("%s@%d: key %s, in the value %s", topic, r.Offset, key, k)
		}
		if r.Value.value("__op") == "d" {
			gone[key] = rows[key]
			delete(rows, key)
			continue
		}
		old := rows[key]
		if f := r.oldKey(t); f != nil {
			old = gone[fmt.Sprint(project(tab.key, f))]
		}
		for _, c := range r.Value.value("__unavailable").([]any) {
			row[c.(string)] = old[c.(string)]
		}
		rows[key] = row
	}
	for _, row := range rows {
		lines = append(lines, tab.line(func(c string) any { return row[c] }))
	}
	for line, n := range count {
		if n < 0 {
			t.Errorf("%s: %s is deleted more often than created", topic, line)
		}
		lines = append(lines, slices.Repeat([]string{line}, max(n, 0))...)
	}
	return lines
}

// inOrder are a topic's records but tombstones by (__pos, __seq), as their headers say.
func inOrder(t *testing.T, got []record, topic string) (out []*record) {
	t.Helper()
	type at struct {
		lsn uint64
		seq int
	}
	places := map[*record]at{}
	for i := range got {
		r := &got[i]
		if r.Topic != topic || r.Value == nil {
			continue
		}
		lsn, err := check.ParsePos(r.header("__pos"))
		if err != nil {
			t.Fatal(err)
		}
		seq, err := strconv.Atoi(r.header("__seq"))
		if err != nil {
			t.Fatal(err)
		}
		places[r] = at{lsn, seq}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *record) int {
		return cmp.Or(cmp.Compare(places[a].lsn, places[b].lsn), cmp.Compare(places[a].seq, places[b].seq))
	})
	return out
}

func project(key []string, f fields) (out []string) {
	for _, k := range key {
		out = append(out, strconv.Quote(fmt.Sprint(f.value(k))))
	}
	return out
}

// sameState compares rows a consumer keeps itself with the tables.
func sameState(t *testing.T, s *harness.Stream, got []record, tables []table) {
	t.Helper()
	for _, tab := range tables {
		var lines []string
		for i := range got {
			if got[i].Topic != s.Topic("public", tab.name) {
				continue
			}
			if k, v := fmt.Sprint(project(tab.key, got[i].Key)), fmt.Sprint(project(tab.key, got[i].Value)); k != v {
				t.Errorf("%s: row %s under key %s", tab.name, v, k)
			}
			lines = append(lines, tab.line(got[i].Value.value))
		}
		tab.same(t, s, lines)
	}
}
