package catalog

import (
	"context"
	"fmt"
	"slices"

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
func (s TypeSet) Load(ctx context.Context, conn *pgx.Conn, oids ...uint32) error {
	asked := make(map[uint32]bool, len(oids))
	for want := oids; len(want) > 0; {
		for _, oid := range want {
			asked[oid] = true
			delete(s, oid)
		}
		read, err := readTypes(ctx, conn, want)
		if err != nil {
			return err
		}
		want = nil
		for _, t := range read {
			s[t.OID] = t
			for _, oid := range [2]uint32{t.ElemOID, t.BaseOID} {
				if oid != 0 && !asked[oid] {
					asked[oid] = true
					want = append(want, oid)
				}
			}
		}
	}
	return nil
}

// LoadTables adds the types of all columns the set does not hold yet.
func (s TypeSet) LoadTables(ctx context.Context, conn *pgx.Conn, tables ...*Table) error {
	var missing []uint32
	for _, t := range tables {
		for _, c := range t.Columns {
			if s[c.TypeOID] == nil {
				missing = append(missing, c.TypeOID)
			}
		}
	}
	slices.Sort(missing)
	return s.Load(ctx, conn, slices.Compact(missing)...)
}

// Base follows a chain of domains to the type below, with the modifier in force there. The
// type is nil where the set does not hold it.
func (s TypeSet) Base(oid uint32, typmod int32) (*Type, int32) {
	t := s[oid]
	for t != nil && t.Kind == 'd' {
		if t.BaseTypmod >= 0 {
			typmod = t.BaseTypmod
		}
		t = s[t.BaseOID]
	}
	return t, typmod
}

const typeQuery = `
SELECT t.oid, n.nspname::text, t.typname::text, format_type(t.oid, NULL), t.typtype::text, t.typcategory::text,
       CASE WHEN e.oid IS NULL THEN 0::oid ELSE e.oid END, t.typbasetype, t.typtypmod, t.typdelim::text,
       array(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)
  FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
 WHERE t.oid = ANY($1::oid[])`

func readTypes(ctx context.Context, conn *pgx.Conn, oids []uint32) ([]*Type, error) {
	rows, err := conn.Query(ctx, typeQuery, oids)
	if err != nil {
		return nil, fmt.Errorf("read types: %w", err)
	}
	types, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Type, error) {
		var t Type
		var kind, category, delim string
		err := row.Scan(&t.OID, &t.Namespace, &t.Name, &t.Formatted, &kind, &category, &t.ElemOID, &t.BaseOID, &t.BaseTypmod, &delim, &t.Labels)
		t.Kind, t.Category, t.Delim = firstByte(kind), firstByte(category), firstByte(delim)
		return &t, err
	})
	if err != nil {
		return nil, fmt.Errorf("read types: %w", err)
	}
	return types, nil
}

func firstByte(s string) byte {
	if s == "" {
		return 0
	}
	return s[0]
}
