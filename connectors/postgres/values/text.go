package values

// textInstead tells which built-in types Options.Text leaves as their text.
func textInstead(oid uint32) bool {
	switch oid {
	case oidNumeric, oidMoney, oidInterval, oidTimetz, oidBit, oidVarbit, oidUUID, oidJSON, oidJSONB, oidXML:
		return true
	}
	return false
}

// internalNames are the typnames of the built-in types, fixed like their OIDs.
var internalNames = map[uint32]string{
	oidBool: "bool", oidBytea: "bytea", oidChar: "char", oidName: "name", oidInt8: "int8", oidInt2: "int2", oidInt4: "int4",
	oidText: "text", oidOid: "oid", oidJSON: "json", oidXML: "xml", oidFloat4: "float4", oidFloat8: "float8", oidMoney: "money",
	oidBpchar: "bpchar", oidVarchar: "varchar", oidDate: "date", oidTime: "time", oidTimestamp: "timestamp",
	oidTimestamptz: "timestamptz", oidInterval: "interval", oidTimetz: "timetz", oidBit: "bit", oidVarbit: "varbit",
	oidNumeric: "numeric", oidUUID: "uuid", oidJSONB: "jsonb",
}
