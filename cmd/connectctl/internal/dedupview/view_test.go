package dedupview

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// places returns commit positions in order, each next pair of which some way of comparing text gets wrong.
func places(engine string) []string {
	switch engine {
	case PostgreSQL:
		return []string{`{"lsn":"0/9"}`, `{"lsn":"0/10"}`, `{"lsn":"0/FF"}`, `{"lsn":"0/100"}`, `{"lsn":"0/FFFFFFFF"}`, `{"lsn":"1/0"}`,
			`{"lsn":"FF/0"}`, `{"lsn":"100/0"}`, `{"lsn":"100/A"}`, `{"lsn":"FFFFFFFF/FFFFFFFF"}`}
	case MySQL:
		return []string{`{"file":"binlog.000009","pos":99}`, `{"file":"binlog.000009","pos":100}`, `{"file":"binlog.000010","pos":4}`,
			`{"file":"binlog.999999","pos":4294967296}`, `{"file":"binlog.1000000","pos":4}`, `{"file":"b.000001","pos":9,"epoch":1}`,
			`{"file":"b.000001","pos":10,"epoch":1}`, `{"file":"a.b.000001","pos":4,"epoch":2}`, `{"file":"a.b.1","pos":4,"epoch":10}`}
	}
	return []string{`{"lsn":"00000009000000d80194"}`, `{"lsn":"0000000a000000d80194"}`, `{"lsn":"00000010000000d80194"}`,
		`{"lsn":"0000002d000000d80194"}`, `{"lsn":"0000002d000000d8019a"}`, `{"lsn":"ffffffffffffffffffff"}`}
}

func ptr(s string) *string { return &s }

func abc(a, b, c string) [3]*string { return [3]*string{ptr(a), ptr(b), ptr(c)} }

