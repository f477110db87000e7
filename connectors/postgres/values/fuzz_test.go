package values

import (
	"encoding/hex"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-cdc/tidemark/schema"
)

var numericText = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// FuzzNumeric: what is accepted is the number that math/big reads, at the type's scale; what PostgreSQL may print is accepted.
func FuzzNumeric(f *testing.F) {
	for _, s := range []string{"0", "-0.00", "123456789012345678.9", "-99999999999999999999999999999999999999", "170141183460469231731687303715884105728.10", "NaN", "1e5", "1.2.3", ".", "-", "000.5"} {
		for _, scale := range []uint16{0, 2, 40} {
			f.Add([]byte(s), scale)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, scale uint16) {
		scale %= 1100
		v, err := decimalDecoder(int(scale), false)(new(Arena), b)
		_, fraction, _ := strings.Cut(string(b), ".")
		fits := len(strings.TrimRight(fraction, "0")) <= int(scale)
		if err != nil {
			if numericText.Match(b) && fits {
				t.Fatalf("%q at scale %d: %v", b, scale, err)
			}
			return
		}
		want, ok := new(big.Rat).SetString(string(b))
		if !ok || !fits || strings.ContainsAny(string(b), "eE_/xX+") {
			t.Fatalf("%q at scale %d is accepted as %v", b, scale, v)
		}
		want.Mul(want, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
		if got := bigOf(v); !want.IsInt() || got.Cmp(want.Num()) != 0 {
			t.Fatalf("%q at scale %d: %s, want %s", b, scale, got, want)
		}
	})
}

// FuzzInt: integers are what strconv reads, sign and all.
func FuzzInt(f *testing.F) {
	for _, s := range []string{"0", "-0", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616", "+1", "1_0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, bits := range []int{16, 32, 64} {
			v, err := intDecoder(bits)(nil, []byte(s))
			want, werr := strconv.ParseInt(s, 10, bits)
			if strings.HasPrefix(s, "+") {
				continue // PostgreSQL prints none
			}
			if (err == nil) != (werr == nil) || err == nil && v.Num != want {
				t.Fatalf("%q of %d bits: %d, %v, want %d, %v", s, bits, v.Num, err, want, werr)
			}
		}
	})
}

var (
	intervalPart  = regexp.MustCompile(`^([+-]?[0-9]+) (year|mon|day)s?$`)
	intervalClock = regexp.MustCompile(`^([+-]?)([0-9]{2,}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?$`)
	isoInterval   = regexp.MustCompile(`^P(-?[0-9]+)Y(-?[0-9]+)M(-?[0-9]+)DT(-?[0-9]+)H(-?[0-9]+)M(-?)([0-9]+)(?:\.([0-9]{0,5}[1-9]))?S$`)
)

// plainInterval is an interval's months, days and microseconds, read without the product's scanner.
func plainInterval(s string) (months, days, micros *big.Int) {
	months, days, micros = new(big.Int), new(big.Int), new(big.Int)
	number := func(s string) *big.Int { n, _ := new(big.Int).SetString(strings.TrimPrefix(s, "+"), 10); return n }
	units := map[string]*big.Int{}
	words := strings.Split(s, " ")
	for len(words) > 0 {
		if m := intervalClock.FindStringSubmatch(words[0]); m != nil && len(words) == 1 {
			for i, unit := range []int64{3_600_000_000, 60_000_000, 1_000_000, 1} {
				digits := m[2+i]
				if i == 3 {
					digits = (digits + "000000")[:6]
				}
				micros.Add(micros, new(big.Int).Mul(number(digits), big.NewInt(unit)))
			}
			if m[1] == "-" {
				micros.Neg(micros)
			}
			words = nil
			continue
		}
		m := intervalPart.FindStringSubmatch(strings.Join(words[:min(2, len(words))], " "))
		if m == nil {
			return nil, nil, nil
		}
		units[m[2]] = number(m[1])
		words = words[2:]
	}
	for unit, into := range map[string]*big.Int{"year": months, "mon": months, "day": days} {
		n := units[unit]
		if n == nil {
			continue
		}
		if unit == "year" {
			n = new(big.Int).Mul(n, big.NewInt(12))
		}
		into.Add(into, n)
	}
	return months, days, micros
}

