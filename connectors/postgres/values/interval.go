package values

import (
	"errors"
	"math"
	"strconv"

	"github.com/tidemark-cdc/tidemark/schema"
)

var errInterval = errors.New("is not an interval in IntervalStyle postgres")

func mapInterval(mode IntervalMode) (schema.Type, Decoder) {
	switch mode {
	case IntervalNumeric:
		return schema.Type{Kind: schema.KindInt, Bits: 64}, decodeIntervalMicros
	case IntervalString:
		return schema.Type{Kind: schema.KindString}, decodeIntervalISO
	}
	return schema.Type{Kind: schema.KindString}, decodeText
}

// span is an interval as PostgreSQL prints it: years are months by twelve, hours, minutes and
// seconds one number; each part has a sign of its own.
type span struct {
	years, months, days int64
	micros              int64
}

// microsPerMonth is a twelfth of 365.25 days.
const microsPerMonth = 2_629_800 * microsPerSecond

func decodeIntervalMicros(_ *Arena, b []byte) (schema.Value, error) {
	switch infinite(b) {
	case 1:
		return schema.Int(schema.InfinityTimestamp), nil
	case -1:
		return schema.Int(schema.NegativeInfinityTimestamp), nil
	}
	s, err := parseInterval(b)
	if err != nil {
		return schema.Value{}, err
	}
	total := s.micros
	for _, part := range [2][2]int64{{s.years*12 + s.months, microsPerMonth}, {s.days, microsPerDay}} {
		if part[0] > math.MaxInt64/part[1] || part[0] < math.MinInt64/part[1] {
			return schema.Value{}, errRange
		}
		n := part[0] * part[1]
		if n > 0 && total > math.MaxInt64-n || n < 0 && total < math.MinInt64-n {
			return schema.Value{}, errRange
		}
		total += n
	}
	return schema.Int(total), nil
}

func decodeIntervalISO(a *Arena, b []byte) (schema.Value, error) {
	if infinite(b) != 0 {
		return schema.Text(b), nil
	}
	s, err := parseInterval(b)
	if err != nil {
		return schema.Value{}, err
	}
	out := append(a.build[:0], 'P')
	part := func(n int64, unit string) { out = append(strconv.AppendInt(out, n, 10), unit...) }
	part(s.years, "Y")
	part(s.months, "M")
	part(s.days, "DT")
	const hour, minute = 3600 * microsPerSecond, 60 * microsPerSecond
	part(s.micros/hour, "H")
	part(s.micros%hour/minute, "M")
	rest := s.micros % minute
	if rest < 0 {
		out, rest = append(out, '-'), -rest
	}
	out = strconv.AppendInt(out, rest/microsPerSecond, 10)
	if f := rest % microsPerSecond; f != 0 {
		var room [8]byte
		digits := strconv.AppendInt(room[:0], microsPerSecond+f, 10) // 1ffffff
		for digits[len(digits)-1] == '0' {
			digits = digits[:len(digits)-1]
		}
		out = append(append(out, '.'), digits[1:]...)
	}
	return schema.Text(a.keep(append(out, 'S'))), nil
}

// parseInterval reads IntervalStyle postgres (src/backend/utils/adt/datetime.c, EncodeInterval).
func parseInterval(b []byte) (span, error) {
	var out span
	s := scanner{b: b}
	for first := true; first || !s.done(); first = false {
		if !first && !s.accept(' ') {
			return out, errInterval
		}
		neg := s.accept('-')
		if !neg {
			s.accept('+')
		}
		start := s.i
		n, ok := s.digits(1, 10)
		if !ok {
			return out, errInterval
		}
		if s.i < len(b) && b[s.i] == ':' {
			s.i = start
			out.micros, ok = s.clock()
			if !ok || !s.done() || out.micros < 0 && !(neg && out.micros == math.MinInt64) {
				return out, errInterval
			}
			if neg {
				out.micros = -out.micros
			}
			return out, nil
		}
		if neg {
			n = -n
		}
		if !s.unit(&out, n) {
			return out, errInterval
		}
	}
	return out, nil
}

func (s *scanner) unit(out *span, n int64) bool {
	if !s.accept(' ') {
		return false
	}
	start := s.i
	for s.i < len(s.b) && s.b[s.i] != ' ' {
		s.i++
	}
	switch text(s.b[start:s.i]) {
	case "year", "years":
		out.years = n
	case "mon", "mons":
		out.months = n
	case "day", "days":
		out.days = n
	default:
		return false
	}
	return true
}

// clock reads H…H:MM:SS[.ffffff] to microseconds; 2^63 of them wrap to a negative number.
func (s *scanner) clock() (micros int64, ok bool) {
	h, ok1 := s.digits(2, 10)
	c1 := s.accept(':')
	m, ok2 := s.digits(2, 2)
	c2 := s.accept(':')
	sec, ok3 := s.digits(2, 2)
	if !ok1 || !c1 || !ok2 || !c2 || !ok3 || m > 59 || sec > 59 || h > math.MaxInt64/(3600*microsPerSecond) {
		return 0, false
	}
	f, ok := s.fraction()
	return ((h*60+m)*60+sec)*microsPerSecond + f, ok
}

// fraction reads [.ffffff] to microseconds.
func (s *scanner) fraction() (micros int64, ok bool) {
	if !s.accept('.') {
		return 0, true
	}
	start := s.i
	f, ok := s.digits(1, 6)
	for n := s.i - start; n < 6; n++ {
		f *= 10
	}
	return f, ok
}
