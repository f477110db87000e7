package main

import (
	"fmt"
	"strings"
)

// shape is what a drained bench's rows look like.
type shape struct {
	name        string
	rows        int // its own, a multiple of perTx
	pairs, warm int
	perTx       int    // rows in a source transaction; 0: all in one
	tables      int    // row i lies in table i % tables where there are several
	create      string // creates the table; %s is its name
	insert      string // inserts rows in PL/pgSQL; %[1]s and %[2]s are the first id and the last, a bigint's expressions
	bytes       int    // of a row, roughly, for the room it takes
	keep        bool   // topics stay until the end: nothing is deleted between two runs
}

const (
	ordersTable = "CREATE TABLE %s (id bigint PRIMARY KEY, customer text, quantity int, at timestamptz, price numeric(12,2))"
	// orderRow are the values of row i of it.
	orderRow = `i, rpad(md5(i::text), 30, 'x'), (i * 7919 % 100000)::int,
		'2026-03-01 00:00:00.123456+00'::timestamptz + i * interval '1 second 7 microseconds', (i % 100000000)::numeric / 100`
	wideColumns = 50
	largeBytes  = 100 << 10
	manyTables  = 1000
)

// ordersInsert doubles the percent signs, since it becomes a format.
var ordersInsert = "INSERT INTO orders SELECT " + strings.ReplaceAll(orderRow, "%", "%%") + " FROM generate_series(%[1]s, %[2]s) i"

var shapes = []shape{
	{name: "stream", rows: 1_000_000, pairs: 3, warm: 3, perTx: 1000, tables: 1, create: ordersTable, insert: ordersInsert, bytes: 250, keep: true},
	{name: "wide", rows: 200_000, pairs: 3, warm: 1, perTx: 1000, tables: 1, create: wideTable(), insert: wideInsert(), bytes: 1500},
	{name: "large", rows: 5_000, pairs: 3, warm: 1, perTx: 10, tables: 1, bytes: largeBytes,
		create: "CREATE TABLE %[1]s (id bigint PRIMARY KEY, document text); ALTER TABLE %[1]s ALTER document SET STORAGE EXTERNAL",
		insert: fmt.Sprintf("INSERT INTO orders SELECT i, repeat(md5(i::text), %d) FROM generate_series(%%[1]s, %%[2]s) i", largeBytes/32)},
	{name: "tables", rows: 200_000, pairs: 1, warm: 1, perTx: 1000, tables: manyTables, create: ordersTable, bytes: 400,
		insert: "FOR i IN %[1]s .. %[2]s LOOP EXECUTE format('INSERT INTO orders%%s SELECT " + quoted(orderRow) + " FROM (SELECT $1::bigint AS i) x', i %% " +
			fmt.Sprint(manyTables) + ") USING i; END LOOP"},
	{name: "huge", rows: 5_000_000, pairs: 1, warm: 1, tables: 1, create: ordersTable, insert: ordersInsert, bytes: 250},
}

// quoted writes SQL into a string literal of format() within a format of Go's.
func quoted(sql string) string {
	return strings.NewReplacer("'", "''", "%", "%%%%").Replace(sql)
}

// wideTypes are the types of a wide table's columns, by turns, and the value of each in row i.
var wideTypes = []struct{ name, value string }{
	{"text", "md5((i + %d)::text)"},
	{"int", "((i * 7919 + %d) %%%% 100000)::int"},
	{"timestamptz", "'2026-03-01 00:00:00.123456+00'::timestamptz + (i + %d) * interval '1 second 7 microseconds'"},
	{"numeric(12,2)", "((i + %d) %%%% 100000000)::numeric / 100"},
	{"bigint", "i + %d"},
	{"boolean", "(i + %d) %%%% 2 = 0"},
	{"double precision", "(i + %d)::double precision / 7"},
}

func wideTable() string {
	columns := "id bigint PRIMARY KEY"
	for c := 1; c < wideColumns; c++ {
		columns += fmt.Sprintf(", c%d %s", c, wideTypes[c%len(wideTypes)].name)
	}
	return "CREATE TABLE %s (" + columns + ")"
}

func wideInsert() string {
	values := "i"
	for c := 1; c < wideColumns; c++ {
		values += ", " + fmt.Sprintf(wideTypes[c%len(wideTypes)].value, c)
	}
	return "INSERT INTO orders SELECT " + values + " FROM generate_series(%[1]s, %[2]s) i"
}

// names of the tables.
func (s *shape) tableNames() []string {
	if s.tables == 1 {
		return []string{"orders"}
	}
	all := make([]string, s.tables)
	for i := range all {
		all[i] = fmt.Sprintf("orders%d", i)
	}
	return all
}

// firstID is the id of the first row of a table, by its place in tableNames; the next ones follow at a distance of s.tables.
func (s *shape) firstID(table int) int64 {
	if table == 0 {
		return int64(s.tables)
	}
	return int64(table)
}
