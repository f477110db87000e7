package values

import (
	"encoding/binary"
	"errors"
	"math/big"
	"math/bits"
	"strconv"

	"github.com/tidemark-cdc/tidemark/schema"
)

var (
	errScale = errors.New("has more digits after the point than its type declares")
	errMoney = errors.New("is not money in lc_monetary C")
	errNaN   = errors.New("is NaN or infinite, which a decimal cannot hold; set decimal.handling.mode to string or double, or decimal.nonfinite.handling.mode=null")
)

// numericTypmod splits a numeric's modifier; ok is false where there is none.
// The scale is an 11-bit signed number since PostgreSQL 15 (src/backend/utils/adt/numeric.c).
func numericTypmod(typmod int32) (precision, scale int, ok bool) {
	if typmod < 4 {
		return 0, 0, false
	}
	t := typmod - 4
	return int(t>>16) & 0xffff, int((t&0x7ff)^1024) - 1024, true
}

func mapNumeric(typmod int32, opts Options) (schema.Type, Decoder) {
	precision, scale, ok := numericTypmod(typmod)
	switch {
	case opts.Decimal == DecimalDouble:
		return schema.Type{Kind: schema.KindFloat64}, decodeNearest
	case opts.Decimal == DecimalString || !ok:
		return schema.Type{Kind: schema.KindString}, decodeText
	case scale < 0: // numeric(3,-2): multiples of 100, of up to 5 digits
		precision, scale = precision-scale, 0
	case scale > precision: // numeric(2,5): 0.000xx
		precision = scale
	}
	return schema.Type{Kind: schema.KindDecimal, Precision: precision, Scale: scale}, decimalDecoder(scale, opts.NonFiniteNull)
}

// decodeNearest reads a numeric as the nearest double. One beyond the doubles is an error rather than infinite.
func decodeNearest(_ *Arena, b []byte) (schema.Value, error) {
	f, err := strconv.ParseFloat(text(b), 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return schema.Value{}, errRange
	case err != nil:
		return schema.Value{}, errNumber
	}
	return schema.Float64(f), nil
}

// decimalDecoder reads fixed-point text to the unscaled integer at the given scale.
func decimalDecoder(scale int, nonFiniteNull bool) Decoder {
	return func(a *Arena, b []byte) (schema.Value, error) {
		neg, i := len(b) > 0 && b[0] == '-', 0
		if neg {
			i = 1
		}
		if i == len(b) {
			return schema.Value{}, errNumber
		}
		if nonFinite(b[i:]) {
			if !nonFiniteNull {
				return schema.Value{}, errNaN
			}
			a.NonFinite++
			return schema.Null(), nil
		}
		var n uint64
		digits, fraction, point := 0, 0, false
		for _, c := range b[i:] {
			if c == '.' && !point {
				point = true
				continue
			}
			if c < '0' || c > '9' {
				return schema.Value{}, errNumber
			}
			if point {
				if fraction == scale {
					if c != '0' {
						return schema.Value{}, errScale
					}
					continue
				}
				fraction++
			}
			digits++
			n = n*10 + uint64(c-'0')
		}
		if digits == 0 {
			return schema.Value{}, errNumber
		}
		if digits+scale-fraction > 18 {
			return bigDecimal(a, b[i:], neg, digits, fraction, scale)
		}
		for ; fraction < scale; fraction++ {
			n *= 10
		}
		if neg {
			return schema.Decimal(-int64(n)), nil
		}
		return schema.Decimal(int64(n)), nil
	}
}

func nonFinite(b []byte) bool {
	switch text(b) {
	case "NaN", "Infinity":
		return true
	}
	return false
}

