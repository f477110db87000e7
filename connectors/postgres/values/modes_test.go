package values

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-cdc/tidemark/schema"
)

func str(s string) schema.Value { return schema.Text([]byte(s)) }

func floats(fs ...float32) schema.Value {
	out := []schema.Value{}
	for _, f := range fs {
		out = append(out, schema.Float32(f))
	}
	return schema.Array(out)
}

func TestModes(t *testing.T) {
	ewkb := []byte{1, 1, 0, 0, 32, 230, 16, 0, 0}
	for _, c := range []struct {
		name   string
		oid    uint32
		typmod int32
		opts   Options
		text   string
		want   schema.Value
	}{
		{"money", oidMoney, -1, Options{}, "$1,234,567.89", schema.Decimal(123456789)},
		{"money min", oidMoney, -1, Options{}, "-$92,233,720,368,547,758.08", schema.BigDecimal([]byte{0x80, 0, 0, 0, 0, 0, 0, 0})},
		{"money string", oidMoney, -1, Options{Decimal: DecimalString}, "-$1,000.50", str("-1000.50")},
		{"money double", oidMoney, -1, Options{Decimal: DecimalDouble}, "$0.25", schema.Float64(0.25)},
		{"money[]", 791, -1, Options{}, `{"$1,000.00",NULL,$0.01}`, schema.Array([]schema.Value{schema.Decimal(100000), schema.Null(), schema.Decimal(1)})},
		{"bit(1)", oidBit, 1, Options{}, "1", schema.Bool(true)},
		{"bit(9)", oidBit, 9, Options{}, "100000001", str("100000001")},
		{"bit(1) as text", oidBit, 1, Options{Text: true}, "1", str("1")},
		{"bit(1)[]", 1561, 1, Options{}, "{1,0}", schema.Array([]schema.Value{schema.Bool(true), schema.Bool(false)})},
		{"char of a high byte", oidChar, -1, Options{}, "\xff", str(`\377`)},
		{"char", oidChar, -1, Options{}, `\200`, str(`\200`)},
		{"bytea hex", oidBytea, -1, Options{Binary: BinaryHex}, `\x00FF`, str("00ff")},
		{"bytea base64", oidBytea, -1, Options{Binary: BinaryBase64}, `\xfbff`, str("+/8=")},
		{"bytea url", oidBytea, -1, Options{Binary: BinaryBase64URL}, `\xfbff`, str("-_8=")},
		{"bytea for another format", oidBytea, -1, Options{Binary: BinaryHex, Text: true}, `\x00`, schema.Bytes([]byte{0})},
		{"interval", oidInterval, -1, Options{}, "1 mon", str("1 mon")},
		{"interval ISO", oidInterval, -1, Options{Interval: IntervalString}, "1 year 2 mons 3 days 04:05:06.78", str("P1Y2M3DT4H5M6.78S")},
		{"interval ISO signs", oidInterval, -1, Options{Interval: IntervalString}, "-1 years -2 mons +3 days -04:00:00.000001", str("P-1Y-2M3DT-4H0M-0.000001S")},
		{"interval ISO zero", oidInterval, -1, Options{Interval: IntervalString}, "00:00:00", str("P0Y0M0DT0H0M0S")},
		{"interval ISO infinite", oidInterval, -1, Options{Interval: IntervalString}, "-infinity", str("-infinity")},
		{"interval micros", oidInterval, -1, Options{Interval: IntervalNumeric}, "1 mon -1 days +00:00:00.5", schema.Int(microsPerMonth - microsPerDay + 500_000)},
		{"interval micros long", oidInterval, -1, Options{Interval: IntervalNumeric}, "-2562047788:00:54.775807", schema.Int(-9223372036854775807)},
		{"interval micros min", oidInterval, -1, Options{Interval: IntervalNumeric}, "-2562047788:00:54.775808", schema.Int(math.MinInt64)},
		{"interval micros infinite", oidInterval, -1, Options{Interval: IntervalNumeric}, "infinity", schema.Int(schema.InfinityTimestamp)},
		{"hstore", 90011, -1, Options{}, `"a"=>"1", "q\"\\"=>NULL, "é	"=>""`, str(`{"a":"1","q\"\\":null,"é\u0009":""}`)},
		{"hstore empty", 90011, -1, Options{}, "", str("{}")},
		{"hstore map", 90011, -1, Options{Hstore: HstoreMap}, `"a"=>"1", "b"=>NULL`, schema.Map([]schema.Value{str("a"), str("1"), str("b"), schema.Null()})},
		{"hstore map empty", 90011, -1, Options{Hstore: HstoreMap}, "", schema.Map([]schema.Value{})},
		{"hstore NULL text", 90011, -1, Options{Hstore: HstoreMap}, `"a"=>"NULL"`, schema.Map([]schema.Value{str("a"), str("NULL")})},
		{"hstore[]", 90017, -1, Options{}, `{"\"a\"=>\"1\""}`, schema.Array([]schema.Value{str(`{"a":"1"}`)})},
		{"hstore for another format", 90011, -1, Options{Text: true}, `"a"=>"1"`, str(`"a"=>"1"`)},
		{"geometry", 90012, -1, Options{}, "0101000020E6100000", schema.Bytes(ewkb)},
		{"geometry hex", 90012, -1, Options{Binary: BinaryHex}, "0101000020E6100000", str("0101000020e6100000")},
		{"vector", 90013, 3, Options{}, "[1,2.5,-3e-05]", floats(1, 2.5, -3e-05)},
		{"halfvec", 90015, 3, Options{}, "[0.099975586,65504,-0]", floats(0.099975586, 65504, float32(math.Copysign(0, -1)))},
		{"vector[]", 90016, -1, Options{}, `{"[1,2]"}`, str(`{"[1,2]"}`)},
		{"sparsevec empty", 90014, 5, Options{}, "{}/5", str("{}/5")}, // case 58
		{"sparsevec", 90014, 5, Options{}, "{1:0.5}/5", str("{1:0.5}/5")},
		{"nested array", 1007, -1, Options{Array: ArrayString}, "{{1,2},{3,4}}", str("{{1,2},{3,4}}")},
		{"array bounds", 1007, -1, Options{Array: ArrayString}, "[2:3]={1,2}", str("[2:3]={1,2}")},
		{"enum array", 90005, -1, Options{}, `{sad,"it's",NULL}`, schema.Array([]schema.Value{str("sad"), str("it's"), schema.Null()})},
		{"wide decimal", oidNumeric, 4 + (38<<16 | 10), Options{}, "-1234567890123456789012345678.0000000001", schema.BigDecimal(twosBytes("-12345678901234567890123456780000000001"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			typ, v, err := decode(t, c.oid, c.typmod, c.opts, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, v); d != "" {
				t.Error(d)
			}
			if v.Kind != typ.Kind {
				t.Errorf("value is %v, its type %v", v.Kind, typ.Kind)
			}
		})
	}
}

func twosBytes(digits string) []byte {
	n, _ := new(big.Int).SetString(digits, 10)
	return twosComplement(new(Arena), n)
}

func TestModesRefuse(t *testing.T) {
	for _, c := range []struct {
		oid  uint32
		opts Options
		text string
		want string
	}{
		{oidMoney, Options{}, "secret", errMoney.Error()},
		{oidMoney, Options{}, "€1.00", errMoney.Error()},
		{oidMoney, Options{}, "$1", errMoney.Error()},
		{oidInterval, Options{Interval: IntervalNumeric}, "1 secret", errInterval.Error()},
		{oidInterval, Options{Interval: IntervalString}, "", errInterval.Error()},
		{oidInterval, Options{Interval: IntervalNumeric}, "178000000 years", errRange.Error()},
		{oidInterval, Options{Interval: IntervalNumeric}, "24855 years 2562047788:00:54.775807", errRange.Error()},
		{oidNumeric, Options{Decimal: DecimalDouble}, "1" + strings.Repeat("0", 400), errRange.Error()},
		{90011, Options{}, `"a"=>secret`, errHstore.Error()},
		{90011, Options{Hstore: HstoreMap}, `"a"=>"1",`, errHstore.Error()},
		{90011, Options{}, `"a`, errHstore.Error()},
		{90012, Options{}, "POINT(1 1)", errEWKB.Error()},
		{90012, Options{}, "01", errEWKB.Error()},
		{90013, Options{}, "[1,]", errVector.Error()},
		{90013, Options{}, "1", errVector.Error()},
		{oidBit, Options{}, "10", errBit.Error()},
		{1007, Options{}, "{{1},{2}}", "array.handling.mode=string"},
		{1007, Options{Bounds: true}, "[0:1]={1,2}", "a key would not tell"},
		{90001, Options{}, "secret", "is not one of the labels of its enum"},
		{90005, Options{}, "{secret}", "is not one of the labels of its enum"},
	} {
		typmod := int32(-1)
		if c.oid == oidBit {
			typmod = 1
		}
		_, _, err := decode(t, c.oid, typmod, c.opts, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d %q: %v, want %s", c.oid, c.text, err, c.want)
		}
	}
	_, _, err := decode(t, 90005, -1, Options{}, "{new}")
	var unknown *UnknownLabelError
	if !errors.As(err, &unknown) || unknown.Type != 90001 || unknown.Label != "new" {
		t.Errorf("unknown label: %v", err)
	}
}

// Case 33: NaN in a decimal is an error, or null and counted; never 0.
func TestNonFinite(t *testing.T) {
	for _, c := range []string{"NaN", "Infinity", "-Infinity"} {
		if _, _, err := decode(t, oidNumeric, 4+(5<<16), Options{}, c); !errors.Is(err, errNaN) {
			t.Errorf("%s: %v", c, err)
		}
		_, d, _ := Map(resolve, oidNumeric, 4+(5<<16), Options{NonFiniteNull: true})
		var a Arena
		v, err := d(&a, []byte(c))
		a.Reset()
		if err != nil || v.Kind != schema.KindNull || a.NonFinite != 1 {
			t.Errorf("%s: %v %v, counted %d", c, v, err, a.NonFinite)
		}
	}
}

func TestHstoreIsValidJSON(t *testing.T) {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOfN(rapid.String(), rapid.Ptr(rapid.String(), true), 0, 5).Draw(t, "pairs")
		var parts []string
		for k, v := range want {
			value := "NULL"
			if v != nil {
				value = `"` + quote.Replace(*v) + `"`
			}
			parts = append(parts, `"`+quote.Replace(k)+`"=>`+value)
		}
		v, err := decodeHstoreJSON(new(Arena), []byte(strings.Join(parts, ", ")))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]*string{}
		if err := json.Unmarshal(v.Bytes, &got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}
