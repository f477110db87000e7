package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/schema"
)

// wayPast is what helps where rows follow under the changed definition: changing it back comes later in the log.
const wayPast = "changing it back does not change this place of the log; exclude the table (table.exclude.list), which goes on here without it, or reset the stream"

// checkDrift compares a table's new version with the one before. Columns may come and go, and their types change as far
// as consumers can follow, which the encoder judges by the schemas; a key or a replica identity that changed must not pass.
func checkDrift(before *known, rel *pgoutput.Relation, table *schema.Table, key []string, configured bool) error {
	name := table.QualifiedName()
	if err := checkKeyFlags(rel, name, key, configured); err != nil {
		return err
	}
	if before == nil || before.table == nil || !before.pinned {
		return nil
	}
	if was, is := identityKind(before.table.Identity), identityName(rel.ReplicaIdentity); was != is {
		return fmt.Errorf("table %s: the replica identity changed from %s to %s; %s", name, was, is, wayPast)
	}
	for _, k := range key {
		was, is := columnOf(before.table, k), columnOf(table, k)
		if was != nil && is != nil && was.Type.Name != is.Type.Name && was.Type.OID != 0 && !sameDeclared(was, is) {
			return typeChanged(name, was, is)
		}
	}
	return nil
}

func typeChanged(table string, was, is *schema.Column) error {
	return fmt.Errorf("table %s: the type of key column %q changed from %s to %s; %s",
		table, is.Name, was.Type.Name, is.Type.Name, wayPast)
}

// checkKeyFlags compares the key with what the Relation message marks as carried. A message
// without marks says nothing: some servers send none.
func checkKeyFlags(rel *pgoutput.Relation, name string, key []string, configured bool) error {
	var flagged []string
	for i := range rel.Columns {
		if rel.Columns[i].Key() {
			flagged = append(flagged, rel.Columns[i].Name)
		}
	}
	if len(flagged) == 0 || rel.ReplicaIdentity == pgoutput.IdentityFull {
		return nil
	}
	more := rel.ReplicaIdentity == pgoutput.IdentityDefault && !configured && len(flagged) > len(key) && len(key) > 0
	for i, k := range key {
		if !slices.Contains(flagged, k) || (more && i == 0) {
			return fmt.Errorf("table %s: the key is (%s), but updates and deletes carry (%s) from here on; %s",
				name, strings.Join(key, ", "), strings.Join(flagged, ", "), wayPast)
		}
	}
	if len(key) == 0 {
		return fmt.Errorf("table %s has the key (%s) from here on and had none; %s", name, strings.Join(flagged, ", "), wayPast)
	}
	return nil
}

// checkCatalogue compares the captured tables with the catalogue of now: what the log alone does
// not show until a row of the table follows.
func (p *planner) checkCatalogue(ctx context.Context, tables []*catalog.Table, refs []catalog.TableRef) error {
	byOID := make(map[uint32]*catalog.Table, len(tables))
	for _, t := range tables {
		byOID[t.OID] = t
	}
	named := make(map[string]uint32, len(refs))
	for _, r := range refs {
		named[r.QualifiedName()] = r.OID
	}
	for oid, k := range p.tables {
		if k.table == nil || k.state == nil || !k.pinned {
			continue
		}
		withOID := byOID[oid]
		byName := withOID
		if now, ok := named[k.table.QualifiedName()]; !ok {
			byName = nil
		} else if now != oid {
			t, err := p.lookup.table(ctx, now)
			if err != nil {
				return fmt.Errorf("read table %s from the catalogue: %w", k.table.QualifiedName(), err)
			}
			byName = t
		}
		if byName == nil && withOID == nil {
			continue // dropped: nothing more will come of it
		}
		if err := catalog.TableDrift(*k.state, byName, withOID, p.currentKey(byName)); err != nil {
			return err
		}
	}
	return nil
}

// currentKey is the key a table has by the catalogue; one the contract refuses is no key.
func (p *planner) currentKey(t *catalog.Table) []string {
	if t == nil {
		return nil
	}
	key, err := catalog.KeyFor(t, p.filter.key(t.Schema, t.Name), p.ops)
	if err != nil {
		return nil
	}
	return key
}

// captured returns the OIDs of the captured tables.
func (p *planner) captured() []uint32 {
	var out []uint32
	for oid, k := range p.tables {
		if k.table != nil {
			out = append(out, oid)
		}
	}
	return out
}

func columnOf(t *schema.Table, name string) *schema.Column {
	if i := t.ColumnIndex(name); i >= 0 {
		return &t.Columns[i]
	}
	return nil
}

// identityKind is the kind of an identity as schema.Table has it: "index users_email" is "index".
func identityKind(identity string) string {
	kind, _, _ := strings.Cut(identity, " ")
	return kind
}

// sameDeclared tells whether two columns are declared alike: a type has one name while the
// catalogue knows it and another once it is gone.
func sameDeclared(a, b *schema.Column) bool {
	return a.Type.OID == b.Type.OID && sameMapping(&a.Type, &b.Type) && strings.Contains(a.Type.Name, "(") == strings.Contains(b.Type.Name, "(")
}

// sameMapping tells whether two types are published alike: varchar(30) and varchar(60) are.
func sameMapping(a, b *schema.Type) bool {
	if a.Kind != b.Kind || a.Logical != b.Logical || a.Bits != b.Bits || a.Precision != b.Precision || a.Scale != b.Scale {
		return false
	}
	if a.Elem == nil || b.Elem == nil {
		return a.Elem == b.Elem
	}
	return sameMapping(a.Elem, b.Elem)
}

func sameType(a, b *schema.Type) bool {
	return sameMapping(a, b) && a.Name == b.Name && a.OID == b.OID && slices.Equal(labels(a), labels(b))
}

// labels are those of an enum or of an array of one.
func labels(t *schema.Type) []string {
	if t.Elem != nil {
		return t.Elem.Labels
	}
	return t.Labels
}

func sameTable(a, b *schema.Table) bool {
	return a.ID == b.ID && a.Namespace == b.Namespace && a.Name == b.Name && a.Identity == b.Identity && slices.Equal(a.Key, b.Key) &&
		slices.EqualFunc(a.Columns, b.Columns, func(x, y schema.Column) bool {
			return x.Name == y.Name && x.NotNull == y.NotNull && x.Default == y.Default && sameType(&x.Type, &y.Type)
		})
}

func sameRelation(a, b *pgoutput.Relation) bool {
	return a.ID == b.ID && a.Namespace == b.Namespace && a.Name == b.Name && a.ReplicaIdentity == b.ReplicaIdentity && slices.Equal(a.Columns, b.Columns)
}

// parseNames reads the key columns of a stored table: a JSON array of names.
func parseNames(text string) ([]string, error) {
	var names []string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		return nil, connectors.Refuse(fmt.Errorf("read stored key columns: %w", err))
	}
	return names, nil
}
