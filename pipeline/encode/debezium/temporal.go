package debezium

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// What the JDBC driver makes of infinite dates and timestamps, which Debezium publishes.
const (
	infinityDate              = -2147472692
	negativeInfinityDate      = -2147472691
	infinityTimestamp         = 9223372036825200000
	negativeInfinityTimestamp = -9223372036832400000
)

const dayMicros = 86_400_000_000

var (
	errNanos    = errors.New("is beyond what nanoseconds since 1970 can hold; set time.precision.mode to adaptive or microseconds")
	errTime     = errors.New("is not a time")
	errInterval = errors.New("is not an interval")
	errDuration = errors.New("is beyond what 64 bits of microseconds can hold; set interval.handling.mode=string")
)

func (f *Format) mapDate() mapping {
	days := func(_ *arena, v *schema.Value) (schema.Value, error) { return schema.Int(date(v.Num)), nil }
	switch f.cfg.Time {
	case "isostring":
		return mapping{schema: connect.Named(connect.String, "io.debezium.time.IsoDate"), fallback: schema.Text([]byte("1970-01-01Z")),
			convert: func(a *arena, v *schema.Value) (schema.Value, error) {
				return schema.Text(a.take(func(b []byte) []byte { return append(appendDate(b, time.Unix(date(v.Num)*86400, 0).UTC()), 'Z') })), nil
			}}
	case "connect":
		return mapping{schema: connect.Named(connect.Int32, connect.DateName), convert: days, fallback: schema.Int(0)}
	}
	return mapping{schema: connect.Named(connect.Int32, "io.debezium.time.Date"), convert: days, fallback: schema.Int(0)}
}

func date(days int64) int64 {
	switch days {
	case schema.InfinityDate:
		return infinityDate
	case schema.NegativeInfinityDate:
		return negativeInfinityDate
	}
	return days
}

// precision is the number of digits of a second's fraction.
func precision(modifier int32) int32 {
	if modifier < 0 {
		return 6
	}
	return modifier
}

func divided(by int64) converter {
	return func(_ *arena, v *schema.Value) (schema.Value, error) { return schema.Int(floorDiv(v.Num, by)), nil }
}

func (f *Format) mapTime(modifier int32) mapping {
	zero := schema.Int(0)
	switch mode := f.cfg.Time; {
	case mode == "isostring":
		return mapping{schema: connect.Named(connect.String, "io.debezium.time.IsoTime"), fallback: schema.Text([]byte("00:00:00Z")),
			convert: func(a *arena, v *schema.Value) (schema.Value, error) {
				return schema.Text(a.take(func(b []byte) []byte { return append(appendClock(b, v.Num%dayMicros, -1), 'Z') })), nil
			}}
	case mode == "connect":
		return mapping{schema: connect.Named(connect.Int32, connect.TimeName), convert: divided(1000), fallback: zero}
	case mode == "nanoseconds":
		return mapping{schema: connect.Named(connect.Int64, "io.debezium.time.NanoTime"), fallback: zero,
			convert: func(_ *arena, v *schema.Value) (schema.Value, error) { return schema.Int(v.Num * 1000), nil }}
	case mode == "adaptive" && precision(modifier) <= 3:
		return mapping{schema: connect.Named(connect.Int32, "io.debezium.time.Time"), convert: divided(1000), fallback: zero}
	}
	return mapping{schema: connect.Named(connect.Int64, "io.debezium.time.MicroTime"), convert: same, fallback: zero}
}

func (f *Format) mapTimestamp(modifier int32) mapping {
	zero := schema.Int(0)
	micros := func(by int64) converter {
		return func(_ *arena, v *schema.Value) (schema.Value, error) {
			return schema.Int(floorDiv(timestamp(v.Num), by)), nil
		}
	}
	switch mode := f.cfg.Time; {
	case mode == "isostring":
		return mapping{schema: connect.Named(connect.String, "io.debezium.time.IsoTimestamp"), fallback: schema.Text([]byte("1970-01-01T00:00:00Z")),
			convert: func(a *arena, v *schema.Value) (schema.Value, error) {
				return schema.Text(a.take(func(b []byte) []byte { return appendTimestamp(b, timestamp(v.Num), -1) })), nil
			}}
	case mode == "connect":
		return mapping{schema: connect.Named(connect.Int64, connect.TimestampName), convert: micros(1000), fallback: zero}
	case mode == "nanoseconds":
		return mapping{schema: connect.Named(connect.Int64, "io.debezium.time.NanoTimestamp"), convert: nanos, fallback: zero}
	case mode != "microseconds" && precision(modifier) <= 3:
		return mapping{schema: connect.Named(connect.Int64, "io.debezium.time.Timestamp"), convert: micros(1000), fallback: zero}
	}
	return mapping{schema: connect.Named(connect.Int64, "io.debezium.time.MicroTimestamp"), convert: micros(1), fallback: zero}
}

