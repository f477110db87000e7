// Package dedupview writes the SQL of a view that shows the current state of a table, over a
// table into which its topic was loaded: one row per record, with the columns of the flat value.
//
// The newest record of a key is the one with the highest (generation, commit position, ordinal).
// A key whose newest record is a delete is not shown. A column that the newest record names in
// __unavailable has its value from the newest record before it that does not name it; a delete or
// create of the key ends that search, since what was there before it is another row's value.
package dedupview

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemark-cdc/tidemark/pipeline/verify"
	"github.com/tidemark-cdc/tidemark/schema/avro"
)

// The engines, by the form of their commit positions.
const (
	PostgreSQL = "postgresql"
	MySQL      = "mysql"
	SQLServer  = "sqlserver"
)

// Engines returns the names of all engines.
func Engines() []string { return []string{PostgreSQL, MySQL, SQLServer} }

// Column is a column of the loaded table.
type Column struct {
	Name   string // in the loaded table: the Avro field's
	Source string // in the database: as __unavailable names it
}

// ColumnOf returns the column that a sink loads from the Avro field of that name.
func ColumnOf(field string) Column { return Column{Name: field, Source: avro.Original(field)} }

// Spec says what view to write.
type Spec struct {
	Topic   string
	Dialect string   // one of Dialects
	Engine  string   // one of Engines
	Key     []string // names of the key columns in the loaded table
	Columns []Column // all columns but the metadata, the key's included, in the view's order
	// Table, View and Generations are qualified names, a part each. Generations is the loaded topic of
	// activation records; empty: all generations count.
	Table, View, Generations []string
	// Prefix begins the names of the metadata columns; empty: "__".
	Prefix string
	// Fold is "upper" or "lower" where the loader changed the case of column names; empty: it did not.
	Fold string
}

var legalTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Check reports what is wrong with a spec, in one sentence.
func (s *Spec) Check() error {
	d, ok := dialects()[s.Dialect]
	switch {
	case !ok:
		return fmt.Errorf("dialect %q is not one of %s", s.Dialect, strings.Join(Dialects(), ", "))
	case !slices.Contains(Engines(), s.Engine):
		return fmt.Errorf("engine %q is not one of %s", s.Engine, strings.Join(Engines(), ", "))
	case !legalTopic.MatchString(s.Topic):
		return fmt.Errorf("%q is not a topic's name", s.Topic)
	case len(s.Key) == 0:
		return fmt.Errorf("topic %s has no key: without one there is no newest record of a row", s.Topic)
	case s.Fold != "" && s.Fold != "upper" && s.Fold != "lower":
		return fmt.Errorf("case %q is not upper or lower", s.Fold)
	}
	seen := map[string]string{}
	names := s.names()
	for _, f := range metadata {
		names = append(names, s.meta(f))
	}
	for _, name := range names {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("column name %q is empty or holds a control character", name)
		}
		same := s.fold(name)
		if d.foldsCase {
			same = strings.ToLower(name)
		}
		if other, ok := seen[same]; ok && other == name {
			return fmt.Errorf("column %s is named twice", name)
		} else if ok {
			return fmt.Errorf("columns %s and %s are one column in the loaded table, which does not tell upper from lower case", other, name)
		}
		seen[same] = name
	}
	for i, k := range s.Key {
		if slices.Contains(s.Key[:i], k) {
			return fmt.Errorf("key column %s is named twice", k)
		}
		if !slices.Contains(s.names(), k) {
			return fmt.Errorf("key column %s is not among the columns %s", k, strings.Join(s.names(), ", "))
		}
	}
	return s.checkTables()
}

func (s *Spec) checkTables() error {
	for _, n := range []struct {
		what  string
		parts []string
	}{{"table", s.Table}, {"view", s.View}} {
		if len(n.parts) == 0 {
			return fmt.Errorf("the %s has no name", n.what)
		}
	}
	if slices.Equal(s.Table, s.View) {
		return fmt.Errorf("the view cannot have the table's name %s", strings.Join(s.Table, "."))
	}
	return nil
}

