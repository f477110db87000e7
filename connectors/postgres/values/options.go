package values

// DecimalMode is decimal.handling.mode, with Debezium's names.
type DecimalMode string

// The decimal modes. They are for numeric and money.
const (
	DecimalPrecise DecimalMode = "precise" // Avro decimal; numeric without precision as text, which keeps digits and scale
	DecimalString  DecimalMode = "string"  // text as the database prints it
	DecimalDouble  DecimalMode = "double"  // nearest double
)

// IntervalMode is interval.handling.mode, with Debezium's names.
type IntervalMode string

// The interval modes; empty means the text in IntervalStyle postgres.
const (
	IntervalNumeric IntervalMode = "numeric" // microseconds; a month is 365.25/12 days
	IntervalString  IntervalMode = "string"  // ISO 8601 with every part: P1Y2M3DT4H5M6.78S
)

// BinaryMode is binary.handling.mode, with Debezium's names.
type BinaryMode string

// The binary modes. They are for bytea and PostGIS's types.
const (
	BinaryBytes     BinaryMode = "bytes"
	BinaryBase64    BinaryMode = "base64"          // RFC 4648 section 4, padded
	BinaryBase64URL BinaryMode = "base64-url-safe" // RFC 4648 section 5, padded
	BinaryHex       BinaryMode = "hex"             // lower case
)

// HstoreMode is hstore.handling.mode, with Debezium's names.
type HstoreMode string

// The hstore modes.
const (
	HstoreJSON HstoreMode = "json" // a JSON object of texts and nulls, in the database's order
	HstoreMap  HstoreMode = "map"
)

// ArrayMode is array.handling.mode.
type ArrayMode string

// The array modes.
const (
	ArrayNative ArrayMode = "array"  // one dimension; lower bounds are dropped
	ArrayString ArrayMode = "string" // the text as the database prints it, which keeps dimensions and bounds
)

// Options are the mapping's modes. An empty mode is the first one of its kind, of intervals the text.
type Options struct {
	Decimal  DecimalMode
	Interval IntervalMode
	Binary   BinaryMode
	Hstore   HstoreMode
	Array    ArrayMode
	// Bounds makes an array's lower bound other than 1 an error, for a key: two keys must not become one.
	Bounds bool
	// NonFiniteNull makes NaN null where a decimal would hold the number, and counts it in the
	// arena; else such a value is an error.
	NonFiniteNull bool
	// Text leaves every type as its text that is not a boolean, an integer, a float, bytea, a date, a
	// time or a timestamp, also in arrays: for a format that has a mapping of its own. Of the modes
	// only Array counts then.
	Text bool
}