func nanos(_ *arena, v *schema.Value) (schema.Value, error) {
	switch {
	case v.Num == schema.InfinityTimestamp || v.Num == schema.NegativeInfinityTimestamp:
		return *v, nil // the largest and smallest number there too
	case v.Num > math.MaxInt64/1000 || v.Num < math.MinInt64/1000:
		return schema.Value{}, errNanos
	}
	return schema.Int(v.Num * 1000), nil
}

func timestamp(micros int64) int64 {
	switch micros {
	case schema.InfinityTimestamp:
		return infinityTimestamp
	case schema.NegativeInfinityTimestamp:
		return negativeInfinityTimestamp
	}
	return micros
}

// mapZoned maps timestamptz to text, with as many digits as the column has.
func mapZoned(modifier int32, _ schema.Value) mapping {
	digits := int(precision(modifier))
	return mapping{schema: connect.Named(connect.String, "io.debezium.time.ZonedTimestamp"), fallback: schema.Text([]byte("1970-01-01T00:00:00Z")),
		convert: func(a *arena, v *schema.Value) (schema.Value, error) {
			switch v.Num {
			case schema.InfinityTimestamp:
				return schema.Text([]byte("infinity")), nil
			case schema.NegativeInfinityTimestamp:
				return schema.Text([]byte("-infinity")), nil
			}
			return schema.Text(a.take(func(b []byte) []byte { return appendTimestamp(b, v.Num, digits) })), nil
		}}
}

// appendTimestamp appends ISO 8601 in UTC; digits of the fraction, -1 for those needed.
func appendTimestamp(b []byte, micros int64, digits int) []byte {
	s := floorDiv(micros, 1_000_000)
	t := time.Unix(s, 0).UTC()
	b = append(appendDate(b, t), 'T')
	return append(appendClock(b, micros-floorDiv(s, 86400)*dayMicros, digits), 'Z')
}

// appendDate appends a date as Java's ISO formatters do: a sign where the year has not four digits, year 0 for 1 BC.
func appendDate(b []byte, t time.Time) []byte {
	year := t.Year()
	switch {
	case year < 0:
		b = append(b, '-')
		year = -year
	case year > 9999:
		b = append(b, '+')
	}
	b = padded(b, int64(year), 4)
	b = padded(append(b, '-'), int64(t.Month()), 2)
	return padded(append(b, '-'), int64(t.Day()), 2)
}

// appendClock appends HH:MM:SS and the fraction.
func appendClock(b []byte, micros int64, digits int) []byte {
	s := micros / 1_000_000
	b = padded(b, s/3600, 2)
	b = padded(append(b, ':'), s/60%60, 2)
	b = padded(append(b, ':'), s%60, 2)
	fraction := micros % 1_000_000
	if digits < 0 {
		if fraction == 0 {
			return b
		}
		b = padded(append(b, '.'), fraction, 6)
		return bytes.TrimRight(b, "0")
	}
	if digits == 0 {
		return b
	}
	for i := digits; i < 6; i++ {
		fraction /= 10
	}
	return padded(append(b, '.'), fraction, digits)
}

func padded(b []byte, n int64, width int) []byte {
	for limit := int64(math.Pow10(width - 1)); n < limit && limit > 1; limit /= 10 {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, n, 10)
}

// zonedTime shifts 12:34:56.789+02:30 to UTC.
func zonedTime(a *arena, v *schema.Value) (schema.Value, error) {
	text := v.Bytes
	at := bytes.LastIndexAny(text, "+-")
	if at < 8 {
		return schema.Value{}, errTime
	}
	clock, ok1 := clockMicros(text[:at])
	offset, ok2 := clockMicros(text[at+1:])
	if !ok1 || !ok2 {
		return schema.Value{}, errTime
	}
	if text[at] == '+' {
		offset = -offset
	}
	clock = ((clock+offset)%dayMicros + dayMicros) % dayMicros
	return schema.Text(a.take(func(b []byte) []byte { return append(appendClock(b, clock, -1), 'Z') })), nil
}

