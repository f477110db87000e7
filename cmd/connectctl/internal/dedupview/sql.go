package dedupview

import (
	"fmt"
	"strings"

	"github.com/tidemark-cdc/tidemark/schema/avro"
)

// SQL returns the statements that create the view, each with its semicolon.
func (s *Spec) SQL() (string, error) {
	if err := s.Check(); err != nil {
		return "", err
	}
	w := writer{Spec: s, d: dialects()[s.Dialect], own: s.ownPrefix()}
	query := w.positioned() + w.numbered()
	if w.d.pick != nil {
		query += w.aggregated()
	} else {
		query += w.windowed()
	}
	query += w.shown()
	comment := w.comment()
	return "-- " + comment + "\n" + w.d.create(w.qualified(s.View), w.d.text(comment), query), nil
}

// writer writes the parts of one view's query.
type writer struct {
	*Spec
	d   dialect
	own string // begins the names the query makes up
}

// ownPrefix returns a prefix that no column's name has.
func (s *Spec) ownPrefix() string {
	own := "tm_"
	taken := func() bool {
		for _, name := range append(s.names(), s.meta("")) {
			if strings.HasPrefix(strings.ToLower(name), own) {
				return true
			}
		}
		return false
	}
	for taken() {
		own += "_"
	}
	return own
}

func (w *writer) comment() string {
	which := "all generations count, in order, since no table of activation records was named"
	if len(w.Generations) > 0 {
		which = "the active generations by " + strings.Join(w.Generations, ".")
	}
	return fmt.Sprintf("Current rows of topic %s (%s), loaded into %s: the newest record of each key, deletes removed; %s.",
		w.Topic, w.Engine, strings.Join(w.Table, "."), which)
}

func (w *writer) qualified(parts []string) string {
	quoted := make([]string, len(parts))
	for i, p := range parts {
		quoted[i] = w.d.quote(p)
	}
	return strings.Join(quoted, ".")
}

// column is a column of the row source r.
func (w *writer) column(name string) string { return "r." + w.d.quote(w.fold(name)) }

func (w *writer) metaColumn(field string) string { return w.column(w.meta(field)) }

// self selects a column under its own name.
func (w *writer) self(name string) string { return w.as(w.column(name), name) }

func (w *writer) as(expr, name string) string { return expr + " AS " + w.d.quote(w.fold(name)) }

func (w *writer) key() string {
	cols := make([]string, len(w.Key))
	for i, k := range w.Key {
		cols[i] = w.column(k)
	}
	return strings.Join(cols, ", ")
}

func (w *writer) isKey(name string) bool {
	for _, k := range w.Key {
		if k == name {
			return true
		}
	}
	return false
}

// everything selects all columns and the metadata.
func (w *writer) everything() []string {
	var items []string
	for _, name := range w.names() {
		items = append(items, w.self(name))
	}
	for _, f := range metadata {
		items = append(items, w.self(w.meta(f)))
	}
	return items
}

// with writes one common table expression: its select list, and the rest.
func (w *writer) with(name string, items []string, rest ...string) string {
	return fmt.Sprintf("%s%s AS (\n  SELECT\n    %s\n  %s\n)", w.own, name, strings.Join(items, ",\n    "), strings.Join(rest, "\n  "))
}

// positioned gives every record of the counting generations a text that orders it: generation,
// commit position and ordinal, in a fixed width, so that text compares as the numbers do. Records
// without an operation are tombstones.
func (w *writer) positioned() string {
	cte := w.with("positioned", append(w.everything(), w.position()+" AS "+w.own+"at"),
		"FROM "+w.qualified(w.Table)+" r", "WHERE "+w.metaColumn(avro.FieldOp)+" IN ('c', 'u', 'd', 'r', 't')"+w.counting())
	if w.d.inline != "" {
		cte = strings.Replace(cte, " AS (", " AS"+w.d.inline+" (", 1)
	}
	return "WITH " + w.active() + cte
}

func (w *writer) position() string {
	number := func(field string) string {
		return w.d.pad("CAST("+w.metaColumn(field)+" AS "+w.d.str+")", 19)
	}
	pos := w.metaColumn(avro.FieldPos)
	lsn := w.d.field(pos, "lsn")
	var commit string
	switch w.Engine {
	case PostgreSQL:
		commit = w.d.pad(w.d.part(lsn, 1), 8) + " || " + w.d.pad(w.d.part(lsn, 2), 8)
	case SQLServer:
		commit = "LOWER(" + lsn + ")"
	case MySQL:
		epoch := "COALESCE(NULLIF(" + w.d.field(pos, "epoch") + ", ''), '0')"
		commit = w.d.pad(epoch, 20) + " || " + w.d.pad(w.d.tail(w.d.field(pos, "file")), 20) + " || " + w.d.pad(w.d.field(pos, "pos"), 20)
	}
	return "(" + number(avro.FieldGen) + " || " + commit + " || " + number(avro.FieldSeq) + ")" + w.d.collate
}

// active lists the generations that count: the newest activated baseline and all activated later.
func (w *writer) active() string {
	if len(w.Generations) == 0 {
		return ""
	}
	gen, from := w.column("gen"), "FROM "+w.qualified(w.Generations)+" r"
	return w.with("active", []string{gen + " AS " + w.own + "gen"}, from,
		fmt.Sprintf("WHERE %s >= (SELECT COALESCE(MAX(CASE WHEN %s THEN %s END), 0) %s)", gen, w.column("baseline"), gen, from)) + ",\n"
}