// FuzzInterval: an accepted interval is what another reader reads, in all modes.
func FuzzInterval(f *testing.F) {
	for _, s := range []string{"1 year 2 mons -3 days +04:05:06.7", "-1 years", "00:00:00", "-00:00:00.000001", "-2562047788:00:54.775808", "2562047788:00:54.775807",
		"178956970 years 7 mons 2147483647 days 2562047788:00:54.775807", "infinity", "1 mon -1 days", "1 day 1 day", "9999999999 years"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if infinite([]byte(s)) != 0 {
			return
		}
		micros, err := decodeIntervalMicros(nil, []byte(s))
		iso, ierr := decodeIntervalISO(new(Arena), []byte(s))
		if ierr != nil {
			if err == nil {
				t.Fatalf("%q is accepted as microseconds only", s)
			}
			return
		}
		months, days, clock := plainInterval(s)
		if months == nil {
			t.Fatalf("%q is accepted as %s", s, iso.Bytes)
		}
		total := new(big.Int).Mul(months, big.NewInt(microsPerMonth))
		total.Add(total, new(big.Int).Mul(days, big.NewInt(microsPerDay)))
		total.Add(total, clock)
		if total.IsInt64() && err == nil && micros.Num != total.Int64() || !total.IsInt64() && err == nil {
			t.Fatalf("%q: %d microseconds, want %s", s, micros.Num, total)
		}
		checkISO(t, s, string(iso.Bytes), months, days, clock)
	})
}

func checkISO(t *testing.T, s, iso string, months, days, clock *big.Int) {
	t.Helper()
	m := isoInterval.FindStringSubmatch(iso)
	if m == nil {
		t.Fatalf("%q: %q is not an ISO interval", s, iso)
	}
	n := make([]*big.Int, len(m))
	for i, text := range m[1:] {
		n[i], _ = new(big.Int).SetString(text, 10)
	}
	gotMonths := new(big.Int).Add(new(big.Int).Mul(n[0], big.NewInt(12)), n[1])
	fraction, _ := new(big.Int).SetString((m[8] + "000000")[:6], 10)
	seconds := new(big.Int).Add(new(big.Int).Mul(n[6], big.NewInt(microsPerSecond)), fraction)
	if m[6] == "-" {
		seconds.Neg(seconds)
	}
	gotClock := new(big.Int).Mul(n[3], big.NewInt(3600*microsPerSecond))
	gotClock.Add(gotClock, new(big.Int).Mul(n[4], big.NewInt(60*microsPerSecond)))
	gotClock.Add(gotClock, seconds)
	if gotMonths.Cmp(months) != 0 || n[2].Cmp(days) != 0 || gotClock.Cmp(clock) != 0 {
		t.Fatalf("%q: %q, want %s months, %s days, %s µs", s, iso, months, days, clock)
	}
}

var dateText = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})-([0-9]{2})$`)

// FuzzTimestamp: an accepted date or timestamp is what package time reads, as far as that goes.
func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"2024-02-29 23:59:59.999999+00", "0001-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999", "2024-01-01 12:00:00.5+05", "2024-01-01 12:00:00-08", "1970-01-01 24:00:00", "2000-02-31", "1969-12-31 00:00:00-15:59:59", "-infinity", "4713-01-01 00:00:00+00 BC"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := []byte(s)
		for _, zoned := range []bool{false, true} {
			v, err := timestamp(b, zoned)
			layout := "2006-01-02 15:04:05.999999"
			if zoned {
				layout += "-07"
			}
			at, terr := time.Parse(layout, s)
			if terr != nil || strings.Contains(s, ",") { // time takes a comma for a point
				continue
			}
			if _, fraction, _ := strings.Cut(s, "."); len(strings.TrimRight(fraction, "+-0123456789")) > 0 || at.Nanosecond()%1000 != 0 {
				continue
			}
			if err == nil && v.Num != at.UnixMicro() {
				t.Fatalf("%q: %d, want %d", s, v.Num, at.UnixMicro())
			}
		}
		if v, err := decodeDate(nil, b); err == nil && infinite(b) == 0 {
			if m := dateText.FindStringSubmatch(s); m != nil {
				part := func(i int) int { n, _ := strconv.Atoi(m[i]); return n }
				if want := time.Date(part(1), time.Month(part(2)), part(3), 0, 0, 0, 0, time.UTC).Unix() / 86400; v.Num != want {
					t.Fatalf("%q: day %d, want %d", s, v.Num, want)
				}
			}
		}
		if v, err := decodeTime(nil, b); err == nil && (v.Num < 0 || v.Num > microsPerDay) {
			t.Fatalf("%q: %d is no time of day", s, v.Num)
		}
	})
}

// arrayText prints an array as PostgreSQL does, every element quoted.
func arrayText(elems []schema.Value) []byte {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	parts := make([]string, len(elems))
	for i, e := range elems {
		parts[i] = "NULL"
		if e.Kind != schema.KindNull {
			parts[i] = `"` + escape.Replace(string(e.Bytes)) + `"`
		}
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

// FuzzArray: an accepted array printed and read again is the same, and pgx reads the same elements.
func FuzzArray(f *testing.F) {
	for _, s := range []string{"{}", `{"a\"b",NULL}`, "[2:3]={1,2}", "{{1}}", `{"`, `{a\`, `{"a\`, `{a,"NULL",null,NULL,""}`, `{a"b}`, `{"a"b}`} {
		f.Add([]byte(s))
	}
	m := pgtype.NewMap()
	decode := arrayDecoder(decodeText, ',', false)
	f.Fuzz(func(t *testing.T, b []byte) {
		given := string(b)
		v, err := decode(new(Arena), b)
		if err != nil {
			return
		}
		printed := arrayText(v.Elems)
		again, err := decode(new(Arena), printed)
		if d := cmp.Diff(v.Elems, again.Elems); err != nil || d != "" {
			t.Fatalf("%q, printed %q, reads otherwise: %v %s", given, printed, err, d)
		}
		if string(b) != given {
			t.Fatalf("%q became %q", given, b)
		}
		if !utf8.Valid(printed) {
			return // pgx reads runes
		}
		var theirs []*string
		if err := m.Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, printed, &theirs); err != nil {
			t.Fatalf("pgx does not read %q: %v", printed, err)
		}
		if len(theirs) != len(v.Elems) {
			t.Fatalf("%q: pgx reads %d elements, not %d", printed, len(theirs), len(v.Elems))
		}
		for i, e := range v.Elems {
			if (theirs[i] == nil) != (e.Kind == schema.KindNull) || theirs[i] != nil && *theirs[i] != string(e.Bytes) {
				t.Fatalf("%q: element %d differs", printed, i)
			}
		}
	})
}