// names returns the names of the columns, without the metadata.
func (s *Spec) names() []string {
	names := make([]string, len(s.Columns))
	for i, c := range s.Columns {
		names[i] = c.Name
	}
	return names
}

func (s *Spec) fold(name string) string {
	switch s.Fold {
	case "upper":
		return strings.ToUpper(name)
	case "lower":
		return strings.ToLower(name)
	}
	return name
}

// metadata are the metadata columns, in the order of the value's schema.
var metadata = [...]string{avro.FieldOp, avro.FieldPos, avro.FieldSeq, avro.FieldGen, avro.FieldTs, avro.FieldUnavailable}

func (s *Spec) meta(field string) string { return avro.Options{MetadataPrefix: s.Prefix}.Field(field) }

// ParseName splits a table's name at its dots. A part that holds a dot is written in double
// quotes or backticks, with such a quote inside doubled.
func ParseName(name string) ([]string, error) {
	var parts []string
	bad := fmt.Errorf("name %q is not NAME, SCHEMA.NAME or parts in double quotes", name)
	for rest := name; ; {
		part, tail, ok := nextPart(rest)
		if !ok || part == "" || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, bad
		}
		parts = append(parts, part)
		if tail == "" {
			return parts, nil
		}
		if tail[0] != '.' {
			return nil, bad
		}
		rest = tail[1:]
	}
}

func nextPart(s string) (part, tail string, ok bool) {
	if s == "" || (s[0] != '"' && s[0] != '`') {
		end := strings.IndexByte(s, '.')
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], !strings.ContainsAny(s[:end], "\"`")
	}
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != quote {
			b.WriteByte(s[i])
		} else if i+1 < len(s) && s[i+1] == quote {
			b.WriteByte(quote)
			i++
		} else {
			return b.String(), s[i+1:], true
		}
	}
	return "", "", false
}

// TableOf returns the default name of the loaded table: the topic's, with an underscore for
// everything that is no ASCII letter or digit.
func TableOf(topic string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9') {
			return r
		}
		return '_'
	}, topic)
}

// EngineOf tells the engine from the form of a commit position.
func EngineOf(pos string) (string, error) {
	if _, err := verify.ParsePos(pos); err != nil {
		return "", err
	}
	var v struct {
		LSN string `json:"lsn"`
	}
	if err := json.Unmarshal([]byte(pos), &v); err != nil {
		return "", fmt.Errorf("read a commit position: %w", err)
	}
	switch {
	case strings.Contains(v.LSN, "/"):
		return PostgreSQL, nil
	case v.LSN != "":
		return SQLServer, nil
	}
	return MySQL, nil
}

// FromSchemas takes the key, the columns and the metadata's prefix of a topic from its Avro schemas.
// An empty key schema leaves the key alone.
func (s *Spec) FromSchemas(key, value string) error {
	v, err := avro.NewCodec(value)
	if err != nil {
		return fmt.Errorf("value of topic %s: %w", s.Topic, err)
	}
	fields := v.Fields()
	n := len(fields) - len(metadata)
	if n < 0 || !strings.HasSuffix(fields[n], avro.FieldOp) {
		return fmt.Errorf("topic %s is not in the flat format: its value does not end in __op, __pos, __seq, __gen, __ts_us and __unavailable", s.Topic)
	}
	s.Prefix = strings.TrimSuffix(fields[n], avro.FieldOp)
	for i, f := range metadata {
		if fields[n+i] != s.Prefix+f {
			return fmt.Errorf("topic %s is not in the flat format: field %s of its value is not %s%s", s.Topic, fields[n+i], s.Prefix, f)
		}
	}
	s.Columns = nil
	for _, f := range fields[:n] {
		s.Columns = append(s.Columns, ColumnOf(f))
	}
	if key == "" {
		return nil
	}
	k, err := avro.NewCodec(key)
	if err != nil {
		return fmt.Errorf("key of topic %s: %w", s.Topic, err)
	}
	s.Key = k.Fields()
	return nil
}
