package dedupview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// dialect holds what differs between the databases. Expressions go in and come out as SQL.
type dialect struct {
	quote func(name string) string
	text  func(s string) string // literal
	str   string                // type of text
	pad   func(expr string, width int) string
	part  func(expr string, n int) string         // of a text with one slash: 1 or 2
	field func(pos, member string) string         // of compact JSON, as text
	tail  func(expr string) string                // the digits at the end
	named func(array, name string) string         // true or false, never null
	list  func(names []string) string             // array of those that are not null
	pick  func(expr, rank, unnamed string) string // aggregate: expr of the lowest rank with the condition
	// create wraps the query; comment is a literal.
	create    func(view, comment, query string) string
	collate   string // makes text compare by its bytes
	inline    string // keeps a common table expression from hiding indexes
	foldsCase bool   // quoted names that differ in case are one name
}

// Dialects returns the names of all dialects.
func Dialects() []string { return slices.Sorted(maps.Keys(dialects())) }

func dialects() map[string]dialect {
	return map[string]dialect{
		"postgres": postgres(), "snowflake": snowflake(), "bigquery": bigquery(), "databricks": spark(),
		"spark": spark(), "duckdb": duckdb(), "clickhouse": clickhouse(),
	}
}

// escape puts before before each of the characters.
func escape(s, characters, before string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(characters, r) {
			b.WriteString(before)
		}
		b.WriteRune(r)
	}
	return b.String()
}

func doubled(quote string) func(string) string {
	return func(s string) string { return quote + strings.ReplaceAll(s, quote, quote+quote) + quote }
}

