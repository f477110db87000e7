package values

import "strconv"

var builtinNames = map[uint32]string{
	oidBool: "boolean", oidBytea: "bytea", oidChar: `"char"`, oidName: "name",
	oidInt8: "bigint", oidInt2: "smallint", oidInt4: "integer", oidText: "text",
	oidOid: "oid", oidJSON: "json", oidXML: "xml", oidFloat4: "real", oidFloat8: "double precision",
	oidMoney: "money", oidBpchar: "character", oidVarchar: "character varying", oidDate: "date",
	oidTime: "time", oidTimestamp: "timestamp", oidTimestamptz: "timestamp", oidInterval: "interval", oidTimetz: "time",
	oidBit: "bit", oidVarbit: "bit varying", oidNumeric: "numeric", oidUUID: "uuid", oidJSONB: "jsonb",
}

// builtinName renders a built-in type with its modifier as format_type() does.
func builtinName(oid uint32, typmod int32) string {
	name := builtinNames[oid]
	mod := func(n int32) string {
		if typmod < 0 {
			return ""
		}
		return "(" + strconv.Itoa(int(n)) + ")"
	}
	switch oid {
	case oidBpchar:
		if typmod < 0 {
			return "bpchar"
		}
		return name + mod(typmod-4)
	case oidVarchar:
		return name + mod(typmod-4)
	case oidBit, oidVarbit:
		return name + mod(typmod)
	case oidTime, oidTimestamp:
		return name + mod(typmod) + " without time zone"
	case oidTimetz, oidTimestamptz:
		return name + mod(typmod) + " with time zone"
	case oidNumeric:
		if p, s, ok := numericTypmod(typmod); ok {
			return name + "(" + strconv.Itoa(p) + "," + strconv.Itoa(s) + ")"
		}
	}
	return name
}

// qualifiedTypeName names a type for people; pg_catalog is left out.
func qualifiedTypeName(t TypeInfo) string {
	if t.Namespace == "" || t.Namespace == "pg_catalog" {
		return t.Name
	}
	return t.Namespace + "." + t.Name
}
