package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
)

// paging compares rows by columns as the server orders them; nothing is compared here. Values are the text that the
// server printed, given back to it as parameters of the columns' types.
type paging []catalog.PageColumn

// query is a query being written, and its parameters.
type query struct {
	sql    strings.Builder
	values [][]byte
	types  []uint32
}

// param adds a parameter and returns it as SQL, in the column's collation: a domain may have another one.
func (q *query) param(c *catalog.PageColumn, text string) string {
	q.values, q.types = append(q.values, []byte(text)), append(q.types, c.TypeOID)
	if c.Collation == "" {
		return fmt.Sprintf("$%d", len(q.values))
	}
	return fmt.Sprintf("$%d COLLATE %s", len(q.values), c.Collation)
}

func compare(c *catalog.PageColumn, op, param string) string {
	return fmt.Sprintf("%s OPERATOR(%s.%s) (%s)", c.Expr, c.Schema, op, param)
}

// alike tells whether the columns' operators have the same names, so that rows can be compared as such, by an index.
func (p paging) alike() bool {
	for i := range p {
		if p[i].Schema != p[0].Schema || p[i].Greater != p[0].Greater {
			return false
		}
	}
	return true
}

// after writes the condition that a row comes after the given values.
func (p paging) after(q *query, at []string) string {
	if p.alike() {
		names, params := make([]string, len(p)), make([]string, len(p))
		for i := range p {
			names[i], params[i] = p[i].Expr, q.param(&p[i], at[i])
		}
		return fmt.Sprintf("(%s) OPERATOR(%s.%s) (%s)", strings.Join(names, ", "), p[0].Schema, p[0].Greater, strings.Join(params, ", "))
	}
	c := &p[0]
	param := q.param(c, at[0])
	if len(p) == 1 {
		return compare(c, c.Greater, param)
	}
	return fmt.Sprintf("(%s AND (%s OR (%s)))", compare(c, c.GreatEqual, param), compare(c, c.Greater, param), p[1:].after(q, at[1:]))
}

// equal writes the condition that a row has the given values.
func (p paging) equal(q *query, at []string) string {
	parts := make([]string, len(p))
	for i := range p {
		parts[i] = compare(&p[i], p[i].Equal, q.param(&p[i], at[i]))
	}
	return "(" + strings.Join(parts, " AND ") + ")"
}

func (p paging) order() string {
	names := make([]string, len(p))
	for i := range p {
		names[i] = pgx.Identifier{p[i].Name}.Sanitize()
	}
	return strings.Join(names, ", ")
}

func (p paging) names() []string {
	names := make([]string, len(p))
	for i := range p {
		names[i] = p[i].Name
	}
	return names
}

// formatTexts writes key texts as a place to go on at, or a key to read again: a JSON array.
func formatTexts(texts []string) string {
	out, err := json.Marshal(texts)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(out)
}

// parseTexts reads what formatTexts wrote.
func (p paging) parseTexts(table, what, text string) ([]string, error) {
	var texts []string
	if err := json.Unmarshal([]byte(text), &texts); err != nil || len(texts) != len(p) {
		return nil, connectors.Refuse(fmt.Errorf("read chunk of %s: %s %.100q does not fit the columns (%s); stop its snapshot and begin it anew", table, what, text, strings.Join(p.names(), ", ")))
	}
	return texts, nil
}

// checkTexts refuses texts that JSON would change: PostgreSQL 14 prints a "char" above 127 as a lone byte.
func checkTexts(table string, texts [][]byte) error {
	for _, t := range texts {
		if !utf8.Valid(t) {
			return connectors.Refuse(fmt.Errorf("read chunk of %s: a key value is not UTF-8 text, so reading cannot go on after it; snapshot the table by another unique column (surrogate key)", table))
		}
	}
	return nil
}
