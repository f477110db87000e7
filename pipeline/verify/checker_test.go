package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// rec is a record in the small language "partition pos seq op key": op in upper case is a tombstone.
func rec(offset int64, line string) *kgo.Record {
	var partition int32
	var pos, key, op string
	var seq int
	if _, err := fmt.Sscan(line, &partition, &pos, &seq, &op, &key); err != nil {
		panic(line + ": " + err.Error())
	}
	r := &kgo.Record{Topic: "t", Partition: partition, Offset: offset, Key: []byte(key), Value: []byte("v")}
	if op != strings.ToLower(op) {
		r.Value = nil
	}
	if key == "-" {
		r.Key = nil
	}
	gen := "1"
	if g, p, ok := strings.Cut(pos, ":"); ok {
		gen, pos = g, p
	}
	r.Headers = []kgo.RecordHeader{
		{Key: "__pos", Value: []byte(`{"lsn":"` + pos + `"}`)}, {Key: "__seq", Value: []byte(fmt.Sprint(seq))},
		{Key: "__gen", Value: []byte(gen)}, {Key: "__op", Value: []byte(strings.ToLower(op))},
	}
	return r
}

func TestChecker(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines string
		rules Rules
		says  []string
	}{
		{"in order", "0 0/9 0 c a;0 0/9 1 u a;0 0/A 0 u a;1 0/9 2 c b;0 1/0 0 d a;0 1/0 0 D a", Rules{}, nil},
		{"hex is not text", "0 0/9 0 c a;0 0/10 0 u a;0 0/FF 0 u a;0 0/100 0 u a", Rules{}, nil},
		{"next generation starts low", "0 1:5/0 0 c a;0 2:1/0 0 c a", Rules{}, nil},
		{"generation goes back", "0 2:1/0 0 c a;0 1:5/0 0 c a", Rules{}, []string{"is before"}},
		{"repeated", "0 0/9 0 c a;0 0/9 0 c a", Rules{}, []string{"repeats"}},
		{"swapped", "0 0/9 1 c a;0 0/9 0 u a", Rules{}, []string{"is before"}},
		{"pair in two partitions", "0 0/9 0 c a;1 0/9 0 c b", Rules{}, []string{"is also in"}},
		{"truncate in each partition", "0 0/9 0 c a;1 0/9 1 c b;0 0/9 2 t -;1 0/9 2 t -;0 0/9 3 c a", Rules{}, nil},
		{"truncate twice in one", "0 0/9 2 t -;0 0/9 2 t -", Rules{}, []string{"repeats"}},
		{"truncate with the pair of a row", "0 0/9 2 t -;1 0/9 2 c a", Rules{}, []string{"is also in"}},
		{"no tombstone", "0 0/9 0 d a;0 0/A 0 c b", Rules{}, []string{"not followed by its tombstone"}},
		{"no tombstone at the end", "0 0/9 0 d a", Rules{}, []string{"not followed by its tombstone"}},
		{"no tombstones wanted", "0 0/9 0 d a;0 0/A 0 c b", Rules{NoTombstones: true}, nil},
		{"keyless delete", "0 0/9 0 d -;0 0/9 1 c -", Rules{}, nil},
		{"tombstone of another key", "0 0/9 0 d a;0 0/9 0 D b", Rules{}, []string{"does not follow its delete"}},
		{"tombstone alone", "0 0/9 0 C a", Rules{}, []string{"does not follow its delete"}},
		{"tombstone after compaction", "0 0/9 0 D a;0 0/A 0 c b", Rules{Compacted: true}, nil},
		{"tombstone for its delete", "0 0/9 0 D a;0 0/9 1 D b;0 0/A 0 c b", Rules{NoDeletes: true}, nil},
		{"tombstone for its delete twice", "0 0/9 0 D a;0 0/9 0 D a", Rules{NoDeletes: true}, []string{"does not follow its delete"}},
		{"tombstone twice", "0 0/9 0 d a;0 0/9 0 D a;0 0/9 0 D a", Rules{}, []string{"does not follow its delete"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := Checker{Rules: map[string]Rules{"t": c.rules}}
			for i, line := range strings.Split(c.lines, ";") {
				k.Take(rec(int64(i), line))
			}
			k.Finish()
			if int(k.Total) != len(c.says) {
				t.Fatalf("violations %v, want %q", k.Violations, c.says)
			}
			for i, s := range c.says {
				if !strings.Contains(k.Violations[i].String(), s) {
					t.Errorf("%v does not say %q", k.Violations[i], s)
				}
			}
		})
	}
}

func TestCheckerIgnoresInactiveGenerations(t *testing.T) {
	k := Checker{Active: func(g int64) bool { return g != 2 }}
	for i, line := range []string{"0 1:5/0 0 c a", "0 2:1/0 0 c a", "0 1:6/0 0 c a", "0 3:1/0 0 c a"} {
		k.Take(rec(int64(i), line))
	}
	k.Finish()
	if k.Total != 0 || k.Counts.Ignored != 1 || k.Counts.Records != 3 || k.Counts.Transactions != 3 {
		t.Errorf("%+v %v", k.Counts, k.Violations)
	}
}

func TestMetaOfMalformed(t *testing.T) {
	for _, h := range []string{"__pos", "__seq", "__gen", "__op"} {
		r := rec(0, "0 0/9 0 c a")
		for i := range r.Headers {
			if r.Headers[i].Key == h {
				r.Headers[i].Value = []byte("x1")
			}
		}
		if _, ours, err := MetaOf(r); !ours || err == nil || !strings.Contains(err.Error(), h) {
			t.Errorf("%s: %v", h, err)
		}
	}
	if _, ours, _ := MetaOf(&kgo.Record{}); ours {
		t.Error("a record without headers is taken for ours")
	}
}

func TestParsePos(t *testing.T) {
	order := []string{
		`{"file":"binlog.000009","pos":99}`, `{"file":"binlog.000010","pos":4}`, `{"file":"binlog.1000000","pos":4}`,
		`{"file":"binlog.000001","pos":4,"epoch":1}`,
	}
	var last [3]uint64
	for _, p := range order {
		c, err := ParsePos(p)
		if err != nil || (Position{Commit: last}).Compare(Position{Commit: c}) >= 0 {
			t.Errorf("%s: %v %v", p, c, err)
		}
		last = c
	}
	if c, err := ParsePos(`{"lsn":"0000002d000000d80194"}`); err != nil || c != [3]uint64{0, 0, 0x2d000000d80194} {
		t.Error(c, err)
	}
	for _, bad := range []string{"", "{}", `{"lsn":"x"}`, `{"lsn":"0/"}`, `{"file":"x"}`, `{"lsn":"0000002d000000d8019g"}`, "null"} {
		if _, err := ParsePos(bad); err == nil {
			t.Errorf("%s parsed", bad)
		}
	}
}
