package postgres

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
)

// pattern is one member of a list of regular expressions.
type pattern struct {
	text string
	re   *regexp.Regexp
}

type patterns []pattern

func (p patterns) match(name string) bool {
	for i := range p {
		if p[i].re.MatchString(name) {
			return true
		}
	}
	return false
}

// parsePatterns reads a comma-separated list of regular expressions. As with Debezium they are
// anchored and ignore case; a comma inside one is written \, or stands in [] or {}.
func parsePatterns(list string) (patterns, error) {
	var out patterns
	for _, text := range splitPatterns(list) {
		re, err := regexp.Compile(`(?i)^(?:` + text + `)$`)
		if err != nil {
			return nil, fmt.Errorf("%q is not a regular expression (RE2 syntax): %w", text, err)
		}
		out = append(out, pattern{text, re})
	}
	return out, nil
}

func splitPatterns(list string) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if s := strings.TrimSpace(b.String()); s != "" {
			out = append(out, s)
		}
		b.Reset()
	}
	depth := 0
	for i := 0; i < len(list); i++ {
		c := list[i]
		switch {
		case c == '\\' && i+1 < len(list):
			i++
			if list[i] != ',' {
				b.WriteByte(c)
			}
			b.WriteByte(list[i])
			continue
		case c == '[' || c == '{':
			depth++
		case (c == ']' || c == '}') && depth > 0:
			depth--
		case c == ',' && depth == 0:
			flush()
			continue
		}
		b.WriteByte(c)
	}
	flush()
	return out
}

// keyRule is one member of message.key.columns.
type keyRule struct {
	table   pattern
	columns []string
}

// parseKeyRules reads "schema.table:col1,col2;other:col".
func parseKeyRules(text string) ([]keyRule, error) {
	var out []keyRule
	for _, member := range strings.Split(text, ";") {
		if member = strings.TrimSpace(member); member == "" {
			continue
		}
		at := strings.LastIndexByte(member, ':')
		if at <= 0 {
			return nil, fmt.Errorf("%q is not of the form schema.table:column,column", member)
		}
		tables, err := parsePatterns(strings.ReplaceAll(member[:at], ",", `\,`))
		if err != nil {
			return nil, err
		}
		rule := keyRule{}
		for _, c := range strings.Split(member[at+1:], ",") {
			if c = strings.TrimSpace(c); c != "" {
				rule.columns = append(rule.columns, c)
			}
		}
		if len(rule.columns) == 0 || len(tables) != 1 {
			return nil, fmt.Errorf("%q names no column", member)
		}
		rule.table = tables[0]
		out = append(out, rule)
	}
	return out, nil
}

// filter is what the lists say of tables and columns.
type filter struct {
	schemaIn, schemaOut patterns
	tableIn, tableOut   patterns
	columnIn, columnOut patterns
	keys                []keyRule
}

// newFilter builds the filter of a checked configuration.
func newFilter(cfg connectors.Config) (*filter, error) {
	f := &filter{}
	for _, l := range []struct {
		name string
		into *patterns
	}{
		{propSchemaInclude, &f.schemaIn}, {propSchemaExclude, &f.schemaOut},
		{propTableInclude, &f.tableIn}, {propTableExclude, &f.tableOut},
		{propColumnInclude, &f.columnIn}, {propColumnExclude, &f.columnOut},
	} {
		p, err := parsePatterns(cfg.String(l.name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		*l.into = p
	}
	keys, err := parseKeyRules(cfg.String(propKeyColumns))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", propKeyColumns, err)
	}
	f.keys = keys
	return f, nil
}

// table reports whether a table is captured.
func (f *filter) table(schema, name string) bool {
	if strings.HasPrefix(schema, "pg_") || schema == "information_schema" {
		return false
	}
	full := schema + "." + name
	switch {
	case len(f.schemaIn) > 0 && !f.schemaIn.match(schema), f.schemaOut.match(schema):
		return false
	case len(f.tableIn) > 0 && !f.tableIn.match(full), f.tableOut.match(full):
		return false
	}
	return true
}

// column reports whether a column of a captured table is captured.
func (f *filter) column(schema, table, name string) bool {
	full := schema + "." + table + "." + name
	return (len(f.columnIn) == 0 || f.columnIn.match(full)) && !f.columnOut.match(full)
}

// key returns the configured key columns of a table, nil where there are none.
func (f *filter) key(schema, table string) []string {
	for i := range f.keys {
		if f.keys[i].table.re.MatchString(schema + "." + table) {
			return f.keys[i].columns
		}
	}
	return nil
}

// selectors are the members of table.include.list, to be checked for one that matches nothing.
// included is the table include list as configured.
func (f *filter) included() string {
	texts := make([]string, len(f.tableIn))
	for i, p := range f.tableIn {
		texts[i] = p.text
	}
	return strings.Join(texts, ", ")
}

func (f *filter) selectors() []catalog.Selector {
	out := make([]catalog.Selector, len(f.tableIn))
	for i, p := range f.tableIn {
		out[i] = catalog.Selector{Text: p.text, Matches: func(schema, table string) bool {
			return p.re.MatchString(schema + "." + table)
		}}
	}
	return out
}

// members are those of the lists of columns and excluded tables and of message.key.columns, likewise.
func (f *filter) members() []catalog.Member {
	var out []catalog.Member
	add := func(property string, columns bool, list ...pattern) {
		for _, p := range list {
			out = append(out, catalog.Member{Property: property, Text: p.text, Columns: columns, Matches: p.re.MatchString})
		}
	}
	add(propTableExclude, false, f.tableOut...)
	add(propColumnInclude, true, f.columnIn...)
	add(propColumnExclude, true, f.columnOut...)
	for _, k := range f.keys {
		add(propKeyColumns, false, k.table)
	}
	return out
}
