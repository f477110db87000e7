package dedupview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// rec is one loaded record. The table has the composite key (id, "Part No") and three columns whose
// names need quotes.
type rec struct {
	gen     int64
	pos     string // as in the value
	seq     int64
	op      string // empty: a tombstone
	id      int64
	part    string
	values  [3]*string // of data
	lacking []string   // __unavailable
}

var data = [3]Column{{"select", "select"}, {`Na"me's\`, `Na"me's\`}, {"gr_xf6__xdf_e", "größe"}}

// dataIn are the same columns for a dialect: the parser that translates does not know all of its quoting.
func dataIn(dialect string) [3]Column {
	cols := data
	if types[dialect][0] == "" {
		cols[1].Name = "Na me"
	}
	return cols
}

// gen is one activation record.
type gen struct {
	number   int64
	baseline bool
}

func testSpec(dialect, engine string, gens []gen) *Spec {
	data := dataIn(dialect)
	s := &Spec{Topic: "shop.public.orders", Dialect: dialect, Engine: engine, Table: []string{"loaded"}, View: []string{"v"},
		Key: []string{"id", "Part No"}, Columns: []Column{{"id", "id"}, data[0], {"Part No", "Part No"}, data[1], data[2]}}
	if gens != nil {
		s.Generations = []string{"gens"}
	}
	return s
}

// fold is the reference: it applies the records one by one, in order, as a consumer would.
func fold(t testing.TB, all []rec, gens []gen) map[string]string {
	var from int64
	for _, g := range gens {
		if g.baseline {
			from = max(from, g.number)
		}
	}
	active := func(n int64) bool {
		return len(gens) == 0 || n >= from && slices.ContainsFunc(gens, func(g gen) bool { return g.number == n })
	}
	type placed struct {
		verify.Position
		rec
	}
	var order []placed
	for _, r := range all {
		if r.op == "" || !active(r.gen) {
			continue
		}
		commit, err := verify.ParsePos(r.pos)
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, placed{verify.Position{Generation: r.gen, Commit: commit, Seq: r.seq}, r})
	}
	slices.SortFunc(order, func(a, b placed) int { return a.Compare(b.Position) })
	rows := map[string]rec{}
	for _, p := range order {
		r, key := p.rec, fmt.Sprintf("%d|%s", p.id, p.part)
		old, exists := rows[key]
		switch {
		case r.op == "t":
			clear(rows)
			continue
		case r.op == "d":
			delete(rows, key)
			continue
		}
		var lacking []string
		for i, c := range data {
			if !slices.Contains(r.lacking, c.Source) {
				continue
			}
			if exists && r.op != "c" && !slices.Contains(old.lacking, c.Source) {
				r.values[i] = old.values[i]
			} else {
				lacking = append(lacking, c.Source)
			}
		}
		r.lacking = lacking
		rows[key] = r
	}
	out := map[string]string{}
	for key, r := range rows {
		out[key] = r.state()
	}
	return out
}

// state is what both sides are compared by.
func (r *rec) state() string {
	var b strings.Builder
	for _, v := range r.values {
		if v == nil {
			b.WriteString("null ")
		} else {
			b.WriteString(strconv.Quote(*v) + " ")
		}
	}
	fmt.Fprintf(&b, "%s %s %d %d %d %s", r.op, r.pos, r.seq, r.gen, r.ts(), strings.Join(r.lacking, ","))
	return b.String()
}

func (r *rec) ts() int64 { return r.gen*1000 + r.seq }

// shown reads the view.
func shown(db database, all []rec, gens []gen, s *Spec) (map[string]string, error) {
	sql, err := s.SQL()
	if err != nil {
		return nil, err
	}
	script := load(s.Dialect, all, gens)
	for _, stmt := range strings.SplitAfter(sql, ";\n") {
		if strings.TrimSpace(stmt) != "" {
			script = append(script, strings.TrimSuffix(strings.TrimSpace(stmt), ";"))
		}
	}
	rows, err := db.run(script, "SELECT * FROM v")
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, sql)
	}
	out := map[string]string{}
	for _, row := range rows {
		r := rec{op: fmt.Sprint(row["__op"]), pos: fmt.Sprint(row["__pos"]), seq: whole(row["__seq"]), gen: whole(row["__gen"])}
		for i, c := range dataIn(s.Dialect) {
			if text, ok := row[c.Name].(string); ok {
				r.values[i] = &text
			}
		}
		list, ok := row["__unavailable"].([]any)
		if !ok || len(row) != 11 {
			return nil, fmt.Errorf("row %v has %d columns, __unavailable is %T", row, len(row), row["__unavailable"])
		}
		for _, name := range list {
			r.lacking = append(r.lacking, fmt.Sprint(name))
		}
		if whole(row["__ts_us"]) != r.ts() {
			return nil, fmt.Errorf("__ts_us %v is another record's than __seq %d", row["__ts_us"], r.seq)
		}
		key := fmt.Sprintf("%v|%v", row["id"], row["Part No"])
		if out[key] != "" {
			return nil, fmt.Errorf("key %s is shown twice", key)
		}
		out[key] = r.state()
	}
	return out, nil
}

