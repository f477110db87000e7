package schema

import (
	"fmt"
	"slices"
	"strings"
)

// ChangeKind tells what changed between two versions of a table.
type ChangeKind uint8

// The kinds of change. A renamed column is one dropped and one added: names are all that
// two versions have in common.
const (
	ColumnAdded ChangeKind = iota + 1
	ColumnDropped
	TypeChanged
	LabelsChanged // an enum's labels
	NullabilityChanged
	ColumnsReordered
	KeyChanged
	IdentityChanged // replica identity
	TableRenamed    // or moved to another schema
	Recreated       // another table under the same or another name
)

// Change is one difference between two versions of a table.
type Change struct {
	Kind     ChangeKind
	Column   string // where it is about one column
	Old, New string // types, keys, identities or names, in the database's words
}

// String returns the change as one phrase.
func (c Change) String() string {
	switch c.Kind {
	case ColumnAdded:
		return fmt.Sprintf("column %q (%s) was added", c.Column, c.New)
	case ColumnDropped:
		return fmt.Sprintf("column %q (%s) was dropped", c.Column, c.Old)
	case TypeChanged:
		return fmt.Sprintf("the type of column %q changed from %s to %s", c.Column, c.Old, c.New)
	case LabelsChanged:
		return fmt.Sprintf("the labels of column %q changed from %s to %s", c.Column, c.Old, c.New)
	case NullabilityChanged:
		return fmt.Sprintf("column %q changed from %s to %s", c.Column, c.Old, c.New)
	case ColumnsReordered:
		return fmt.Sprintf("the order of columns changed from (%s) to (%s)", c.Old, c.New)
	case KeyChanged:
		return fmt.Sprintf("the key changed from (%s) to (%s)", c.Old, c.New)
	case IdentityChanged:
		return fmt.Sprintf("the replica identity changed from %s to %s", c.Old, c.New)
	case TableRenamed:
		return fmt.Sprintf("the table was renamed from %s to %s", c.Old, c.New)
	case Recreated:
		return fmt.Sprintf("the table was dropped and created again (id %s, now %s)", c.Old, c.New)
	}
	return "unknown change"
}

// Diff returns what changed from one version of a table to another: the table first, then
// its columns in the order of the old version, then the added ones.
func Diff(before, after *Table) []Change {
	changes := diffTable(before, after)
	for i := range before.Columns {
		o := &before.Columns[i]
		j := after.ColumnIndex(o.Name)
		if j < 0 {
			changes = append(changes, Change{Kind: ColumnDropped, Column: o.Name, Old: o.Type.describe()})
			continue
		}
		changes = appendColumn(changes, o, &after.Columns[j])
	}
	for j := range after.Columns {
		n := &after.Columns[j]
		if before.ColumnIndex(n.Name) < 0 {
			changes = append(changes, Change{Kind: ColumnAdded, Column: n.Name, New: n.Type.describe()})
		}
	}
	return changes
}

func diffTable(before, after *Table) []Change {
	var changes []Change
	add := func(kind ChangeKind, o, n string) {
		if o != n {
			changes = append(changes, Change{Kind: kind, Old: o, New: n})
		}
	}
	add(Recreated, fmt.Sprint(before.ID), fmt.Sprint(after.ID))
	add(TableRenamed, before.QualifiedName(), after.QualifiedName())
	add(KeyChanged, quoteAll(before.KeyColumns()), quoteAll(after.KeyColumns()))
	add(IdentityChanged, before.Identity, after.Identity)
	add(ColumnsReordered, quoteAll(common(before, after)), quoteAll(common(after, before)))
	return changes
}

func appendColumn(changes []Change, o, n *Column) []Change {
	if !o.Type.same(&n.Type) {
		changes = append(changes, Change{Kind: TypeChanged, Column: o.Name, Old: o.Type.describe(), New: n.Type.describe()})
	} else if ol, nl := o.Type.labels(), n.Type.labels(); !slices.Equal(ol, nl) {
		changes = append(changes, Change{Kind: LabelsChanged, Column: o.Name, Old: quoteAll(ol), New: quoteAll(nl)})
	}
	if o.NotNull != n.NotNull {
		changes = append(changes, Change{Kind: NullabilityChanged, Column: o.Name, Old: nullability(o), New: nullability(n)})
	}
	return changes
}

// same reports whether two types are one type, labels aside. An engine's id of the type may
// differ: a type dropped and created alike is the same to a consumer.
func (t *Type) same(u *Type) bool {
	if t.Kind != u.Kind || t.Logical != u.Logical || t.Bits != u.Bits || t.Precision != u.Precision ||
		t.Scale != u.Scale || t.Name != u.Name || (t.Elem == nil) != (u.Elem == nil) {
		return false
	}
	return t.Elem == nil || t.Elem.same(u.Elem)
}

func (t *Type) labels() []string {
	if t.Elem != nil {
		return t.Elem.Labels
	}
	return t.Labels
}

func (t *Type) describe() string {
	if t.Name != "" {
		return t.Name
	}
	return t.Kind.String()
}

// common returns the columns of t that u has too, in the order of t.
func common(t, u *Table) []string {
	var names []string
	for i := range t.Columns {
		if u.ColumnIndex(t.Columns[i].Name) >= 0 {
			names = append(names, t.Columns[i].Name)
		}
	}
	return names
}

func nullability(c *Column) string {
	if c.NotNull {
		return "NOT NULL"
	}
	return "nullable"
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ")
}