// clockMicros reads HH[:MM[:SS[.ffffff]]].
func clockMicros(b []byte) (int64, bool) {
	var micros int64
	unit := int64(3600 * 1_000_000)
	for i := 0; i < len(b); {
		if b[i] == '.' {
			scale := int64(100_000)
			for i++; i < len(b); i++ {
				if b[i] < '0' || b[i] > '9' {
					return 0, false
				}
				micros += int64(b[i]-'0') * scale
				scale /= 10
			}
			break
		}
		if b[i] == ':' {
			i++
		}
		var n int64
		start := i
		for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
			n = n*10 + int64(b[i]-'0')
		}
		if i == start || unit == 0 {
			return 0, false
		}
		micros += n * unit
		unit /= 60
		if unit < 1_000_000 {
			unit = 0
		}
	}
	return micros, len(b) > 0
}

// interval is what IntervalStyle postgres prints: 1 year 2 mons -3 days 04:05:06.789.
type interval struct {
	years, months, days int64
	micros              int64
}

func parseInterval(b []byte) (iv interval, err error) {
	words := bytes.Fields(b)
	for i := 0; i < len(words); i++ {
		w := words[i]
		if bytes.IndexByte(w, ':') >= 0 {
			negative := w[0] == '-'
			micros, ok := clockMicros(bytes.TrimLeft(w, "+-"))
			if !ok {
				return iv, errInterval
			}
			if negative {
				micros = -micros
			}
			iv.micros = micros
			continue
		}
		n, perr := strconv.ParseInt(string(w), 10, 64)
		if perr != nil || i+1 == len(words) {
			return iv, errInterval
		}
		i++
		switch unit := words[i]; {
		case bytes.HasPrefix(unit, []byte("year")):
			iv.years = n
		case bytes.HasPrefix(unit, []byte("mon")):
			iv.months = n
		case bytes.HasPrefix(unit, []byte("day")):
			iv.days = n
		default:
			return iv, errInterval
		}
	}
	return iv, nil
}

func (f *Format) mapInterval() mapping {
	if f.cfg.Interval == "string" {
		return mapping{schema: connect.Named(connect.String, "io.debezium.time.Interval"), convert: intervalText, placeholder: schema.Value{}, fallback: schema.Text([]byte("P0Y0M0DT0H0M0S"))}
	}
	return mapping{schema: connect.Named(connect.Int64, "io.debezium.time.MicroDuration"), convert: intervalMicros, fallback: schema.Int(0)}
}

// intervalMicros is Debezium's MicroDuration, with its doubles: a month has 365.25/12 days.
// Infinite ones, which PostgreSQL has since 17, are those of the flat format.
func intervalMicros(_ *arena, v *schema.Value) (schema.Value, error) {
	switch string(v.Bytes) {
	case "infinity":
		return schema.Int(schema.InfinityTimestamp), nil
	case "-infinity":
		return schema.Int(schema.NegativeInfinityTimestamp), nil
	}
	iv, err := parseInterval(v.Bytes)
	if err != nil {
		return schema.Value{}, err
	}
	hours, minutes, seconds := iv.clock()
	days := float64(iv.years*12+iv.months)*(365.25/12) + float64(iv.days)
	total := float64((days*24+float64(hours))*60+float64(minutes))*60 + seconds
	total *= 1e6
	if math.Abs(total) >= 1<<63 {
		return schema.Value{}, errDuration
	}
	return schema.Int(int64(total)), nil
}

func (iv interval) clock() (hours, minutes int64, seconds float64) {
	return iv.micros / 3_600_000_000, iv.micros / 60_000_000 % 60, float64(iv.micros%60_000_000) / 1e6
}

func intervalText(a *arena, v *schema.Value) (schema.Value, error) {
	if text := string(v.Bytes); text == "infinity" || text == "-infinity" {
		return *v, nil
	}
	iv, err := parseInterval(v.Bytes)
	if err != nil {
		return schema.Value{}, err
	}
	hours, minutes, _ := iv.clock()
	return schema.Text(a.take(func(b []byte) []byte {
		for _, part := range []struct {
			lead string
			n    int64
			unit byte
		}{{"P", iv.years, 'Y'}, {"", iv.months, 'M'}, {"", iv.days, 'D'}, {"T", hours, 'H'}, {"", minutes, 'M'}} {
			b = append(strconv.AppendInt(append(b, part.lead...), part.n, 10), part.unit)
		}
		rest := iv.micros % 60_000_000
		if rest < 0 {
			b = append(b, '-')
			rest = -rest
		}
		b = strconv.AppendInt(b, rest/1_000_000, 10)
		if f := rest % 1_000_000; f != 0 {
			b = bytes.TrimRight(padded(append(b, '.'), f, 6), "0")
		}
		return append(b, 'S')
	})), nil
}
