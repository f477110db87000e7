package values

import (
	"testing"

	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
)

// changes are values of types as they are in most tables.
var changes = []struct {
	name   string
	oid    uint32
	typmod int32
	opts   Options
	text   string
}{
	{"boolean", oidBool, -1, Options{}, "t"}, {"smallint", oidInt2, -1, Options{}, "-1234"}, {"integer", oidInt4, -1, Options{}, "4711000"}, {"bigint", oidInt8, -1, Options{}, "1234567890123"},
	{"oid", oidOid, -1, Options{}, "16385"}, {"real", oidFloat4, -1, Options{}, "0.1"}, {"double", oidFloat8, -1, Options{}, "0.30000000000000004"},
	{"numeric(12,2)", oidNumeric, 4 + (12<<16 | 2), Options{}, "123456.78"}, {"numeric(38,10)", oidNumeric, 4 + (38<<16 | 10), Options{}, "-1234567890123456789012345678.0123456789"},
	{"numeric", oidNumeric, -1, Options{}, "123456.7800"}, {"money", oidMoney, -1, Options{}, "$1,234,567.89"},
	{"text of 30", oidText, -1, Options{}, "thirty characters of plain text"}, {"varchar", oidVarchar, 34, Options{}, "käse"}, {"bytea of 16", oidBytea, -1, Options{}, `\x000102030405060708090a0b0c0d0e0f`},
	{"bytea base64", oidBytea, -1, Options{Binary: BinaryBase64}, `\x000102030405060708090a0b0c0d0e0f`}, {"date", oidDate, -1, Options{}, "2026-11-30"}, {"time", oidTime, -1, Options{}, "10:11:12.123456"},
	{"timetz", oidTimetz, -1, Options{}, "10:11:12.123456+05:30"}, {"timestamp", oidTimestamp, -1, Options{}, "2026-11-30 10:11:12.123456"}, {"timestamptz", oidTimestamptz, -1, Options{}, "2026-11-30 10:11:12.123456+00"},
	{"interval", oidInterval, -1, Options{}, "1 year 2 mons 3 days 04:05:06.789"}, {"interval numeric", oidInterval, -1, Options{Interval: IntervalNumeric}, "1 year 2 mons 3 days 04:05:06.789"},
	{"interval string", oidInterval, -1, Options{Interval: IntervalString}, "1 year 2 mons 3 days 04:05:06.789"}, {"bit(1)", oidBit, 1, Options{}, "1"}, {"varbit", oidVarbit, -1, Options{}, "1010101010"},
	{"uuid", oidUUID, -1, Options{}, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, {"jsonb", oidJSONB, -1, Options{}, `{"a": [1, 2], "b": "some text"}`}, {"enum", 90001, -1, Options{}, "it's"},
	{"domain", 90002, -1, Options{}, "1.50"}, {"inet", 869, -1, Options{}, "192.168.0.1/24"}, {"tstzrange", 3910, -1, Options{}, `["2024-03-10 01:00:00+00","2024-03-10 15:00:00+00")`},
	{"int[4]", 1007, -1, Options{}, "{1,22,NULL,4444}"}, {"text[4]", 1009, -1, Options{}, `{plain,"quo\"ted",NULL,x}`}, {"numeric(12,2)[2]", 1231, 4 + (12<<16 | 2), Options{}, "{1.00,2.50}"},
	{"hstore json", 90011, -1, Options{}, `"a"=>"1", "b"=>NULL, "c"=>"some text"`}, {"hstore map", 90011, -1, Options{Hstore: HstoreMap}, `"a"=>"1", "b"=>NULL, "c"=>"some text"`},
	{"geometry", 90012, -1, Options{}, "0101000020E6100000000000000000F03F0000000000000040"}, {"vector(3)", 90013, 3, Options{}, "[0.1,2.5,-3e-05]"},
}

// changeOf returns what makes a value of its text: the row's only column beside the metadata.
func changeOf(tb testing.TB, i int) func(dst []byte) []byte {
	tb.Helper()
	c := changes[i]
	typ, decode, err := Map(resolve, c.oid, c.typmod, c.opts)
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := avro.CompileValue(&schema.Table{Name: "t", Columns: []schema.Column{{Name: "v", Type: typ}}}, avro.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	arena, row, meta, literal := new(Arena), make(schema.Row, 1), &avro.Meta{Op: 'c', Pos: `{"lsn":"3D/485795A0"}`, Seq: 731, Gen: 1}, []byte(c.text)
	return func(dst []byte) []byte {
		if row[0], err = decode(arena, literal); err != nil {
			tb.Fatal(err)
		}
		if dst, err = plan.AppendValue(dst, row, meta); err != nil {
			tb.Fatal(err)
		}
		arena.Reset()
		return dst
	}
}

// Nothing is allocated for a change of any of these types, from its text to its Avro bytes.
func TestNoAllocationByType(t *testing.T) {
	dst := make([]byte, 0, 4096)
	for i, c := range changes {
		change := changeOf(t, i)
		if n := testing.AllocsPerRun(100, func() { change(dst[:0]) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// BenchmarkChange decodes one value and encodes its change, with its metadata.
func BenchmarkChange(b *testing.B) {
	for i, c := range changes {
		b.Run(c.name, func(b *testing.B) {
			change, dst := changeOf(b, i), make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				change(dst[:0])
			}
		})
	}
}