func backslashed(quote string) func(string) string {
	return func(s string) string { return quote + escape(s, quote+`\`, `\`) + quote }
}

func lpad(expr string, width int) string { return fmt.Sprintf("LPAD(%s, %d, '0')", expr, width) }

func splitPart(expr string, n int) string { return fmt.Sprintf("SPLIT_PART(%s, '/', %d)", expr, n) }

// unnamedFirst ranks records that lack the value behind all others. Not by a null rank: what an
// aggregate does with one differs, and a record that lacks a value has null there anyway.
func unnamedFirst(expr, rank, unnamed string) string {
	if unnamed == "" {
		return fmt.Sprintf("MIN_BY(%s, %s)", expr, rank)
	}
	return fmt.Sprintf("MIN_BY(%s, CASE WHEN %s THEN %s ELSE %s + 1000000000000 END)", expr, unnamed, rank, rank)
}

func postgres() dialect {
	return dialect{
		quote: doubled(`"`), text: doubled(`'`), str: "text", pad: lpad, part: splitPart,
		field: func(pos, member string) string { return fmt.Sprintf("(%s::json ->> '%s')", pos, member) },
		tail:  func(expr string) string { return fmt.Sprintf("substring(%s FROM '[0-9]+$')", expr) },
		named: func(array, name string) string { return fmt.Sprintf("COALESCE(%s = ANY (%s), false)", name, array) },
		list: func(names []string) string {
			return "array_remove(ARRAY[" + strings.Join(names, ", ") + "]::text[], NULL)"
		},
		create: func(view, comment, query string) string {
			return "CREATE OR REPLACE VIEW " + view + " AS\n" + query + ";\nCOMMENT ON VIEW " + view + " IS " + comment + ";\n"
		},
		collate: ` COLLATE "C"`, inline: " NOT MATERIALIZED",
	}
}

func snowflake() dialect {
	return dialect{
		quote: doubled(`"`), str: "VARCHAR", pad: lpad, part: splitPart,
		text:  func(s string) string { return `'` + escape(strings.ReplaceAll(s, `'`, `''`), `\`, `\`) + `'` },
		field: func(pos, member string) string { return fmt.Sprintf("JSON_EXTRACT_PATH_TEXT(%s, '%s')", pos, member) },
		tail:  func(expr string) string { return fmt.Sprintf("REGEXP_SUBSTR(%s, '[0-9]+$')", expr) },
		named: func(array, name string) string {
			return fmt.Sprintf("COALESCE(ARRAY_CONTAINS(%s::VARIANT, %s), FALSE)", name, array)
		},
		list: func(names []string) string { return "ARRAY_CONSTRUCT_COMPACT(" + strings.Join(names, ", ") + ")" },
		pick: unnamedFirst,
		create: func(view, comment, query string) string {
			return "CREATE OR REPLACE VIEW " + view + "\nCOMMENT = " + comment + "\nAS\n" + query + ";\n"
		},
	}
}

func bigquery() dialect {
	return dialect{
		quote: backslashed("`"), text: backslashed("'"), str: "STRING", pad: lpad,
		part:  func(expr string, n int) string { return fmt.Sprintf("SPLIT(%s, '/')[SAFE_ORDINAL(%d)]", expr, n) },
		field: func(pos, member string) string { return fmt.Sprintf("JSON_VALUE(%s, '$.%s')", pos, member) },
		tail:  func(expr string) string { return fmt.Sprintf("REGEXP_EXTRACT(%s, '[0-9]+$')", expr) },
		named: func(array, name string) string { return fmt.Sprintf("COALESCE(%s IN UNNEST(%s), FALSE)", name, array) },
		list: func(names []string) string {
			return "ARRAY(SELECT c FROM UNNEST([" + strings.Join(names, ", ") + "]) AS c WHERE c IS NOT NULL)"
		},
		// The struct keeps a value that is null from being passed over.
		pick: func(expr, rank, unnamed string) string {
			return unnamedFirst("STRUCT("+expr+" AS v)", rank, unnamed) + ".v"
		},
		create: func(view, comment, query string) string {
			return "CREATE OR REPLACE VIEW " + view + "\nOPTIONS (description = " + comment + ")\nAS\n" + query + ";\n"
		},
		foldsCase: true,
	}
}

func spark() dialect {
	return dialect{
		quote: doubled("`"), text: backslashed("'"), str: "STRING", pad: lpad, part: splitPart,
		field: func(pos, member string) string { return fmt.Sprintf("GET_JSON_OBJECT(%s, '$.%s')", pos, member) },
		tail:  func(expr string) string { return fmt.Sprintf("REGEXP_EXTRACT(%s, '[0-9]+$', 0)", expr) },
		named: func(array, name string) string {
			return fmt.Sprintf("COALESCE(ARRAY_CONTAINS(%s, %s), FALSE)", array, name)
		},
		list: func(names []string) string {
			return "FILTER(ARRAY(" + strings.Join(names, ", ") + "), c -> c IS NOT NULL)"
		},
		pick: unnamedFirst,
		create: func(view, comment, query string) string {
			return "CREATE OR REPLACE VIEW " + view + "\nCOMMENT " + comment + "\nAS\n" + query + ";\n"
		},
		foldsCase: true,
	}
}

func duckdb() dialect {
	return dialect{
		quote: doubled(`"`), text: doubled(`'`), str: "VARCHAR", pad: lpad, part: splitPart,
		field: func(pos, member string) string { return fmt.Sprintf("json_extract_string(%s, '$.%s')", pos, member) },
		tail:  func(expr string) string { return fmt.Sprintf("regexp_extract(%s, '[0-9]+$')", expr) },
		named: func(array, name string) string {
			return fmt.Sprintf("COALESCE(list_contains(%s, %s), false)", array, name)
		},
		list: func(names []string) string {
			return "[c FOR c IN [" + strings.Join(names, ", ") + "] IF c IS NOT NULL]"
		},
		// The struct keeps a value that is null from being passed over.
		pick: func(expr, rank, unnamed string) string {
			if unnamed != "" {
				unnamed = " FILTER (WHERE " + unnamed + ")"
			}
			return "struct_extract(arg_min(struct_pack(v := " + expr + "), " + rank + ")" + unnamed + ", 'v')"
		},
		create: func(view, comment, query string) string {
			return "CREATE OR REPLACE VIEW " + view + " AS\n" + query + ";\nCOMMENT ON VIEW " + view + " IS " + comment + ";\n"
		},
		foldsCase: true,
	}
}

func clickhouse() dialect {
	return dialect{
		quote: backslashed("`"), text: backslashed("'"), str: "String",
		pad:  func(expr string, width int) string { return fmt.Sprintf("leftPad(%s, %d, '0')", expr, width) },
		part: func(expr string, n int) string { return fmt.Sprintf("splitByChar('/', %s)[%d]", expr, n) },
		field: func(pos, member string) string {
			return fmt.Sprintf("trim(BOTH '\"' FROM JSONExtractRaw(assumeNotNull(%s), '%s'))", pos, member)
		},
		tail:  func(expr string) string { return fmt.Sprintf("extract(%s, '[0-9]+$')", expr) },
		named: func(array, name string) string { return fmt.Sprintf("has(%s, %s)", array, name) },
		list: func(names []string) string {
			return "arrayMap(c -> assumeNotNull(c), arrayFilter(c -> c IS NOT NULL, [" + strings.Join(names, ", ") + "]))"
		},
		// The tuple keeps a value that is null from being passed over.
		pick: func(expr, rank, unnamed string) string {
			if unnamed == "" {
				return "tupleElement(argMin(tuple(" + expr + "), " + rank + "), 1)"
			}
			return "tupleElement(argMinIf(tuple(" + expr + "), " + rank + ", " + unnamed + "), 1)"
		},
		create: func(view, comment, query string) string {
			return "CREATE OR REPLACE VIEW " + view + " AS\n" + query + "\nCOMMENT " + comment + ";\n"
		},
	}
}
