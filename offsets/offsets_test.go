package offsets

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAppendJSON(t *testing.T) {
	for _, tc := range []struct {
		o    Object
		want string
	}{
		{nil, `null`},
		{Object{}, `{}`},
		{StreamPartition("shop"), `{"server":"shop"}`},
		{TablePartition("shop", `a"b.ü`), `{"server":"shop","kind":"table","table":"a\"b.ü"}`},
		{Object{{"n", int64(math.MinInt64)}, {"f", 1.0}, {"b", true}, {"z", nil}}, `{"n":-9223372036854775808,"f":1.0,"b":true,"z":null}`},
		{Object{{"s", "\x00\b\t\n\f\r\x1f\\/<&\xff"}}, `{"s":"\u0000\b\t\n\f\r\u001F\\/<&` + "\ufffd" + `"}`},
		{Object{{"f", math.Inf(1)}}, `{"f":"Infinity"}`},
	} {
		got := string(tc.o.AppendJSON(nil))
		if got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s is not JSON", got)
		}
	}
}

func TestParseObjectRefuses(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":{}}`:                       "nested",
		`{"a":[1]}`:                      "nested",
		`{"a":1,"a":2}`:                  "twice",
		`{"a":1} {}`:                     "after the end",
		`{"a":1}x`:                       "after the end",
		`{"a":1`:                         "not valid JSON",
		`{"a":1,}`:                       "not valid JSON",
		`[1]`:                            "is needed",
		`{"a":9223372036854775808}`:      "64 bits",
		`{"a":1e999}`:                    "range",
		"{\"a\":\"\xff\"}":               "UTF-8",
		`{1:2}`:                          "not valid JSON",
		`{"a":` + strings.Repeat("[", 9): "nested",
	} {
		if _, err := ParseObject([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one with %q", in, err, want)
		}
	}
	for _, in := range []string{"", "null", " null "} {
		if o, err := ParseObject([]byte(in)); o != nil || err != nil {
			t.Errorf("%q: got %v, %v, want a tombstone", in, o, err)
		}
	}
}

func TestParseKey(t *testing.T) {
	// A record seen in the field (kcat's issue 371), and one with spaces.
	for _, in := range []string{`["mysqltest0216",{"server":"mysqltest021601"}]`, ` [ "mysqltest0216" , { "server" : "mysqltest021601" } ] `} {
		c, p, err := ParseKey([]byte(in))
		if err != nil || c != "mysqltest0216" || !p.Equal(StreamPartition("mysqltest021601")) {
			t.Errorf("%s: got %q %v %v", in, c, p, err)
		}
	}
	for _, in := range []string{``, `{}`, `["a"]`, `["a",{}`, `["a",{},1]`, `[1,{}]`, `["a",null]`, `["a",{"x":[]}]`, `["a",{}]]`} {
		if _, _, err := ParseKey([]byte(in)); err == nil {
			t.Errorf("%s: accepted", in)
		}
	}
}

var primitives = rapid.OneOf(
	rapid.Just(any(nil)), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.String().AsAny(),
	rapid.Float64().AsAny(),
)

var objects = rapid.Custom(func(t *rapid.T) Object {
	names := rapid.SliceOfDistinct(rapid.String(), rapid.ID[string]).Draw(t, "names")
	o := Object{}
	for _, n := range names {
		o = append(o, Field{n, primitives.Draw(t, "value")})
	}
	return o
})

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := objects.Draw(t, "object")
		back, err := ParseObject(o.AppendJSON(nil))
		if err != nil || !cmp.Equal(back, o) {
			t.Fatalf("%s came back as %v (%v)", o, back, err)
		}
		name, p, err := ParseKey(AppendKey(nil, "a\"b", o))
		if err != nil || name != "a\"b" || !p.Equal(o) {
			t.Fatalf("key of %s came back as %q %v (%v)", o, name, p, err)
		}
	})
}

func TestEqualIgnoresOrder(t *testing.T) {
	a := Object{{"x", int64(1)}, {"y", "2"}}
	b := Object{{"y", "2"}, {"x", int64(1)}}
	if !a.Equal(b) || a.Equal(a[:1]) || a.Equal(a.With("y", "3")) || a.Equal(Object{{"x", int64(1)}, {"z", "2"}}) || Object(nil).Equal(Object{}) {
		t.Error("Equal compares something else than members")
	}
	if a.With("x", 7)[0].Value != int64(7) || a[0].Value != int64(1) || len(a.With("q", true)) != 3 {
		t.Error("With must replace in a copy or append")
	}
}

func TestFind(t *testing.T) {
	entries := []Entry{{StreamPartition("a"), Object{{"pos", "1"}}}, {GenerationPartition("a"), nil}}
	if o, ok := Find(entries, StreamPartition("a")); !ok || o[0].Value != "1" {
		t.Error("stream not found")
	}
	if _, ok := Find(entries, GenerationPartition("a")); ok {
		t.Error("a tombstone was found")
	}
	if _, ok := Find(entries, StreamPartition("b")); ok {
		t.Error("another server was found")
	}
}

func TestStates(t *testing.T) {
	g := Generation{Number: 3, Start: `{"lsn":"0/1"}`, Baseline: true}
	if back, err := GenerationFrom(g.Object()); err != nil || back != g {
		t.Errorf("got %v, %v", back, err)
	}
	s := TableState{ID: math.MaxUint64, Name: "public.t", KeyColumns: `["id"]`, KeyTypes: "bigint", Identity: "default", KeySchemaID: 7, Topic: "t", Partitions: 3, Generation: 2}
	if back, err := TableStateFrom(s.Object()); err != nil || back != s {
		t.Errorf("got %v, %v", back, err)
	}
	for _, o := range []Object{nil, {}, g.Object().With("generation", "1"), g.Object().With("generation", 0)} {
		if _, err := GenerationFrom(o); err == nil {
			t.Errorf("%s: accepted", o)
		}
	}
	if _, err := TableStateFrom(s.Object().With("topic", nil)); err == nil || !strings.Contains(err.Error(), "public.t") {
		t.Errorf("got %v", err)
	}
}

// Vectors of the Java client: UtilsTest.testMurmur2.
func TestKafkaPartition(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
		if p := KafkaPartition([]byte(key), 1000); p != (want&0x7fffffff)%1000 {
			t.Errorf("partition of %q is %d", key, p)
		}
	}
}