func TestView(t *testing.T) {
	const snap = int64(1) << 50
	size, name := "größe", data[1].Source
	at := func(pos string, seq int64, op string, values [3]*string, lacking ...string) rec {
		return rec{gen: 1, pos: `{"lsn":"` + pos + `"}`, seq: seq, op: op, id: 1, part: "a", values: values, lacking: lacking}
	}
	in := func(gen int64, r rec) rec { r.gen = gen; return r }
	key := func(id int64, part string, r rec) rec { r.id, r.part = id, part; return r }
	gone := [3]*string{}
	noSize := [3]*string{ptr("s2"), ptr("n2"), nil}
	cases := []struct {
		name string
		all  []rec
		gens []gen
		want map[string]string // key: its state
	}{
		{"text is not number", []rec{at("0/9", 0, "c", abc("old", "n", "g")), at("0/10", 0, "u", abc("new", "n", "g")),
			key(2, "a", at("FF/0", 0, "c", abc("old", "n", "g"))), key(2, "a", at("100/0", 0, "u", abc("new", "n", "g")))}, nil,
			map[string]string{"1|a": `"new" "n" "g" u {"lsn":"0/10"} 0 1 1000 `, "2|a": `"new" "n" "g" u {"lsn":"100/0"} 0 1 1000 `}},
		{"ordinal is a number", []rec{at("0/9", 9, "u", abc("old", "n", "g")), at("0/9", 10, "u", abc("new", "n", "g"))}, nil,
			map[string]string{"1|a": `"new" "n" "g" u {"lsn":"0/9"} 10 1 1010 `}},
		{"deleted", []rec{at("0/9", 0, "c", abc("s", "n", "g")), at("0/9", 1, "d", gone), {op: "", id: 1, part: "a"}}, nil, map[string]string{}},
		{"created again", []rec{at("0/9", 0, "c", abc("s", "n", "g")), at("0/9", 1, "d", gone), at("0/A", 0, "c", abc("s2", "n2", "g2"))}, nil,
			map[string]string{"1|a": `"s2" "n2" "g2" c {"lsn":"0/A"} 0 1 1000 `}},
		{"unavailable over several", []rec{at("0/9", 0, "c", abc("s", "n", "g")), at("0/9", 1, "u", [3]*string{ptr("s1"), nil, ptr("g1")}, name),
			at("0/9", 2, "u", [3]*string{ptr("s2"), nil, nil}, name, size)}, nil,
			map[string]string{"1|a": `"s2" "n" "g1" u {"lsn":"0/9"} 2 1 1002 `}},
		{"null is a value", []rec{at("0/9", 0, "c", abc("s", "n", "g")), at("0/9", 1, "u", [3]*string{ptr("s1"), ptr("n1"), nil}),
			at("0/9", 2, "u", noSize, size)}, nil, map[string]string{"1|a": `"s2" "n2" null u {"lsn":"0/9"} 2 1 1002 `}},
		{"not from before a create", []rec{at("0/9", 0, "c", abc("s", "n", "other row")), at("0/9", 1, "d", abc("s", "n", "old image")),
			at("0/A", 0, "c", noSize, size), at("0/A", 1, "u", noSize, size)}, nil,
			map[string]string{"1|a": `"s2" "n2" null u {"lsn":"0/A"} 1 1 1001 größe`}},
		{"not from a deleted row's image", []rec{at("0/9", 1, "d", abc("s", "n", "old image")), at("0/9", snap, "r", noSize, size)}, nil,
			map[string]string{"1|a": `"s2" "n2" null r {"lsn":"0/9"} 1125899906842624 1 1125899906843624 größe`}},
		{"not from before a create without a delete", []rec{at("0/9", 0, "u", abc("s", "n", "other row")), at("0/A", 0, "c", noSize, size)}, nil,
			map[string]string{"1|a": `"s2" "n2" null c {"lsn":"0/A"} 0 1 1000 größe`}},
		{"a snapshot row goes on with its row", []rec{at("0/9", 0, "c", abc("s", "n", "g")), at("0/9", snap, "r", noSize, size)}, nil,
			map[string]string{"1|a": `"s2" "n2" "g" r {"lsn":"0/9"} 1125899906842624 1 1125899906843624 `}},
		{"snapshot rows follow their boundary", []rec{at("0/9", 7, "u", abc("old", "n", "g")), at("0/9", snap+9, "r", abc("chunk", "n", "g")),
			at("0/9", snap+10, "r", abc("chunk2", "n", "g")), key(2, "a", at("0/9", snap+11, "r", abc("r", "n", "g"))), key(2, "a", at("0/A", 0, "u", noSize, size))}, nil,
			map[string]string{"1|a": `"chunk2" "n" "g" r {"lsn":"0/9"} 1125899906842634 1 1125899906843634 `, "2|a": `"s2" "n2" "g" u {"lsn":"0/A"} 0 1 1000 `}},
		{"composite key", []rec{key(1, "a|1", at("0/9", 0, "c", abc("s", "n", "g"))), key(1, "A|1", at("0/9", 1, "c", abc("s1", "n", "g"))), key(11, "", at("0/9", 2, "c", abc("s2", "n", "g")))}, nil,
			map[string]string{"1|a|1": `"s" "n" "g" c {"lsn":"0/9"} 0 1 1000 `, "1|A|1": `"s1" "n" "g" c {"lsn":"0/9"} 1 1 1001 `, "11|": `"s2" "n" "g" c {"lsn":"0/9"} 2 1 1002 `}},
		{"later generation, lower position", []rec{at("5/0", 0, "c", abc("s", "n", "g")), in(2, at("1/0", 0, "u", noSize, size)), in(10, key(2, "a", at("1/0", 0, "u", abc("10", "n", "g")))), in(9, key(2, "a", at("2/0", 0, "u", abc("9", "n", "g"))))}, nil,
			map[string]string{"1|a": `"s2" "n2" "g" u {"lsn":"1/0"} 0 2 2000 `, "2|a": `"10" "n" "g" u {"lsn":"1/0"} 0 10 10000 `}},
		{"continued generation", []rec{at("5/0", 0, "c", abc("s", "n", "g")), in(2, at("1/0", 0, "u", noSize, size))}, []gen{{1, false}, {2, false}},
			map[string]string{"1|a": `"s2" "n2" "g" u {"lsn":"1/0"} 0 2 2000 `}},
		{"baseline replaces", []rec{at("5/0", 0, "c", abc("s", "n", "g")), key(2, "a", at("5/0", 1, "c", abc("s", "n", "g"))), in(2, at("1/0", 0, "u", noSize, size))}, []gen{{1, true}, {2, true}},
			map[string]string{"1|a": `"s2" "n2" null u {"lsn":"1/0"} 0 2 2000 größe`}},
		{"not activated", []rec{at("5/0", 0, "c", abc("s", "n", "g")), in(2, at("6/0", 0, "d", gone)), in(3, at("6/0", 0, "u", noSize, size))}, []gen{{1, true}, {3, false}},
			map[string]string{"1|a": `"s2" "n2" "g" u {"lsn":"6/0"} 0 3 3000 `}},
		{"no activation records", []rec{at("5/0", 0, "c", abc("s", "n", "g")), in(2, at("1/0", 0, "u", noSize, size))}, []gen{},
			map[string]string{"1|a": `"s2" "n2" "g" u {"lsn":"1/0"} 0 2 2000 `}},
		{"truncated", []rec{at("5/0", 0, "c", abc("s", "n", "g")), key(2, "a", at("5/0", 1, "c", abc("s", "n", "g"))), key(0, "", at("5/0", 2, "t", gone)), key(0, "", at("5/0", 2, "t", gone)), at("5/0", 3, "u", noSize, size)}, nil,
			map[string]string{"1|a": `"s2" "n2" null u {"lsn":"5/0"} 3 1 1003 größe`}},
		{"nothing", nil, nil, map[string]string{}},
	}
	for _, c := range cases {
		if d := differ(fold(t, c.all, c.gens), c.want); d != "" {
			t.Fatalf("%s: the reference is wrong: %s", c.name, d)
		}
	}
	onEach(t, func(t *testing.T, db database) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				got, err := shown(db, c.all, c.gens, testSpec(db.dialect, PostgreSQL, c.gens))
				if err != nil {
					t.Fatal(err)
				}
				if d := differ(got, c.want); d != "" {
					t.Error(d)
				}
			})
		}
	})
}

