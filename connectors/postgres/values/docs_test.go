package values

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/integration/docs"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
)

// The documented mapping is what Map says and what schema/avro makes of it, for nullable columns.
func TestDocumentedTypes(t *testing.T) {
	const page = "docs/connectors/postgresql.md"
	decimal := func(m DecimalMode) Options { return Options{Decimal: m} }
	var b strings.Builder
	b.WriteString("| PostgreSQL | Avro | |\n| --- | --- | --- |\n")
	for _, c := range []struct {
		oid    uint32
		typmod int32
		opts   Options
		note   string
	}{
		{oidBool, -1, Options{}, ""},
		{oidInt2, -1, Options{}, ""},
		{oidInt4, -1, Options{}, ""},
		{oidInt8, -1, Options{}, ""},
		{oidOid, -1, Options{}, ""},
		{oidFloat4, -1, Options{}, "bit for bit, NaN and infinities included"},
		{oidFloat8, -1, Options{}, "bit for bit, NaN and infinities included"},
		{oidNumeric, numericOf(12, 2), Options{}, "NaN blocks, or is null and counted with `decimal.nonfinite.handling.mode=null`; never 0"},
		{oidNumeric, numericOf(3, -2), Options{}, "a negative scale: multiples of 100 of up to 5 digits"},
		{oidNumeric, numericOf(2, 5), Options{}, "a scale above the precision"},
		{oidNumeric, -1, Options{}, "without precision: the text, which keeps digits and scale, NaN and Infinity included"},
		{oidNumeric, numericOf(12, 2), decimal(DecimalString), "`decimal.handling.mode=string`: the text, NaN and Infinity included"},
		{oidNumeric, numericOf(12, 2), decimal(DecimalDouble), "`decimal.handling.mode=double`: the nearest double; a number beyond the doubles blocks"},
		{oidMoney, -1, Options{}, "hundredths, as lc_monetary C reads it, whatever currency the database shows"},
		{oidMoney, -1, decimal(DecimalString), "`decimal.handling.mode=string`: digits, without sign of currency and separators"},
		{oidMoney, -1, decimal(DecimalDouble), "`decimal.handling.mode=double`"},
		{oidText, -1, Options{}, ""},
		{oidVarchar, 34, Options{}, ""},
		{oidBpchar, 14, Options{}, "with its padding"},
		{oidName, -1, Options{}, ""},
		{oidChar, -1, Options{}, "a byte above 127 as `\\ooo`, octal"},
		{oidBytea, -1, Options{}, ""},
		{oidBytea, -1, Options{Binary: BinaryHex}, "`binary.handling.mode=hex`: two lower-case digits a byte"},
		{oidBytea, -1, Options{Binary: BinaryBase64}, "`binary.handling.mode=base64` or `base64-url-safe`: RFC 4648, padded"},
		{oidDate, -1, Options{}, "days since 1970-01-01, proleptic Gregorian, also before Christ; infinity is 2147483647, -infinity -2147483648"},
		{oidTime, -1, Options{}, "microseconds since midnight; 24:00:00 is 86400000000"},
		{oidTimestamp, -1, Options{}, "microseconds; infinity is 9223372036854775807, -infinity -9223372036854775808; what 64 bits of microseconds cannot hold (from January 294247 on) blocks"},
		{oidTimestamptz, -1, Options{}, "microseconds, UTC; infinities and limits likewise"},
		{oidTimetz, -1, Options{}, "the text, offset included"},
		{oidInterval, -1, Options{}, "the text in IntervalStyle postgres, exact"},
		{oidInterval, -1, Options{Interval: IntervalString}, "`interval.handling.mode=string`: ISO 8601 with every part, `P1Y2M3DT4H5M6.78S`, exact; `infinity` and `-infinity` stay words"},
		{oidInterval, -1, Options{Interval: IntervalNumeric}, "`interval.handling.mode=numeric`: microseconds, a month being 365.25/12 days; infinities as those of timestamps; more than 64 bits blocks"},
		{oidBit, 1, Options{}, ""},
		{oidBit, 13, Options{}, "a digit a bit, the leftmost bit first, leading zeros kept"},
		{oidVarbit, 74, Options{}, "likewise"},
		{oidUUID, -1, Options{}, ""},
		{oidJSON, -1, Options{}, "byte for byte as it was written"},
		{oidJSONB, -1, Options{}, "the text as PostgreSQL prints it"},
		{oidXML, -1, Options{}, "the text"},
		{90001, -1, Options{}, "an enum: its label; all labels in `tidemark.labels`, read again where a row has one that is not known"},
		{90002, -1, Options{}, "a domain: as its base type, here numeric(12,2)"},
		{90010, -1, Options{}, "a composite type: its text"},
		{3910, -1, Options{}, "a range or multirange: its text, in UTC"},
		{1007, -1, Options{}, "an array of any element type, of one dimension; elements may be null; lower bounds are dropped, in a key they block; more dimensions block"},
		{1231, numericOf(12, 2), Options{}, ""},
		{1007, -1, Options{Array: ArrayString}, "`array.handling.mode=string`: the text, which keeps dimensions and bounds"},
		{869, -1, Options{}, "inet, cidr, macaddr, macaddr8: the text"},
		{3614, -1, Options{}, "tsvector, tsquery: the text"},
		{603, -1, Options{}, "point, line, lseg, box, path, polygon, circle: the text, numbers bit for bit"},
		{2205, -1, Options{}, "regclass and its like: the name as it is at that place of the log, qualified; the number where there is none"},
		{5069, -1, Options{}, "xid, xid8, cid, tid, pg_lsn, and any other built-in type: the text"},
		{90011, -1, Options{}, "`hstore.handling.mode=json`: a JSON object of texts and nulls"},
		{90011, -1, Options{Hstore: HstoreMap}, "`hstore.handling.mode=map`"},
		{90004, -1, Options{}, "citext, ltree, and any other type of an extension: the text, under its own name"},
		{90012, -1, Options{}, "PostGIS's geometry and geography: EWKB, which holds SRID, Z and M; `binary.handling.mode` applies"},
		{90013, -1, Options{}, "pgvector's vector and halfvec"},
		{90014, -1, Options{}, "pgvector's sparsevec: the text, which keeps the dimensions, also of an empty one: `{}/5`"},
	} {
		typ, _, err := Map(resolve, c.oid, c.typmod, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", docs.Cell(typ.Name), avroType(t, typ), docs.Cell(c.note))
	}
	docs.Section(t, page, "types", b.String())
}

func numericOf(precision, scale int) int32 { return int32(4 + (precision<<16 | scale&0x7ff)) }

// avroType returns the Avro type of a nullable column, without the null.
func avroType(t *testing.T, typ schema.Type) string {
	t.Helper()
	text, err := avro.ValueSchema(&schema.Table{Name: "t", Columns: []schema.Column{{Name: "c", Type: typ}}}, avro.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Fields []struct{ Type []json.RawMessage }
	}
	// The first field is the column, a union of null and its type; the rest are not unions.
	if err := json.Unmarshal([]byte(text), &record); record.Fields == nil || len(record.Fields[0].Type) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	return string(record.Fields[0].Type[1])
}