// bigDecimal is decimalDecoder for more than 18 digits; the digits were checked and counted.
func bigDecimal(a *Arena, b []byte, neg bool, digits, fraction, scale int) (schema.Value, error) {
	if digits+scale-fraction <= 38 { // 10^38 < 2^127
		return wideDecimal(a, b, neg, fraction, scale), nil
	}
	plain := make([]byte, 0, len(b)+scale)
	for i, kept := 0, 0; i < len(b) && kept < digits; i++ {
		if b[i] != '.' {
			plain = append(plain, b[i])
			kept++
		}
	}
	for ; fraction < scale; fraction++ {
		plain = append(plain, '0')
	}
	n, ok := new(big.Int).SetString(string(plain), 10)
	if !ok {
		return schema.Value{}, errNumber
	}
	if neg {
		n.Neg(n)
	}
	return schema.BigDecimal(twosComplement(a, n)), nil
}

// wideDecimal is bigDecimal for up to 38 digits, without allocating.
func wideDecimal(a *Arena, b []byte, neg bool, fraction, scale int) schema.Value {
	var hi, lo uint64
	push := func(digit uint64) {
		over, low := bits.Mul64(lo, 10)
		var carry uint64
		lo, carry = bits.Add64(low, digit, 0)
		hi = hi*10 + over + carry
	}
	after := -1 // digits read after the point
	for _, c := range b {
		switch {
		case c == '.':
			after = 0
		case after < fraction:
			push(uint64(c - '0'))
			if after >= 0 {
				after++
			}
		}
	}
	for ; fraction < scale; fraction++ {
		push(0)
	}
	if neg {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
	}
	out := a.Bytes(16)
	binary.BigEndian.PutUint64(out, hi)
	binary.BigEndian.PutUint64(out[8:], lo)
	for len(out) > 1 && (out[0] == 0 && out[1] < 0x80 || out[0] == 0xff && out[1] >= 0x80) {
		out = out[1:]
	}
	return schema.BigDecimal(out)
}

// twosComplement returns the shortest big-endian two's complement form of n.
func twosComplement(a *Arena, n *big.Int) []byte {
	if n.Sign() >= 0 {
		out := a.Bytes(n.BitLen()/8 + 1)
		return n.FillBytes(out)
	}
	size := new(big.Int).Not(n).BitLen()/8 + 1
	m := new(big.Int).Lsh(big.NewInt(1), uint(size)*8)
	return m.Add(m, n).FillBytes(a.Bytes(size))
}

// moneyDigits holds 2^63 hundredths.
const moneyDigits = 19

// mapMoney maps money: hundredths of a unit, which is how lc_monetary C reads the stored integer
// (src/backend/utils/adt/cash.c, cash_out).
func mapMoney(opts Options) (schema.Type, Decoder) {
	switch opts.Decimal {
	case DecimalDouble:
		return schema.Type{Kind: schema.KindFloat64}, func(a *Arena, b []byte) (schema.Value, error) {
			plain, err := plainMoney(a, b)
			if err != nil {
				return schema.Value{}, err
			}
			return decodeNearest(a, plain)
		}
	case DecimalString:
		return schema.Type{Kind: schema.KindString}, func(a *Arena, b []byte) (schema.Value, error) {
			plain, err := plainMoney(a, b)
			return schema.Text(plain), err
		}
	}
	decimal := decimalDecoder(2, false)
	return schema.Type{Kind: schema.KindDecimal, Precision: moneyDigits, Scale: 2}, func(a *Arena, b []byte) (schema.Value, error) {
		plain, err := plainMoney(a, b)
		if err != nil {
			return schema.Value{}, err
		}
		return decimal(a, plain)
	}
}

// plainMoney takes sign and separators off -$1,234.56: -1234.56.
func plainMoney(a *Arena, b []byte) ([]byte, error) {
	out := a.Bytes(len(b))[:0]
	s := scanner{b: b}
	if s.accept('-') {
		out = append(out, '-')
	}
	if !s.accept('$') || len(b)-s.i < 4 || b[len(b)-3] != '.' {
		return nil, errMoney
	}
	for _, c := range b[s.i:] {
		if c != ',' {
			out = append(out, c)
		}
	}
	return out, nil
}