// Every two positions of an engine are in order, in the view and in the reference.
func TestViewOrdersPositions(t *testing.T) {
	onEach(t, func(t *testing.T, db database) {
		for _, engine := range Engines() {
			var all []rec
			want := map[string]string{}
			pool := places(engine)
			for later := range pool {
				for earlier := range later {
					r := rec{gen: 1, pos: pool[later], op: "u", id: int64(later), part: pool[earlier], values: abc("later", "", "")}
					want[fmt.Sprintf("%d|%s", r.id, r.part)] = r.state()
					all = append(all, r)
					r.pos, r.seq, r.values = pool[earlier], 1<<50, abc("earlier", "", "")
					all = append(all, r)
				}
			}
			if d := differ(fold(t, all, nil), want); d != "" {
				t.Fatal("the reference is wrong: " + d)
			}
			got, err := shown(db, all, nil, testSpec(db.dialect, engine, nil))
			if err != nil {
				t.Fatal(err)
			}
			if d := differ(got, want); d != "" {
				t.Errorf("%s: %s", engine, d)
			}
		}
	})
}

// 8000 changes of one key in one transaction, the large column sent once; other keys around it.
func TestViewManyChangesOfOneKey(t *testing.T) {
	var all []rec
	for n := range int64(8000) {
		r := rec{gen: 1, pos: `{"lsn":"0/15D6A30"}`, seq: n, op: "u", id: 1, part: "a", values: [3]*string{ptr(fmt.Sprint(n)), ptr("n"), nil}, lacking: []string{"größe"}}
		if n == 0 {
			r.op, r.lacking, r.values[2] = "c", nil, ptr("large")
		}
		all = append(all, r)
	}
	for id := range int64(1000) {
		all = append(all, rec{gen: 1, pos: `{"lsn":"0/15D6A31"}`, seq: id, op: "c", id: id + 2, part: "a", values: abc("s", "n", "g")})
	}
	slices.Reverse(all)
	want := fold(t, all, nil)
	if len(want) != 1001 || want["1|a"] != `"7999" "n" "large" u {"lsn":"0/15D6A30"} 7999 1 8999 ` {
		t.Fatalf("the reference shows %d rows, the key as %s", len(want), want["1|a"])
	}
	onEach(t, func(t *testing.T, db database) {
		start := time.Now()
		got, err := shown(db, all, nil, testSpec(db.dialect, PostgreSQL, nil))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("loaded and read in %v", time.Since(start).Round(time.Millisecond))
		if d := differ(got, want); d != "" {
			t.Error(d)
		}
	})
}

