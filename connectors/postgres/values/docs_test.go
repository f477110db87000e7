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
		{oidNumeric, numericOf(12, 2), Options{}, "NaN blocks: no decimal holds it; use `decimal.handling.mode=string` or `double`"},
		{oidNumeric, numericOf(3, -2), Options{}, "a negative scale: multiples of 100 of up to 5 digits"},
		{oidNumeric, numericOf(2, 5), Options{}, ""},
		{oidNumeric, -1, Options{}, "without precision: the text, which keeps digits and scale, NaN and Infinity included"},
		{oidNumeric, numericOf(12, 2), decimal(DecimalString), "with `decimal.handling.mode=string`: the text"},
		{oidNumeric, numericOf(12, 2), decimal(DecimalDouble), "with `decimal.handling.mode=double`: the nearest double"},
		{oidText, -1, Options{}, ""},
		{oidVarchar, 34, Options{}, ""},
		{oidBpchar, 14, Options{}, "with its padding"},
		{oidName, -1, Options{}, ""},
		{oidChar, -1, Options{}, ""},
		{oidBytea, -1, Options{}, ""},
		{oidDate, -1, Options{}, "days since 1970-01-01, proleptic Gregorian; infinity is 2147483647, -infinity -2147483648"},
		{oidTime, -1, Options{}, "microseconds since midnight; 24:00:00 is 86400000000"},
		{oidTimestamp, -1, Options{}, "microseconds; infinity is 9223372036854775807, -infinity -9223372036854775808; a year beyond what 64 bits of microseconds hold (about 294,000) blocks"},
		{oidTimestamptz, -1, Options{}, "microseconds, UTC; infinities and limits likewise"},
		{oidTimetz, -1, Options{}, "the text, offset included"},
		{oidInterval, -1, Options{}, "the text in IntervalStyle postgres"},
		{oidUUID, -1, Options{}, ""},
		{oidJSON, -1, Options{}, "the text as it was written"},
		{oidJSONB, -1, Options{}, "the text as PostgreSQL prints it"},
		{oidXML, -1, Options{}, "the text"},
		{oidMoney, -1, Options{}, "the text in lc_monetary C"},
		{oidBit, 13, Options{}, "the text, a digit a bit"},
		{oidVarbit, 74, Options{}, "the text, a digit a bit"},
		{90001, -1, Options{}, "an enum: its label; all labels in `tidemark.labels`"},
		{90002, -1, Options{}, "a domain: as its base type, here numeric(12,2)"},
		{1007, -1, Options{}, "an array of one dimension; its elements may be null; lower bounds are dropped; more dimensions block"},
		{1231, numericOf(12, 2), Options{}, ""},
		{603, -1, Options{}, "any other type: its text"},
		{90004, -1, Options{}, "a type of an extension: its text, under its own name"},
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
