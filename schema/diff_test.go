package schema

import "testing"

func base() *Table {
	return &Table{ID: 7, Namespace: "public", Name: "orders", Identity: "default", Key: []int{0}, Columns: []Column{
		{Name: "id", Type: Type{Kind: KindInt, Bits: 64, Name: "bigint"}, NotNull: true},
		{Name: "note", Type: Type{Kind: KindString, Name: "text"}},
		{Name: "mood", Type: Type{Kind: KindString, Logical: LogicalEnum, Labels: []string{"sad", "ok"}, Name: "mood", OID: 9}},
	}}
}

func TestDiff(t *testing.T) {
	text := Type{Kind: KindString, Name: "text"}
	cases := []struct {
		name   string
		change func(*Table)
		want   []string
	}{
		{"nothing", func(*Table) {}, nil},
		{"another oid of a type", func(u *Table) { u.Columns[2].Type.OID = 10 }, nil},
		{"added", func(u *Table) { u.Columns = append(u.Columns, Column{Name: "x", Type: text}) },
			[]string{`column "x" (text) was added`}},
		{"added not null", func(u *Table) { u.Columns = append(u.Columns, Column{Name: "x", Type: text, NotNull: true}) },
			[]string{`column "x" (text) was added`}},
		{"dropped", func(u *Table) { u.Columns = u.Columns[:2] }, []string{`column "mood" (mood) was dropped`}},
		{"renamed", func(u *Table) { u.Columns[1].Name = "Note" },
			[]string{`column "note" (text) was dropped`, `column "Note" (text) was added`}},
		{"type", func(u *Table) { u.Columns[1].Type = Type{Kind: KindBytes, Name: "bytea"} },
			[]string{`the type of column "note" changed from text to bytea`}},
		{"element type", func(u *Table) { u.Columns[1].Type = Type{Kind: KindString, Name: "text", Elem: &text} },
			[]string{`the type of column "note" changed from text to text`}},
		{"label", func(u *Table) { u.Columns[2].Type.Labels = []string{"sad", "ok", "happy"} },
			[]string{`the labels of column "mood" changed from "sad", "ok" to "sad", "ok", "happy"`}},
		{"not null", func(u *Table) { u.Columns[1].NotNull = true },
			[]string{`column "note" changed from nullable to NOT NULL`}},
		{"nullable key", func(u *Table) { u.Columns[0].NotNull = false },
			[]string{`column "id" changed from NOT NULL to nullable`}},
		{"key", func(u *Table) { u.Key = []int{0, 1} }, []string{`the key changed from ("id") to ("id", "note")`}},
		{"key dropped", func(u *Table) { u.Key, u.Columns = nil, u.Columns[1:] },
			[]string{`the key changed from ("id") to ()`, `column "id" (bigint) was dropped`}},
		{"identity", func(u *Table) { u.Identity = "full" }, []string{`the replica identity changed from default to full`}},
		{"table renamed", func(u *Table) { u.Name = "o" }, []string{`the table was renamed from public.orders to public.o`}},
		{"recreated", func(u *Table) { u.ID = 8 }, []string{`the table was dropped and created again (id 7, now 8)`}},
		{"order", func(u *Table) { u.Columns[1], u.Columns[2] = u.Columns[2], u.Columns[1] },
			[]string{`the order of columns changed from ("id", "note", "mood") to ("id", "mood", "note")`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			after := base()
			c.change(after)
			changes := Diff(base(), after)
			if len(changes) != len(c.want) {
				t.Fatalf("got %v, want %q", changes, c.want)
			}
			for i := range changes {
				if changes[i].String() != c.want[i] {
					t.Errorf("got %s, want %s", changes[i], c.want[i])
				}
			}
		})
	}
}
