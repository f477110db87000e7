package values

import (
	"errors"

	"github.com/tidemark-cdc/tidemark/schema"
)

var (
	errDate      = errors.New("is not a date in ISO format")
	errTime      = errors.New("is not a time of day")
	errTimestamp = errors.New("is not a timestamp in ISO format")
	errSpan      = errors.New("is beyond what microseconds since 1970 can hold; exclude the column (column.exclude.list)")
)

const (
	microsPerSecond = int64(1_000_000)
	microsPerDay    = 86_400 * microsPerSecond
)

// scanner reads fixed formats without allocating.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) done() bool { return s.i == len(s.b) }

func (s *scanner) accept(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// digits reads between least and most digits.
func (s *scanner) digits(least, most int) (int64, bool) {
	var n int64
	start := s.i
	for s.i < len(s.b) && s.i-start < most {
		c := s.b[s.i] - '0'
		if c > 9 {
			break
		}
		n = n*10 + int64(c)
		s.i++
	}
	return n, s.i-start >= least
}

func infinite(b []byte) (sign int) {
	switch text(b) {
	case "infinity":
		return 1
	case "-infinity":
		return -1
	}
	return 0
}

func decodeDate(_ *Arena, b []byte) (schema.Value, error) {
	switch infinite(b) {
	case 1:
		return schema.Int(schema.InfinityDate), nil
	case -1:
		return schema.Int(schema.NegativeInfinityDate), nil
	}
	s := scanner{b: bare(b)}
	days, ok := s.date(era(b))
	if !ok || !s.done() {
		return schema.Value{}, errDate
	}
	return schema.Int(days), nil
}

func decodeTime(_ *Arena, b []byte) (schema.Value, error) {
	s := scanner{b: b}
	micros, ok := s.time()
	if !ok || !s.done() {
		return schema.Value{}, errTime
	}
	return schema.Int(micros), nil
}

func decodeTimestamp(_ *Arena, b []byte) (schema.Value, error) { return timestamp(b, false) }

func decodeTimestamptz(_ *Arena, b []byte) (schema.Value, error) { return timestamp(b, true) }

func timestamp(b []byte, zoned bool) (schema.Value, error) {
	switch infinite(b) {
	case 1:
		return schema.Int(schema.InfinityTimestamp), nil
	case -1:
		return schema.Int(schema.NegativeInfinityTimestamp), nil
	}
	s := scanner{b: bare(b)}
	days, ok := s.date(era(b))
	if !ok || !s.accept(' ') {
		return schema.Value{}, errTimestamp
	}
	micros, ok := s.time()
	if !ok {
		return schema.Value{}, errTimestamp
	}
	if zoned {
		offset, ok := s.offset()
		if !ok {
			return schema.Value{}, errTimestamp
		}
		micros -= offset * microsPerSecond
	}
	if !s.done() {
		return schema.Value{}, errTimestamp
	}
	// One day of slack on both sides: the sentinels stay distinct from every finite value.
	const limit = (1<<63-1)/microsPerDay - 1
	if days > limit || days < -limit {
		return schema.Value{}, errSpan
	}
	return schema.Int(days*microsPerDay + micros), nil
}

// era reports a trailing " BC"; bare cuts it.
func era(b []byte) (bc bool) { return len(b) > 3 && text(b[len(b)-3:]) == " BC" }

func bare(b []byte) []byte {
	if era(b) {
		return b[:len(b)-3]
	}
	return b
}

// date reads YYYY-MM-DD, with as many year digits as there are, to days since 1970-01-01.
func (s *scanner) date(bc bool) (days int64, ok bool) {
	year, ok1 := s.digits(4, 7)
	dash1 := s.accept('-')
	month, ok2 := s.digits(2, 2)
	dash2 := s.accept('-')
	day, ok3 := s.digits(2, 2)
	if !ok1 || !dash1 || !ok2 || !dash2 || !ok3 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	if bc {
		year = 1 - year // 1 BC is the astronomical year 0
	}
	return civilDays(year, month, day), true
}

// civilDays counts days since 1970-01-01 in the proleptic Gregorian calendar
// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil).
func civilDays(y, m, d int64) int64 {
	if m <= 2 {
		y--
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	doy := (153*((m+9)%12)+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}

// time reads HH:MM:SS[.ffffff] to microseconds; 24:00:00 is a value.
func (s *scanner) time() (micros int64, ok bool) {
	h, ok1 := s.digits(2, 2)
	c1 := s.accept(':')
	m, ok2 := s.digits(2, 2)
	c2 := s.accept(':')
	sec, ok3 := s.digits(2, 2)
	if !ok1 || !c1 || !ok2 || !c2 || !ok3 || h > 24 || m > 59 || sec > 60 {
		return 0, false
	}
	micros = ((h*60+m)*60 + sec) * microsPerSecond
	f, ok := s.fraction()
	return micros + f, ok && micros+f <= microsPerDay
}

// offset reads ±HH[:MM[:SS]] to seconds east of UTC.
func (s *scanner) offset() (seconds int64, ok bool) {
	sign := int64(1)
	switch {
	case s.accept('-'):
		sign = -1
	case !s.accept('+'):
		return 0, false
	}
	h, ok := s.digits(2, 2)
	if !ok {
		return 0, false
	}
	seconds = h * 3600
	for _, unit := range [...]int64{60, 1} {
		if !s.accept(':') {
			break
		}
		n, ok := s.digits(2, 2)
		if !ok {
			return 0, false
		}
		seconds += n * unit
	}
	return sign * seconds, true
}
