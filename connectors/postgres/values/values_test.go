package values

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgtype"
	"pgregory.net/rapid"

	"github.com/tidemark-cdc/tidemark/schema"
)

var catalogue = map[uint32]TypeInfo{
	1007:  {OID: 1007, Namespace: "pg_catalog", Name: "_int4", Kind: 'b', Elem: oidInt4},
	1009:  {OID: 1009, Namespace: "pg_catalog", Name: "_text", Kind: 'b', Elem: oidText},
	1231:  {OID: 1231, Namespace: "pg_catalog", Name: "_numeric", Kind: 'b', Elem: oidNumeric},
	603:   {OID: 603, Namespace: "pg_catalog", Name: "box", Kind: 'b', Delim: ';'},
	1020:  {OID: 1020, Namespace: "pg_catalog", Name: "_box", Kind: 'b', Elem: 603},
	90001: {OID: 90001, Namespace: "public", Name: "mood", Kind: 'e', Labels: []string{"sad", "it's"}},
	90002: {OID: 90002, Namespace: "other", Name: "price", Kind: 'd', Base: oidNumeric, BaseTypmod: 4 + (12<<16 | 2)},
	90003: {OID: 90003, Namespace: "public", Name: "loop", Kind: 'd', Base: 90003},
	869:   {OID: 869, Namespace: "pg_catalog", Name: "inet", Kind: 'b'},
	2205:  {OID: 2205, Namespace: "pg_catalog", Name: "regclass", Kind: 'b'},
	3614:  {OID: 3614, Namespace: "pg_catalog", Name: "tsvector", Kind: 'b'},
	3910:  {OID: 3910, Namespace: "pg_catalog", Name: "tstzrange", Kind: 'r'},
	5069:  {OID: 5069, Namespace: "pg_catalog", Name: "xid8", Kind: 'b'},
	791:   {OID: 791, Namespace: "pg_catalog", Name: "_money", Kind: 'b', Elem: oidMoney},
	1561:  {OID: 1561, Namespace: "pg_catalog", Name: "_bit", Kind: 'b', Elem: oidBit},
	90005: {OID: 90005, Namespace: "public", Name: "_mood", Kind: 'b', Elem: 90001},
	90010: {OID: 90010, Namespace: "public", Name: "address", Kind: 'c'},
	90011: {OID: 90011, Namespace: "public", Name: "hstore", Kind: 'b'},
	90012: {OID: 90012, Namespace: "public", Name: "geometry", Kind: 'b'},
	90013: {OID: 90013, Namespace: "public", Name: "vector", Kind: 'b'},
	90014: {OID: 90014, Namespace: "public", Name: "sparsevec", Kind: 'b'},
	90015: {OID: 90015, Namespace: "public", Name: "halfvec", Kind: 'b'},
	90016: {OID: 90016, Namespace: "public", Name: "_vector", Kind: 'b', Elem: 90013},
	90017: {OID: 90017, Namespace: "public", Name: "_hstore", Kind: 'b', Elem: 90011},
	90004: {OID: 90004, Namespace: "public", Name: "citext", Kind: 'b'},
}

func resolve(oid uint32) (TypeInfo, bool) { t, ok := catalogue[oid]; return t, ok }

func decode(t *testing.T, oid uint32, typmod int32, opts Options, text string) (schema.Type, schema.Value, error) {
	t.Helper()
	typ, d, err := Map(resolve, oid, typmod, opts)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d(new(Arena), []byte(text))
	return typ, v, err
}

