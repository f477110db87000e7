package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Type is a row of pg_type and what belongs to it. It is immutable once read.
type Type struct {
	OID        uint32
	Namespace  string
	Name       string   // typname
	Formatted  string   // format_type without a modifier, such as "character varying"
	Kind       byte     // typtype: b base, c composite, d domain, e enum, p pseudo, r range, m multirange
	Category   byte     // typcategory
	ElemOID    uint32   // element type of a true array ({…} text), else 0
	BaseOID    uint32   // type a domain is over, else 0
	BaseTypmod int32    // modifier a domain gives its base type, else -1
	Delim      byte     // between the elements of an array of this type
	Labels     []string // of an enum, in the enum's order
}

// TypeSet holds types by OID. It is closed: with a type it holds its element and base types.
type TypeSet map[uint32]*Type

// Load reads the given types again, with all they refer to, and replaces what the set has: for
// an OID it does not know, or an enum that grew a label. An OID the database does not know is
// no error: it is absent afterwards.
func (s TypeSet) Load(ctx context.Context, conn *pgx.Conn, oids ...uint32) error { return errSoon }

// LoadTables adds the types of all columns the set does not hold yet.
func (s TypeSet) LoadTables(ctx context.Context, conn *pgx.Conn, tables ...*Table) error {
	return errSoon
}

// Base follows a chain of domains to the type below, with the modifier in force there. The
// type is nil where the set does not hold it.
func (s TypeSet) Base(oid uint32, typmod int32) (*Type, int32) { return nil, -1 }