// TestViewIsTheFold compares the view with the reference over random histories.
func TestViewIsTheFold(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue { // a check is several statements
		if err := f.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	onEach(t, func(t *testing.T, db database) {
		for _, engine := range Engines() {
			t.Run(engine, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					all, gens := history(rt, engine)
					got, err := shown(db, all, gens, testSpec(db.dialect, engine, gens))
					if err != nil {
						rt.Fatal(err)
					}
					if d := differ(got, fold(t, all, gens)); d != "" {
						rt.Fatal(d)
					}
				})
			})
		}
	})
}

// history draws records with positions of their own, in any order of loading, some of them loaded twice.
func history(rt *rapid.T, engine string) (all []rec, gens []gen) {
	pool := places(engine)
	type place struct {
		gen, seq int64
		pos      int
	}
	used := map[place]bool{}
	for range rapid.IntRange(0, 24).Draw(rt, "records") {
		at := place{rapid.SampledFrom([]int64{1, 2, 3, 10}).Draw(rt, "gen"), rapid.SampledFrom([]int64{0, 1, 2, 9, 10, 1 << 50, 1<<50 + 1}).Draw(rt, "seq"), rapid.IntRange(0, len(pool)-1).Draw(rt, "pos")}
		if used[at] {
			continue
		}
		used[at] = true
		r := rec{gen: at.gen, pos: pool[at.pos], seq: at.seq, id: rapid.Int64Range(1, 2).Draw(rt, "id"), part: rapid.SampledFrom([]string{"a", "A"}).Draw(rt, "part")}
		r.op = rapid.SampledFrom([]string{"c", "c", "u", "u", "u", "u", "r", "d", "d", ""}).Draw(rt, "op")
		if rapid.IntRange(0, 30).Draw(rt, "truncate") == 30 {
			r.op = "t"
		}
		for i, c := range data {
			switch rapid.IntRange(0, 3).Draw(rt, c.Source) {
			case 0:
				if r.op == "c" || r.op == "u" || r.op == "r" {
					r.lacking = append(r.lacking, c.Source)
				}
			case 1:
			default:
				r.values[i] = ptr(fmt.Sprintf("%d'\\%d", len(all), i))
			}
		}
		all = append(all, r)
		if rapid.IntRange(0, 9).Draw(rt, "again") == 9 {
			all = append(all, r)
		}
	}
	if len(all) > 1 {
		all = rapid.Permutation(all).Draw(rt, "order")
	}
	if rapid.Bool().Draw(rt, "activations") {
		gens = []gen{}
		for _, n := range []int64{1, 2, 3, 10} {
			if rapid.IntRange(0, 3).Draw(rt, "activated") > 0 {
				gens = append(gens, gen{n, rapid.IntRange(0, 2).Draw(rt, "baseline") == 2})
			}
		}
	}
	return all, gens
}
