// Package values maps PostgreSQL's types to schema.Type and decodes their text output to
// schema.Value. It is pure: it does no I/O, and a table read and the stream share it, so that
// a row is the same from both.
//
// It expects the output of a session with client_encoding UTF8, DateStyle ISO, IntervalStyle
// postgres, TimeZone UTC, extra_float_digits 3, bytea_output hex and lc_monetary C.
package values

import (
	"fmt"
	"unicode/utf8"

	"github.com/tidemark-cdc/tidemark/schema"
)

// TypeInfo is what the catalogue (pg_type, pg_enum) knows of a type.
type TypeInfo struct {
	OID        uint32
	Namespace  string
	Name       string   // typname
	Kind       byte     // typtype: b base, c composite, d domain, e enum, p pseudo, r range, m multirange
	Elem       uint32   // typelem of a true array type, else 0
	Base       uint32   // typbasetype of a domain, else 0
	BaseTypmod int32    // typtypmod of a domain, -1 if none
	Delim      byte     // typdelim of the element type's arrays; 0 means ','
	Labels     []string // labels of an enum, in order
}

// Resolver finds a type by OID; false where the catalogue no longer has it.
type Resolver func(oid uint32) (TypeInfo, bool)

// Decoder turns one value's text into a Value. The result may alias text; what must be made
// lives in the arena. Errors say what is wrong with the kind of value and never contain it.
type Decoder func(a *Arena, text []byte) (schema.Value, error)

// Map returns the type of a column of the given type and modifier, and its decoder. A type
// without a mapping of its own is its text, under its own name. Map fails only on a cycle of domains.
func Map(resolve Resolver, oid uint32, typmod int32, opts Options) (schema.Type, Decoder, error) {
	return mapType(resolve, oid, typmod, opts, 0)
}

func mapType(resolve Resolver, oid uint32, typmod int32, opts Options, depth int) (schema.Type, Decoder, error) {
	if depth > 32 {
		return schema.Type{}, nil, fmt.Errorf("type %d: domains nest deeper than 32", oid)
	}
	if t, d, ok := builtin(oid, typmod, opts); ok {
		t.OID, t.Name, t.Base, t.Modifier = oid, builtinName(oid, typmod), internalNames[oid], typmod
		return t, d, nil
	}
	info, ok := resolve(oid)
	if !ok {
		return schema.Type{Kind: schema.KindString, OID: oid, Name: fmt.Sprintf("unknown (oid %d)", oid), Modifier: typmod}, decodeText, nil
	}
	name := qualifiedTypeName(info)
	switch {
	case info.Kind == 'd' && info.Base != 0:
		t, d, err := mapType(resolve, info.Base, info.BaseTypmod, opts, depth+1)
		t.OID, t.Name, t.Domain = oid, name, true
		return t, d, err
	case info.Kind == 'e':
		t, d := mapEnum(info)
		t.OID, t.Name, t.Base, t.Modifier = oid, name, info.Name, typmod
		return t, d, nil
	case info.Elem != 0:
		return mapArray(resolve, info, typmod, opts, depth)
	}
	t, d, ok := extension(info, opts)
	if !ok {
		t, d = schema.Type{Kind: schema.KindString}, decodeText
	}
	t.OID, t.Name, t.Base, t.Modifier = oid, name, info.Name, typmod
	return t, d, nil
}

func mapArray(resolve Resolver, info TypeInfo, typmod int32, opts Options, depth int) (schema.Type, Decoder, error) {
	elem, decode, err := mapType(resolve, info.Elem, typmod, opts, depth+1)
	if err != nil {
		return schema.Type{}, nil, err
	}
	name := elem.Name + "[]"
	if elem.Kind == schema.KindArray || opts.Array == ArrayString { // elements that are arrays: vectors, domains over arrays
		return schema.Type{Kind: schema.KindString, OID: info.OID, Name: name, Base: info.Name, Modifier: typmod}, decodeText, nil
	}
	delim := info.Delim
	if e, ok := resolve(info.Elem); ok && e.Delim != 0 {
		delim = e.Delim
	}
	if delim == 0 {
		delim = ','
	}
	t := schema.Type{Kind: schema.KindArray, Elem: &elem, OID: info.OID, Name: name, Base: info.Name, Modifier: typmod}
	return t, arrayDecoder(decode, delim, opts.Bounds), nil
}

