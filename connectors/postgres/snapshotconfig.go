package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
)

// The properties of snapshots.
const (
	propSnapshotMode     = "snapshot.mode"
	propSnapshotInclude  = "snapshot.include.collection.list"
	propSnapshotOverride = "snapshot.select.statement.overrides"
	propSnapshotThreads  = "snapshot.max.threads"
	propSnapshotRate     = "snapshot.max.rows.per.second"
	propSnapshotChunk    = "incremental.snapshot.chunk.size"
)

// snapshotMode says when the rows that tables have are read.
type snapshotMode string

// The modes.
const (
	modeInitial     snapshotMode = "initial"
	modeInitialOnly snapshotMode = "initial_only"
	modeNoData      snapshotMode = "no_data"
	modeAlways      snapshotMode = "always"
	modeWhenNeeded  snapshotMode = "when_needed"
)

var snapshotModes = []snapshotMode{modeInitial, modeInitialOnly, modeAlways, modeWhenNeeded, modeNoData}

// reads reports whether a stream without offsets begins with the rows of its tables.
func (m snapshotMode) reads() bool { return m != modeNoData }

func parseSnapshotMode(v string) (snapshotMode, error) {
	switch m := snapshotMode(strings.ToLower(strings.TrimSpace(v))); m {
	case modeInitial, modeInitialOnly, modeAlways, modeWhenNeeded, modeNoData:
		return m, nil
	case "never", "schema_only":
		if m == "never" {
			return modeNoData, nil
		}
		return "", fmt.Errorf("%q has been called no_data since Debezium 2.6; set it to no_data", v)
	case "configuration_based", "custom":
		return "", fmt.Errorf("%q is not supported; nearest is initial, with %s for the tables to read", v, propSnapshotInclude)
	case "recovery", "schema_only_recovery":
		return "", fmt.Errorf("%q is not needed for PostgreSQL, which has no schema history; nearest is when_needed, which reads the tables again where the log is gone", v)
	case "exported", "initial_schema_only":
		return "", fmt.Errorf("%q is not supported; nearest is initial, which exports a snapshot with the slot", v)
	}
	names := make([]string, len(snapshotModes))
	for i, m := range snapshotModes {
		names[i] = string(m)
	}
	return "", fmt.Errorf("%q is not one of %s (or never, the same as no_data)", v, strings.Join(names, ", "))
}

func checkSnapshotMode(v string) error {
	_, err := parseSnapshotMode(v)
	return err
}

// snapshotSpec are the properties of snapshots.
func snapshotSpec() connectors.Spec {
	return connectors.Spec{
		{Name: propSnapshotMode, Type: connectors.TypeString, Default: string(modeInitial), Check: checkSnapshotMode, Doc: "When the rows that tables have are read: initial, before a stream that has no offsets; initial_only, likewise, and the stream ends then; always, at every start; when_needed, like initial, and again in a new generation where the log from the stored position on is gone; no_data (or never), not at all."},
		{Name: propSnapshotInclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Captured tables whose rows are read, as schema.table; all where absent." + listDoc},
		{Name: propSnapshotOverride, Type: connectors.TypeList, Doc: "Tables, as schema.table, whose initial rows a statement of yours selects; each has a property of its own for it."},
		{Name: propSnapshotOverride + ".*", Type: connectors.TypeString, Doc: "SELECT statement for the table schema.table that ends the name, which the list names too. It gives the captured columns, by name. Snapshots on demand do not use it."},
		{Name: propSnapshotThreads, Type: connectors.TypeInt, Default: "2", Check: checkRange(1, 64), Doc: "How many connections read rows at once."},
		{Name: propSnapshotChunk, Type: connectors.TypeInt, Default: "10240", Check: checkRange(1, 1_000_000), Doc: "Most rows of a chunk, where tables are read while the stream runs."},
		{Name: propSnapshotRate, Type: connectors.TypeLong, Default: "0", Check: checkRange(0, 1_000_000_000), Doc: "Most rows a second that are read from tables, of all connections together; 0 for no limit."},
	}
}

// snapshots are the settings of snapshots.
type snapshots struct {
	mode      snapshotMode
	include   patterns          // empty: all
	overrides map[string]string // statement by qualified name
	threads   int
	pages     int64 // of a table that are read at once
}

// includes reports whether a captured table's rows are read.
func (s *snapshots) includes(name string) bool { return len(s.include) == 0 || s.include.match(name) }

// IncludesTable reports whether the rows of a captured table, by qualified name, are part of snapshots that are not asked for by name.
func IncludesTable(cfg connectors.Config) func(name string) bool {
	list, err := parsePatterns(cfg.String(propSnapshotInclude))
	if err != nil { // the property's own check tells
		return func(string) bool { return true }
	}
	return (&snapshots{include: list}).includes
}

func newSnapshots(cfg connectors.Config) (s snapshots, err error) {
	if s.mode, err = parseSnapshotMode(cfg.String(propSnapshotMode)); err != nil {
		return s, connectors.Refuse(fmt.Errorf("%s: %w", propSnapshotMode, err))
	}
	if s.include, err = parsePatterns(cfg.String(propSnapshotInclude)); err != nil {
		return s, connectors.Refuse(fmt.Errorf("%s: %w", propSnapshotInclude, err))
	}
	s.pages, s.threads = exportRangePages, max(1, int(cfg.Int(propSnapshotThreads)))
	if s.overrides, err = parseOverrides(cfg); err != nil {
		return s, connectors.Refuse(err)
	}
	return s, nil
}

// parseOverrides pairs the tables of the list with their statements.
func parseOverrides(cfg connectors.Config) (map[string]string, error) {
	statements := cfg.WithPrefix(propSnapshotOverride + ".")
	out := map[string]string{}
	for _, name := range cfg.List(propSnapshotOverride) {
		if !strings.Contains(name, ".") {
			return nil, fmt.Errorf("%s: %q is not schema.table", propSnapshotOverride, name)
		}
		text := strings.TrimRight(strings.TrimSpace(statements[name]), "; \t\r\n")
		if text == "" {
			return nil, fmt.Errorf("%s: there is no property %s.%s with the statement for table %s", propSnapshotOverride, propSnapshotOverride, name, name)
		}
		out[name] = text
	}
	for name := range statements {
		if name == "*" || out[name] != "" {
			continue
		}
		return nil, fmt.Errorf("%s.%s: %s does not name table %s; add it there, or remove the statement", propSnapshotOverride, name, propSnapshotOverride, name)
	}
	return out, nil
}

// unknownTables says what the settings name that is not captured; with none captured nothing.
func (s *snapshots) unknownTables(captured []string) []connectors.Problem {
	var problems []connectors.Problem
	if len(captured) == 0 {
		return nil
	}
	for _, p := range s.include {
		if !slices.ContainsFunc(captured, p.re.MatchString) {
			problems = append(problems, connectors.Problem{Property: propSnapshotInclude, Message: fmt.Sprintf("%q matches no captured table; captured are %s", p.text, someNames(captured))})
		}
	}
	for name := range s.overrides {
		if !slices.Contains(captured, name) {
			problems = append(problems, connectors.Problem{Property: propSnapshotOverride, Message: fmt.Sprintf("%q is no captured table; captured are %s", name, someNames(captured))})
		}
	}
	return problems
}

// someNames joins the first few names.
func someNames(names []string) string {
	if len(names) > 8 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:8], ", "), len(names)-8)
	}
	return strings.Join(names, ", ")
}

func qualifiedNames(tables []*catalog.Table) []string {
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.QualifiedName()
	}
	return names
}
