package consumers

// The types under which Python's consumer sees fields.
var pythonKinds = map[string]string{
	"__op": "str", "__pos": "str", "__seq": "int", "__gen": "int", "__ts_us": "aware datetime", "__unavailable": "list",
	"kinds.id": "int", "kinds.yes": "bool", "kinds.small": "int", "kinds.whole": "int", "kinds.large": "int", "kinds.r": "float", "kinds.d": "float",
	"kinds.amount": "Decimal", "kinds.fine": "Decimal", "kinds.free": "str", "kinds.words": "str", "kinds.short": "str", "kinds.raw": "bytes", "kinds.day": "date",
	"kinds.at": "aware datetime", "kinds.wall": "datetime", "kinds.clock": "time", "kinds.u": "UUID", "kinds.doc": "str", "kinds.feeling": "str", "kinds.span": "str",
	"kinds.tags": "list", "kinds.names": "list", "kinds.sums": "list", "kinds.days": "list", "kinds.stamps": "list",
	"key kinds.id": "int", "key pair.a": "int", "key pair.b": "str",
	"key stamped.day": "date", "key stamped.n": "Decimal", "key stamped.u": "UUID", "key stamped.at": "aware datetime", "key stamped.raw": "bytes",
}

// The types under which Java's consumer sees fields, with Avro's conversions.
var javaKinds = map[string]string{
	"__op": "Utf8", "__pos": "Utf8", "__seq": "Long", "__gen": "Long", "__ts_us": "Instant", "__unavailable": "List",
	"kinds.id": "Long", "kinds.yes": "Boolean", "kinds.small": "Integer", "kinds.whole": "Integer", "kinds.large": "Long", "kinds.r": "Float", "kinds.d": "Double",
	"kinds.amount": "BigDecimal", "kinds.fine": "BigDecimal", "kinds.free": "Utf8", "kinds.words": "Utf8", "kinds.short": "Utf8", "kinds.raw": "ByteBuffer", "kinds.day": "LocalDate",
	"kinds.at": "Instant", "kinds.wall": "LocalDateTime", "kinds.clock": "LocalTime", "kinds.u": "UUID", "kinds.doc": "Utf8", "kinds.feeling": "Utf8", "kinds.span": "Utf8",
	"kinds.tags": "List", "kinds.names": "List", "kinds.sums": "List", "kinds.days": "List", "kinds.stamps": "List",
	"key kinds.id": "Long", "key pair.a": "Integer", "key pair.b": "Utf8",
	"key stamped.day": "LocalDate", "key stamped.n": "BigDecimal", "key stamped.u": "UUID", "key stamped.at": "Instant", "key stamped.raw": "ByteBuffer",
}