func TestDecode(t *testing.T) {
	const num12_2 = 4 + (12<<16 | 2)
	str := func(s string) schema.Value { return schema.Text([]byte(s)) }
	for _, c := range []struct {
		name     string
		oid      uint32
		typmod   int32
		text     string
		typeName string
		want     schema.Value
	}{
		{"bool", oidBool, -1, "t", "boolean", schema.Bool(true)},
		{"int2 min", oidInt2, -1, "-32768", "smallint", schema.Int(-32768)},
		{"int4 max", oidInt4, -1, "2147483647", "integer", schema.Int(math.MaxInt32)},
		{"int8 min", oidInt8, -1, "-9223372036854775808", "bigint", schema.Int(math.MinInt64)},
		{"oid", oidOid, -1, "4294967295", "oid", schema.Int(math.MaxUint32)},
		{"float4", oidFloat4, -1, "0.1", "real", schema.Float32(0.1)},
		{"float8 subnormal", oidFloat8, -1, "5e-324", "double precision", schema.Float64(5e-324)},
		{"float8 -0", oidFloat8, -1, "-0", "double precision", schema.Float64(math.Copysign(0, -1))},
		{"float8 inf", oidFloat8, -1, "-Infinity", "double precision", schema.Float64(math.Inf(-1))},
		{"numeric", oidNumeric, num12_2, "-12345.67", "numeric(12,2)", schema.Decimal(-1234567)},
		{"numeric 0", oidNumeric, num12_2, "0.00", "numeric(12,2)", schema.Decimal(0)},
		{"numeric big", oidNumeric, 4 + (30 << 16), "18446744073709551616", "numeric(30,0)", schema.BigDecimal([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0})},
		{"numeric negative scale", oidNumeric, 4 + (3<<16 | 0x7fe), "12300", "numeric(3,-2)", schema.Decimal(12300)},
		{"numeric free", oidNumeric, -1, "1.10", "numeric", str("1.10")},
		{"varchar", oidVarchar, 34, "käse", "character varying(30)", str("käse")},
		{"char", oidBpchar, 7, "a  ", "character(3)", str("a  ")},
		{"bytea", oidBytea, -1, `\x00ff`, "bytea", schema.Bytes([]byte{0, 255})},
		{"date", oidDate, -1, "1969-12-31", "date", schema.Int(-1)},
		{"date BC", oidDate, -1, "0001-12-31 BC", "date", schema.Int(-719163)},
		{"date long", oidDate, -1, "5874897-12-31", "date", schema.Int(2145042905)},
		{"date inf", oidDate, -1, "infinity", "date", schema.Int(schema.InfinityDate)},
		{"time 24", oidTime, -1, "24:00:00", "time without time zone", schema.Int(microsPerDay)},
		{"time", oidTime, 3, "00:00:01.5", "time(3) without time zone", schema.Int(1_500_000)},
		{"timetz", oidTimetz, -1, "23:59:59.123456+05:30", "time with time zone", str("23:59:59.123456+05:30")},
		{"timestamp", oidTimestamp, -1, "1970-01-01 00:00:00.000001", "timestamp without time zone", schema.Int(1)},
		{"timestamp before", oidTimestamp, -1, "1969-12-31 23:59:59.999999", "timestamp without time zone", schema.Int(-1)},
		{"timestamptz", oidTimestamptz, -1, "1970-01-01 01:00:00+01", "timestamp with time zone", schema.Int(0)},
		{"timestamptz odd zone", oidTimestamptz, -1, "1970-01-01 00:00:00-00:19:32", "timestamp with time zone", schema.Int(1172 * microsPerSecond)},
		{"timestamptz BC", oidTimestamptz, -1, "4714-11-24 00:00:00+00 BC", "timestamp with time zone", schema.Int(-210866803200 * microsPerSecond)},
		{"timestamp -inf", oidTimestamp, -1, "-infinity", "timestamp without time zone", schema.Int(schema.NegativeInfinityTimestamp)},
		{"interval", oidInterval, -1, "1 mon", "interval", str("1 mon")},
		{"jsonb", oidJSONB, -1, `{"a": 1}`, "jsonb", str(`{"a": 1}`)},
		{"enum", 90001, -1, "it's", "public.mood", str("it's")},
		{"domain", 90002, -1, "1.50", "other.price", schema.Decimal(150)},
		{"extension type", 90004, -1, "Ab", "public.citext", str("Ab")},
		{"dropped type", 777777, -1, "x", "unknown (oid 777777)", str("x")},
		{"int[]", 1007, -1, "{1,NULL,-3}", "integer[]", schema.Array([]schema.Value{schema.Int(1), schema.Null(), schema.Int(-3)})},
		{"int[] empty", 1007, -1, "{}", "integer[]", schema.Array([]schema.Value{})},
		{"int[] bounds", 1007, -1, "[2:3]={1,2}", "integer[]", schema.Array([]schema.Value{schema.Int(1), schema.Int(2)})},
		{"text[] quoted", 1009, -1, `{"a,b","\"\\","NULL",NULL,"",null}`, "text[]", schema.Array([]schema.Value{str("a,b"), str(`"\`), str("NULL"), schema.Null(), str(""), str("null")})},
		{"box[] delimiter", 1020, -1, "{(1,1),(0,0);(2,2),(0,0)}", "box[]", schema.Array([]schema.Value{str("(1,1),(0,0)"), str("(2,2),(0,0)")})},
		{"numeric(12,2)[]", 1231, num12_2, "{1.00}", "numeric(12,2)[]", schema.Array([]schema.Value{schema.Decimal(100)})},
	} {
		t.Run(c.name, func(t *testing.T) {
			typ, v, err := decode(t, c.oid, c.typmod, Options{}, c.text)
			if err != nil {
				t.Fatal(err)
			}
			if typ.Name != c.typeName {
				t.Errorf("type is %q, want %q", typ.Name, c.typeName)
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

func TestDecimalModes(t *testing.T) {
	for mode, want := range map[DecimalMode]schema.Value{
		DecimalString: schema.Text([]byte("NaN")),
		DecimalDouble: schema.Float64(math.NaN()),
	} {
		_, v, err := decode(t, oidNumeric, 4+(5<<16), Options{Decimal: mode}, "NaN")
		if err != nil || !cmp.Equal(v, want) {
			t.Errorf("%s: %v %v", mode, v, err)
		}
	}
}

func TestMalformedNeverPanicsNorLeaks(t *testing.T) {
	oids := []uint32{oidBool, oidInt2, oidInt8, oidOid, oidFloat4, oidFloat8, oidNumeric, oidBytea, oidDate, oidTime, oidTimestamp, oidTimestamptz, oidUUID, 1007, 1009}
	for _, oid := range oids {
		for _, bad := range []string{"", "-", "secret", "9secret", "{", "{secret", "{1,,2}", "{1,}", `{"secret`, "{{1},{2}}", "[1:2][1:2]={{1,2},{3,4}}", "99999999999999999999999999", "2020-13-01", "25:00:00", "\\xsecret", "1.2.3", "NaN", "2020-01-01 00:00:00.", "300000-01-01 00:00:00+00"} {
			if oid == 1009 && strings.HasPrefix(bad, "{1") {
				continue
			}
			_, _, err := decode(t, oid, 4+(5<<16), Options{}, bad)
			float := oid == oidFloat4 || oid == oidFloat8
			fits := float && bad == "NaN" || (float || oid == oidNumeric) && strings.HasPrefix(bad, "9999")
			if err == nil && !fits {
				t.Errorf("oid %d accepts %q", oid, bad)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error shows the value: %v", err)
			}
		}
	}
	if _, _, err := Map(resolve, 90003, -1, Options{}); err == nil {
		t.Error("a domain over itself was mapped")
	}
}

func TestDatesAgreeWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.Int64Range(-719162, 3652058).Draw(t, "days") // years 1 to 9999
		at := time.Unix(days*86400, 0).UTC()
		v, err := decodeDate(nil, []byte(at.Format("2006-01-02")))
		if err != nil || v.Num != days {
			t.Fatalf("%s: %d, want %d (%v)", at, v.Num, days, err)
		}
		micros := rapid.Int64Range(0, microsPerDay-1).Draw(t, "micros")
		at = time.UnixMicro(days*microsPerDay + micros).UTC()
		v, err = decodeTimestamptz(nil, []byte(at.Format("2006-01-02 15:04:05.999999")+"+00"))
		if err != nil || v.Num != at.UnixMicro() {
			t.Fatalf("%s: %d (%v)", at, v.Num, err)
		}
	})
}

func TestDecimalsAgreeWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.IntRange(0, 30).Draw(t, "scale")
		digits := rapid.StringMatching(`[0-9]{1,45}`).Draw(t, "digits")
		for len(digits) <= scale {
			digits = "0" + digits
		}
		literal := digits[:len(digits)-scale]
		if scale > 0 {
			literal += "." + digits[len(digits)-scale:]
		}
		want, _ := new(big.Int).SetString(digits, 10)
		if rapid.Bool().Draw(t, "negative") {
			literal = "-" + literal
			want.Neg(want)
		}
		v, err := decimalDecoder(scale, false)(new(Arena), []byte(literal))
		if err != nil {
			t.Fatal(err)
		}
		if got := bigOf(v); got.Cmp(want) != 0 {
			t.Fatalf("%s: %s, want %s", literal, got, want)
		}
	})
}

