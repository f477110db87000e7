package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// KeyFor returns the key columns of a table, nil where it is keyless: the configured ones, else
// the primary key, else the columns of its identity index. It refuses what the contract's
// section 2 refuses: a key column that may be NULL or that the log does not carry for updates
// and deletes, and, where the publication publishes those, a table whose updates would fail or
// could not be told apart. ops are those of the publication: AllOperations where it is yet to
// be created or the table yet to be added.
func KeyFor(t *Table, configured []string, ops Operations) ([]string, error) {
	if err := identityError(t, ops); err != nil {
		return nil, err
	}
	key, from := configured, "message.key.columns"
	switch {
	case len(key) > 0:
	case len(t.PrimaryKey) > 0 && t.Deferrable && ops.Update:
		return nil, refuseKey(t, "its primary key is deferrable: rows that exchange keys in one transaction would be published as a create and then a delete of the same key, and consumers would lose the row; make the constraint not deferrable, or name the key in message.key.columns if no keys are exchanged")
	case len(t.PrimaryKey) > 0:
		key, from = t.PrimaryKey, "primary key"
	case t.IdentityKind == 'i' && len(t.IdentityColumns) > 0:
		key, from = t.IdentityColumns, "replica identity index"
	default:
		return nil, nil
	}
	for i, name := range key {
		c := t.Column(name)
		switch {
		case c == nil:
			return nil, refuseKey(t, "message.key.columns names column %q, which the table does not have; its columns are %s", name, columnNames(t))
		case slices.Contains(key[:i], name):
			return nil, refuseKey(t, "message.key.columns names column %q twice", name)
		case !c.NotNull:
			return nil, refuseKey(t, "key column %q (from its %s) may be NULL; run ALTER TABLE %s ALTER COLUMN %s SET NOT NULL, or choose other columns in message.key.columns", name, from, t.Quoted(), quoteIdent(name))
		case c.Generated == 'v':
			return nil, refuseKey(t, "key column %q is a virtual generated column, which the log never carries; choose other columns in message.key.columns", name)
		}
	}
	if !ops.Update && !ops.Delete {
		return slices.Clone(key), nil
	}
	for _, part := range logged(t) {
		if err := carriesKey(t, part, key, from); err != nil {
			return nil, err
		}
	}
	return slices.Clone(key), nil
}

// logged returns the tables whose replica identity decides what the log carries of t.
func logged(t *Table) []*Table {
	if t.Kind == 'p' {
		return t.Leaves
	}
	return []*Table{t}
}

func carriesKey(t, part *Table, key []string, from string) error {
	for _, name := range key {
		if slices.Contains(part.IdentityColumns, name) {
			continue
		}
		of := ""
		if part != t {
			of = " of its partition " + part.QualifiedName()
		}
		return refuseKey(t, "key column %q (from its %s) is not in what the log carries for updates and deletes: replica identity%s is %s%s; run ALTER TABLE %s REPLICA IDENTITY FULL, or set message.key.columns to columns the identity has",
			name, from, of, part.Identity(), inParens(part.IdentityColumns), part.Quoted())
	}
	return nil
}

// identityError refuses a table whose updates or deletes would fail in the application once it
// is published, or that carry nothing.
func identityError(t *Table, ops Operations) error {
	if !ops.Update && !ops.Delete {
		return nil
	}
	for _, part := range logged(t) {
		name := "it"
		if part != t {
			name = "its partition " + part.QualifiedName()
		}
		switch {
		case part.IdentityKind == 'n':
			return refuseKey(t, "%s has REPLICA IDENTITY NOTHING while the publication publishes updates or deletes, which then fail in the application; run ALTER TABLE %s REPLICA IDENTITY DEFAULT (or FULL), or leave the table out", name, part.Quoted())
		case part.IdentityKind == 'i' && len(part.IdentityColumns) == 0:
			return refuseKey(t, "%s has REPLICA IDENTITY USING INDEX, but the index is gone, so updates and deletes fail in the application; run ALTER TABLE %s REPLICA IDENTITY DEFAULT (or FULL)", name, part.Quoted())
		case part.IdentityKind == 'd' && len(part.IdentityColumns) == 0 && len(part.PrimaryKey) > 0:
			return refuseKey(t, "the primary key of %s is deferrable, which the log does not identify rows by, so updates and deletes fail in the application; make it not deferrable, or run ALTER TABLE %s REPLICA IDENTITY FULL and name its columns in message.key.columns if no keys are exchanged between rows", name, part.Quoted())
		case part.IdentityKind == 'd' && len(part.IdentityColumns) == 0:
			return refuseKey(t, "%s has no primary key and no REPLICA IDENTITY FULL while the publication publishes updates and deletes (one created here does), which then fail in the application; add a primary key, run ALTER TABLE %s REPLICA IDENTITY FULL, leave the table out, or use a publication that publishes only inserts with publication.autocreate.mode=disabled", name, part.Quoted())
		}
	}
	return nil
}

func refuseKey(t *Table, format string, args ...any) error {
	return connectors.Refuse(fmt.Errorf("table %s: "+format, append([]any{t.QualifiedName()}, args...)...))
}

func columnNames(t *Table) string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

func inParens(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}