func (w *writer) counting() string {
	if len(w.Generations) == 0 {
		return ""
	}
	return fmt.Sprintf("\n    AND (%s IN (SELECT %sgen FROM %sactive) OR (SELECT COUNT(*) FROM %sactive) = 0)",
		w.metaColumn(avro.FieldGen), w.own, w.own, w.own)
}

// numbered counts a key's records from the newest, and for each the newer ones that begin or end a row;
// what lies before a TRUNCATE is gone.
func (w *writer) numbered() string {
	over := "OVER (PARTITION BY " + w.key() + " ORDER BY r." + w.own + "at DESC"
	op := w.metaColumn(avro.FieldOp)
	ends := "CASE WHEN " + op + " IN ('c', 'd') THEN 1 ELSE 0 END"
	return ",\n" + w.with("numbered", append(w.everything(),
		"ROW_NUMBER() "+over+") AS "+w.own+"n",
		"SUM("+ends+") "+over+" ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - "+ends+" AS "+w.own+"later"),
		"FROM "+w.own+"positioned r",
		"WHERE "+op+" <> 't'",
		fmt.Sprintf("  AND r.%sat > (SELECT COALESCE(MAX(r.%sat), '') FROM %spositioned r WHERE %s = 't')", w.own, w.own, w.own, op))
}

// alive keeps the records of the rows that exist.
func (w *writer) alive() string {
	return "WHERE r." + w.own + "later = 0 AND " + w.metaColumn(avro.FieldOp) + " <> 'd'"
}

func (w *writer) unnamed(c Column) string {
	return "NOT " + w.d.named(w.metaColumn(avro.FieldUnavailable), w.d.text(c.Source))
}

// flag is the name of a number the query keeps for column i: in the end null where no record has its value.
func (w *writer) flag(i int) string { return fmt.Sprintf("%sc%d", w.own, i+1) }

// aggregated takes per key and column the value of the newest record that has it.
func (w *writer) aggregated() string {
	var items, flags []string
	rank := "r." + w.own + "n"
	for i, c := range w.Columns {
		if w.isKey(c.Name) {
			items = append(items, w.self(c.Name))
			continue
		}
		unnamed := w.unnamed(c)
		items = append(items, w.as(w.d.pick(w.column(c.Name), rank, unnamed), c.Name))
		flags = append(flags, fmt.Sprintf("MAX(CASE WHEN %s THEN 1 ELSE 0 END) AS %s", unnamed, w.flag(i)))
	}
	for _, f := range metadata[:len(metadata)-1] {
		items = append(items, w.as(w.d.pick(w.metaColumn(f), rank, ""), w.meta(f)))
	}
	return ",\n" + w.with("resolved", append(items, flags...), "FROM "+w.own+"numbered r", w.alive(), "GROUP BY "+w.key())
}

// windowed does the same for a database without an aggregate that picks a value of any type: it finds the records
// that are needed, usually one of a key, and takes each column from the n-th of them.
func (w *writer) windowed() string {
	n := "r." + w.own + "n"
	over := "OVER (PARTITION BY " + w.key() + ")"
	source, kept := w.everything(), append(w.everything(), n)
	source = append(source, n)
	needed := []string{"1"}
	var items []string
	for i, c := range w.Columns {
		if w.isKey(c.Name) {
			items = append(items, w.self(c.Name))
			continue
		}
		flag := w.flag(i)
		source = append(source, fmt.Sprintf("MIN(%s) FILTER (WHERE %s) %s AS %s", n, w.unnamed(c), over, flag))
		kept = append(kept, fmt.Sprintf("NULLIF(COUNT(*) FILTER (WHERE %s <= r.%s) %s, 0)::int AS %s", n, flag, over, flag))
		needed = append(needed, "r."+flag)
		items = append(items, w.as(fmt.Sprintf("NTH_VALUE(%s, r.%s) OVER w", w.column(c.Name), flag), c.Name), "r."+flag)
	}
	for _, f := range metadata[:len(metadata)-1] {
		items = append(items, w.self(w.meta(f)))
	}
	return ",\n" + w.with("sources", source, "FROM "+w.own+"numbered r", w.alive()) +
		",\n" + w.with("kept", kept, "FROM "+w.own+"sources r", "WHERE "+n+" IN ("+strings.Join(needed, ", ")+")") +
		",\n" + w.with("resolved", append(items, n), "FROM "+w.own+"kept r",
		"WINDOW w AS (PARTITION BY "+w.key()+" ORDER BY "+n+" ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)")
}

// shown is the view's own select list. Columns whose value no record has stay named in __unavailable.
func (w *writer) shown() string {
	var items, lacking []string
	for i, c := range w.Columns {
		items = append(items, w.self(c.Name))
		if !w.isKey(c.Name) {
			absent := "= 0"
			if w.d.pick == nil {
				absent = "IS NULL"
			}
			lacking = append(lacking, fmt.Sprintf("CASE WHEN r.%s %s THEN %s END", w.flag(i), absent, w.d.text(c.Source)))
		}
	}
	for _, f := range metadata[:len(metadata)-1] {
		items = append(items, w.self(w.meta(f)))
	}
	if len(lacking) == 0 {
		lacking = []string{"CASE WHEN 1 = 0 THEN '' END"}
	}
	items = append(items, w.as(w.d.list(lacking), w.meta(avro.FieldUnavailable)))
	query := "\nSELECT\n  " + strings.Join(items, ",\n  ") + "\nFROM " + w.own + "resolved r"
	if w.d.pick == nil {
		query += "\nWHERE r." + w.own + "n = 1"
	}
	return query
}