func bigOf(v schema.Value) *big.Int {
	if v.Bytes == nil {
		return big.NewInt(v.Num)
	}
	n := new(big.Int).SetBytes(v.Bytes)
	if v.Bytes[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(v.Bytes))*8))
	}
	return n
}

func TestTextArraysAgreeWithPgtype(t *testing.T) {
	m := pgtype.NewMap()
	rapid.Check(t, func(t *rapid.T) {
		elems := rapid.SliceOf(rapid.Ptr(rapid.StringMatching(`[a-zN,"\\{} ]{0,8}|NULL`), true)).Draw(t, "elems")
		if elems == nil {
			elems = []*string{}
		}
		literal, err := m.Encode(pgtype.TextArrayOID, pgtype.TextFormatCode, elems, nil)
		if err != nil {
			t.Fatal(err)
		}
		v, err := arrayDecoder(decodeText, ',', false)(new(Arena), literal)
		if err != nil {
			t.Fatalf("%q: %v", literal, err)
		}
		if len(v.Elems) != len(elems) {
			t.Fatalf("%q: %d elements", literal, len(v.Elems))
		}
		for i, e := range v.Elems {
			if (elems[i] == nil) != (e.Kind == schema.KindNull) || (elems[i] != nil && string(e.Bytes) != *elems[i]) {
				t.Fatalf("%q: element %d differs", literal, i)
			}
		}
	})
}