// FuzzScalars: no decoder panics, and each gives values of its own type's kind, which errors do not repeat.
func FuzzScalars(f *testing.F) {
	for _, c := range benchRow {
		f.Add([]byte(c.text))
	}
	for _, s := range []string{`\x00FF`, "$1.00", "1 year", `"a"=>"1", "b"=>NULL`, "[1,2]", "0101000000", "{1,NULL}", "10", "12:00:00+01", "1e400"} {
		f.Add([]byte(s))
	}
	type mapped struct {
		name   string
		typ    schema.Type
		decode Decoder
	}
	var all []mapped
	add := func(oid uint32, typmod int32, o Options) {
		typ, d, err := Map(resolve, oid, typmod, o)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, mapped{typ.Name, typ, d})
	}
	for _, oid := range []uint32{oidBool, oidInt2, oidInt4, oidInt8, oidOid, oidFloat4, oidFloat8, oidText, oidBytea, oidChar, oidDate, oidTime, oidTimetz, oidTimestamp, oidTimestamptz,
		oidInterval, oidUUID, oidMoney, oidBit, oidJSONB, 1007, 1009, 1231, 791, 1561, 90001, 90005, 90011, 90012, 90013, 90014, 90015, 90016, 90017} {
		add(oid, -1, Options{})
		add(oid, -1, Options{Text: true})
	}
	for _, o := range []Options{{Interval: IntervalNumeric, Binary: BinaryHex, Hstore: HstoreMap}, {Interval: IntervalString, Binary: BinaryBase64}, {Decimal: DecimalDouble}, {Decimal: DecimalString}, {Array: ArrayString}} {
		for _, oid := range []uint32{oidInterval, oidBytea, 90011, 90012, oidMoney, 1007} {
			add(oid, -1, o)
		}
	}
	add(oidNumeric, 4+(38<<16|10), Options{NonFiniteNull: true})
	add(oidBit, 1, Options{})
	f.Fuzz(func(t *testing.T, b []byte) {
		given := string(b)
		for _, c := range all {
			v, err := c.decode(new(Arena), b)
			if err == nil && v.Kind != c.typ.Kind && v.Kind != schema.KindNull {
				t.Fatalf("%s: %q is of kind %v, not %v", c.name, given, v.Kind, c.typ.Kind)
			}
			if string(b) != given {
				t.Fatalf("%s: %q became %q", c.name, given, b)
			}
		}
		if v, err := decodeBytea(new(Arena), b); err == nil && !strings.EqualFold(`\x`+hex.EncodeToString(v.Bytes), given) {
			t.Fatalf("%q: %x", given, v.Bytes)
		}
	})
}