// The OIDs of built-in types are fixed (src/include/catalog/pg_type.dat).
const (
	oidBool, oidBytea, oidChar, oidName    = 16, 17, 18, 19
	oidInt8, oidInt2, oidInt4, oidText     = 20, 21, 23, 25
	oidOid, oidJSON, oidXML                = 26, 114, 142
	oidFloat4, oidFloat8, oidMoney         = 700, 701, 790
	oidBpchar, oidVarchar                  = 1042, 1043
	oidDate, oidTime, oidTimestamp         = 1082, 1083, 1114
	oidTimestamptz, oidInterval, oidTimetz = 1184, 1186, 1266
	oidBit, oidVarbit, oidNumeric          = 1560, 1562, 1700
	oidUUID, oidJSONB                      = 2950, 3802
)

func builtin(oid uint32, typmod int32, opts Options) (schema.Type, Decoder, bool) {
	integer := func(bits int) (schema.Type, Decoder, bool) {
		return schema.Type{Kind: schema.KindInt, Bits: bits}, intDecoder(bits), true
	}
	logical := func(k schema.Kind, l schema.Logical, d Decoder) (schema.Type, Decoder, bool) {
		return schema.Type{Kind: k, Logical: l}, d, true
	}
	if opts.Text && textInstead(oid) {
		return logical(schema.KindString, schema.LogicalNone, decodeText)
	}
	switch oid {
	case oidBool:
		return logical(schema.KindBool, schema.LogicalNone, decodeBool)
	case oidInt2:
		return integer(16)
	case oidInt4:
		return integer(32)
	case oidInt8:
		return integer(64)
	case oidOid:
		return schema.Type{Kind: schema.KindInt, Bits: 64}, decodeOid, true
	case oidFloat4:
		return logical(schema.KindFloat32, schema.LogicalNone, decodeFloat4)
	case oidFloat8:
		return logical(schema.KindFloat64, schema.LogicalNone, decodeFloat8)
	case oidNumeric:
		return mapped(mapNumeric(typmod, opts))
	case oidMoney:
		return mapped(mapMoney(opts))
	case oidInterval:
		return mapped(mapInterval(opts.Interval))
	case oidBit:
		if typmod == 1 {
			return logical(schema.KindBool, schema.LogicalNone, decodeBit)
		}
		return logical(schema.KindString, schema.LogicalNone, decodeText)
	case oidChar:
		return logical(schema.KindString, schema.LogicalNone, decodeChar)
	case oidText, oidVarchar, oidBpchar, oidName, oidTimetz, oidXML, oidVarbit:
		return logical(schema.KindString, schema.LogicalNone, decodeText)
	case oidBytea:
		if opts.Text {
			return logical(schema.KindBytes, schema.LogicalNone, decodeBytea)
		}
		return mapped(mapBinary(opts.Binary, decodeBytea))
	case oidDate:
		return logical(schema.KindInt, schema.LogicalDate, decodeDate)
	case oidTime:
		return logical(schema.KindInt, schema.LogicalTime, decodeTime)
	case oidTimestamp:
		return logical(schema.KindInt, schema.LogicalLocalTimestamp, decodeTimestamp)
	case oidTimestamptz:
		return logical(schema.KindInt, schema.LogicalTimestamp, decodeTimestamptz)
	case oidUUID:
		return logical(schema.KindString, schema.LogicalUUID, decodeUUID)
	case oidJSON, oidJSONB:
		return logical(schema.KindString, schema.LogicalJSON, decodeText)
	}
	return schema.Type{}, nil, false
}

func mapped(t schema.Type, d Decoder) (schema.Type, Decoder, bool) { return t, d, true }

// decodeChar reads "char". Before PostgreSQL 15 a byte above 127 comes as it is, which is no UTF-8;
// since then as three octal digits.
func decodeChar(a *Arena, b []byte) (schema.Value, error) {
	if len(b) != 1 || b[0] < utf8.RuneSelf {
		return schema.Text(b), nil
	}
	out := a.Bytes(4)
	out[0], out[1], out[2], out[3] = '\\', '0'+b[0]>>6, '0'+b[0]>>3&7, '0'+b[0]&7
	return schema.Text(out), nil
}

func decodeText(_ *Arena, text []byte) (schema.Value, error) { return schema.Text(text), nil }