func TestArenaKeepsWhatItHandedOut(t *testing.T) {
	var a Arena
	big := a.Bytes(3 * arenaBytes)
	copy(big, "kept")
	small := a.Bytes(4)
	copy(small, "also")
	for range 3 * arenaBytes {
		a.Bytes(1)[0] = 0xff
	}
	if string(big[:4]) != "kept" || string(small) != "also" {
		t.Error("memory handed out was reused before Reset")
	}
	a.Reset()
	for _, b := range a.blocks {
		if len(b) != arenaBytes {
			t.Error("an oversized block outlived Reset")
		}
	}
}

var benchRow = []struct {
	oid    uint32
	typmod int32
	text   string
}{
	{oidInt8, -1, "123456789"}, {oidText, -1, "thirty characters of plain text"}, {oidInt4, -1, "4711"},
	{oidTimestamptz, -1, "2026-11-30 10:11:12.123456+00"}, {oidNumeric, 4 + (12<<16 | 2), "123456.78"},
}

func BenchmarkDecodeRow(b *testing.B) {
	decoders := make([]Decoder, len(benchRow))
	texts := make([][]byte, len(benchRow))
	for i, c := range benchRow {
		_, decoders[i], _ = Map(resolve, c.oid, c.typmod, Options{})
		texts[i] = []byte(c.text)
	}
	var a Arena
	b.ReportAllocs()
	for b.Loop() {
		for i, d := range decoders {
			if _, err := d(&a, texts[i]); err != nil {
				b.Fatal(err)
			}
		}
		a.Reset()
	}
}

func BenchmarkDecodeArray(b *testing.B) {
	_, d, _ := Map(resolve, 1009, -1, Options{})
	literal := []byte(`{plain,"quo\"ted",NULL,x}`)
	var a Arena
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d(&a, literal); err != nil {
			b.Fatal(err)
		}
		a.Reset()
	}
}
