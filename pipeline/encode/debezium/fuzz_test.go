package debezium

import (
	"encoding/json"
	"testing"

	"github.com/tidemark-cdc/tidemark/schema"
)

// FuzzTexts: whatever text a column has, every mapping of it is JSON or an error.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"-0.500", "1e5", "NaN", "-$1,234.56", "-1 years -2 mons +3 days -04:05:06.5", "23:59:59.5+05:30", `"a"=>"1", "b \\ \""=>NULL`, "(1e3,2)", "[1,2.5]", "1010", "infinity", "9223372036854775807 years"} {
		f.Add([]byte(s))
	}
	types := []schema.Type{typeOf("numeric", -1), typeOf("money", -1), typeOf("interval", -1), typeOf("timetz", -1), typeOf("hstore", -1), typeOf("point", -1),
		typeOf("vector", 2), typeOf("halfvec", 2), typeOf("bit", 9), typeOf("varbit", -1), typeOf("uuid", -1), typeOf("line", -1), typeOf("jsonb", -1)}
	adjusts := []func(*Config){nil, func(c *Config) { c.Decimal, c.Interval, c.Time, c.Unknown = "string", "string", "isostring", true }, func(c *Config) { c.Decimal, c.Hstore, c.NonFiniteNull = "double", "map", true }}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, adjust := range adjusts {
			format := newFormat(adjust)
			for _, typ := range types {
				got := convert(format, typ, schema.Text(b))
				if len(got) == 0 || (got[0] == '{' || got[0] == '[') && !json.Valid([]byte(got)) {
					t.Fatalf("%s: %q gives %s", typ.Base, b, got)
				}
			}
		}
	})
}
