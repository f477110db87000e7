package pgoutput

import "fmt"

// What identifies a row in updates and deletes (pg_class.relreplident).
const (
	IdentityDefault byte = 'd' // the primary key, if there is one
	IdentityNothing byte = 'n'
	IdentityFull    byte = 'f' // the whole row
	IdentityIndex   byte = 'i' // the columns of a chosen unique index
)

// Relation describes a table as it was at this place of the log. The server
// sends it before the table's first change in a connection and again after the
// table changed.
type Relation struct {
	ID              uint32 // the table's OID
	Namespace       string // the schema; pg_catalog where the wire has ""
	Name            string
	ReplicaIdentity byte // one of the Identity constants
	Columns         []RelationColumn
}

// RelationColumn describes a column: published, not dropped, not generated.
type RelationColumn struct {
	Flags        byte // bit 0: part of the key; see Key
	Name         string
	TypeOID      uint32
	TypeModifier int32 // pg_attribute.atttypmod; -1 where the type has none
}

const flagKey byte = 1

// Key reports whether the column is part of the replica identity. With
// REPLICA IDENTITY FULL every column is.
func (c *RelationColumn) Key() bool { return c.Flags&flagKey != 0 }

// minColumn is the length of a column with an empty name.
const minColumn = 1 + 1 + 4 + 4

// Decode reads a Relation message: R, Int32 OID, String namespace, String name,
// Int8 replica identity, Int16 number of columns; for each: Int8 flags, String
// name, Int32 type OID, Int32 type modifier. It allocates; the result shares
// nothing with src or with an earlier result.
func (m *Relation) Decode(src []byte) error {
	r := open(src, KindRelation)
	m.ID = r.uint32("relation id")
	m.Namespace = r.namespace()
	m.Name = string(r.cstring("name"))
	m.ReplicaIdentity = r.byte("replica identity")
	switch m.ReplicaIdentity {
	case IdentityDefault, IdentityNothing, IdentityFull, IdentityIndex:
	default:
		r.fail(r.off-1, "replica identity", fmt.Sprintf("is 0x%02x, not one of d, n, f, i", m.ReplicaIdentity))
	}
	m.Columns = nil
	n := r.count16("number of columns", minColumn)
	if r.err != nil {
		return r.err
	}
	cols := make([]RelationColumn, n)
	for i := 0; i < n && r.err == nil; i++ {
		c := &cols[i]
		c.Flags = r.byte("column flags")
		if c.Flags&^flagKey != 0 {
			r.fail(r.off-1, "column flags", fmt.Sprintf("is 0x%02x, not 0 or 1", c.Flags))
		}
		c.Name = string(r.cstring("column name"))
		c.TypeOID = r.uint32("column type OID")
		c.TypeModifier = int32(r.uint32("column type modifier"))
	}
	m.Columns = cols
	return r.end()
}
