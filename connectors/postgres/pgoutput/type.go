package pgoutput

// Type names a column type that is not built in. The server sends it before a
// [Relation] that uses it.
type Type struct {
	OID       uint32
	Namespace string // the schema; pg_catalog where the wire has ""
	Name      string // for a domain: the name of its base type
}

// Decode reads a Type message: Y, Int32 OID, String namespace, String name.
func (m *Type) Decode(src []byte) error {
	r := open(src, KindType)
	m.OID = r.uint32("type OID")
	m.Namespace = r.namespace()
	m.Name = string(r.cstring("name"))
	return r.end()
}
