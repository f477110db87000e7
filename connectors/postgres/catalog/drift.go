package catalog

import (
	"fmt"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// TableDrift compares a stored table with the catalogue: named is the table that has the stored
// name now, withOID the one that has the stored OID now, nil where there is none; key is the
// key of named. The error blocks and tells what was and what is.
func TableDrift(stored offsets.TableState, named, withOID *Table, key []string) error {
	switch {
	case named == nil && withOID == nil:
		return drifted(stored, "was dropped (it had OID %d)", stored.ID)
	case named == nil || (uint64(named.OID) != stored.ID && withOID != nil):
		return drifted(stored, "with OID %d was renamed or moved to %s", stored.ID, withOID.QualifiedName())
	case uint64(named.OID) != stored.ID:
		return drifted(stored, "was dropped and created again: it had OID %d and has OID %d", stored.ID, named.OID)
	}
	now := named.State(key)
	for _, part := range []struct{ what, was, is string }{
		{"name", stored.Name, now.Name},
		{"key", stored.KeyColumns, now.KeyColumns},
		{"types of the key", stored.KeyTypes, now.KeyTypes},
		{"replica identity", stored.Identity, now.Identity},
	} {
		if part.was != part.is {
			return drifted(stored, "has another %s: it was %s and is %s", part.what, part.was, part.is)
		}
	}
	return nil
}

func drifted(stored offsets.TableState, format string, args ...any) error {
	return connectors.Block(fmt.Errorf("table %s "+format+"; undo that, or start a new generation with connectctl offsets reset WORKER CONNECTOR",
		append([]any{stored.Name}, args...)...))
}