func whole(v any) int64 {
	n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// types of the loaded tables, as the dialect writes them.
var types = map[string][5]string{ // whole number, text, text of a column that may be null, array of text, boolean
	"postgres":   {"bigint", "text", "text", "text[]", "boolean"},
	"duckdb":     {"BIGINT", "VARCHAR", "VARCHAR", "VARCHAR[]", "BOOLEAN"},
	"clickhouse": {"Nullable(Int64)", "Nullable(String)", "Nullable(String)", "Array(String)", "Bool"},
}

func load(dialect string, all []rec, gens []gen) []string {
	data := dataIn(dialect)
	if types[dialect][0] == "" {
		dialect = "duckdb" // runs the translation
	}
	d, ty := dialects()[dialect], types[dialect]
	engine, array := "", "ARRAY[%s]::text[]"
	switch dialect {
	case "duckdb":
		array = "[%s]::VARCHAR[]"
	case "clickhouse":
		engine, array = " ENGINE = Memory", "[%s]"
	}
	script := []string{"CREATE TABLE loaded (" + strings.Join([]string{
		"id " + ty[0], d.quote("Part No") + " " + ty[1], d.quote(data[0].Name) + " " + ty[2], d.quote(data[1].Name) + " " + ty[2],
		d.quote(data[2].Name) + " " + ty[2], "__op " + ty[1], "__pos " + ty[1], "__seq " + ty[0], "__gen " + ty[0], "__ts_us " + ty[0], "__unavailable " + ty[3],
	}, ", ") + ")" + engine}
	for part := range slices.Chunk(all, 500) {
		var lines []string
		for _, r := range part {
			texts := []string{fmt.Sprint(r.id), d.text(r.part)}
			for _, v := range r.values {
				texts = append(texts, literal(d, v))
			}
			var names []string
			for _, n := range r.lacking {
				names = append(names, d.text(n))
			}
			if r.op == "" {
				texts = append(texts, "NULL", "NULL", "NULL", "NULL", "NULL")
			} else {
				texts = append(texts, d.text(r.op), d.text(r.pos), fmt.Sprint(r.seq), fmt.Sprint(r.gen), fmt.Sprint(r.ts()))
			}
			lines = append(lines, "("+strings.Join(append(texts, fmt.Sprintf(array, strings.Join(names, ", "))), ", ")+")")
		}
		script = append(script, "INSERT INTO loaded VALUES "+strings.Join(lines, ", "))
	}
	if gens != nil {
		script = append(script, "CREATE TABLE gens (gen "+ty[0]+", start "+ty[1]+", baseline "+ty[4]+")"+engine)
		for _, g := range gens {
			script = append(script, fmt.Sprintf("INSERT INTO gens VALUES (%d, NULL, %t)", g.number, g.baseline))
		}
	}
	return script
}

func literal(d dialect, v *string) string {
	if v == nil {
		return "NULL"
	}
	return d.text(*v)
}

// differ compares the view with the reference.
func differ(got, want map[string]string) string {
	g, _ := json.MarshalIndent(got, "", " ")
	w, _ := json.MarshalIndent(want, "", " ")
	if string(g) == string(w) {
		return ""
	}
	return fmt.Sprintf("the view shows\n%s\nwant\n%s", g, w)
}
