package values

import (
	"encoding/hex"
	"errors"
	"math/big"
	"strconv"
	"unsafe"

	"github.com/tidemark-cdc/tidemark/schema"
)

var (
	errBool   = errors.New("is not a boolean")
	errFloat  = errors.New("is not a floating-point number")
	errBytea  = errors.New("is not bytea in hex format")
	errUUID   = errors.New("is not a uuid")
	errNumber = errors.New("is not a number")
	errRange  = errors.New("is out of the range of its type")
	errScale  = errors.New("has more digits after the point than its type declares")
	errNaN    = errors.New("is NaN or infinite, which a decimal cannot hold; set decimal.handling.mode=string or double")
)

// text views b as a string without copying; the string must not outlive b.
//
//nolint:gosec // G103: read-only view for strconv and comparisons, never kept
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func decodeBool(_ *Arena, b []byte) (schema.Value, error) {
	if len(b) == 1 && (b[0] == 't' || b[0] == 'f') {
		return schema.Bool(b[0] == 't'), nil
	}
	return schema.Value{}, errBool
}

func intDecoder(bits int) Decoder {
	return func(_ *Arena, b []byte) (schema.Value, error) {
		n, err := parseInt(b)
		if err != nil {
			return schema.Value{}, err
		}
		if bits < 64 && (n < -1<<(bits-1) || n >= 1<<(bits-1)) {
			return schema.Value{}, errRange
		}
		return schema.Int(n), nil
	}
}

func decodeOid(_ *Arena, b []byte) (schema.Value, error) {
	n, err := parseInt(b)
	if err == nil && (n < 0 || n > 1<<32-1) {
		err = errRange
	}
	return schema.Int(n), err
}

func parseInt(b []byte) (int64, error) {
	neg, i := false, 0
	if len(b) > 0 && b[0] == '-' {
		neg, i = true, 1
	}
	if i == len(b) {
		return 0, errNumber
	}
	var n uint64
	for ; i < len(b); i++ {
		c := b[i] - '0'
		if c > 9 {
			return 0, errNumber
		}
		if n > (1<<63)/10 {
			return 0, errRange
		}
		n = n*10 + uint64(c)
	}
	switch {
	case neg && n <= 1<<63:
		return -int64(n), nil // 2^63 wraps to itself, which is the value meant
	case !neg && n < 1<<63:
		return int64(n), nil
	}
	return 0, errRange
}

func decodeFloat4(_ *Arena, b []byte) (schema.Value, error) {
	f, err := parseFloat(b, 32)
	return schema.Float32(float32(f)), err
}

func decodeFloat8(_ *Arena, b []byte) (schema.Value, error) {
	f, err := parseFloat(b, 64)
	return schema.Float64(f), err
}

func parseFloat(b []byte, bits int) (float64, error) {
	f, err := strconv.ParseFloat(text(b), bits)
	if err != nil {
		return 0, errFloat // not wrapped: strconv's error holds the value
	}
	return f, nil
}

func decodeBytea(a *Arena, b []byte) (schema.Value, error) {
	if len(b) < 2 || b[0] != '\\' || b[1] != 'x' || len(b)%2 != 0 {
		return schema.Value{}, errBytea
	}
	out := a.Bytes((len(b) - 2) / 2)
	if _, err := hex.Decode(out, b[2:]); err != nil {
		return schema.Value{}, errBytea
	}
	return schema.Bytes(out), nil
}

func decodeUUID(_ *Arena, b []byte) (schema.Value, error) {
	if len(b) != 36 {
		return schema.Value{}, errUUID
	}
	return schema.Text(b), nil
}

// numericTypmod splits a numeric's modifier; ok is false where there is none.
// The scale is an 11-bit signed number since PostgreSQL 15 (src/backend/utils/adt/numeric.c).
func numericTypmod(typmod int32) (precision, scale int, ok bool) {
	if typmod < 4 {
		return 0, 0, false
	}
	t := typmod - 4
	return int(t>>16) & 0xffff, int((t&0x7ff)^1024) - 1024, true
}

func mapNumeric(typmod int32, mode DecimalMode) (schema.Type, Decoder, bool) {
	precision, scale, ok := numericTypmod(typmod)
	switch {
	case mode == DecimalDouble:
		return schema.Type{Kind: schema.KindFloat64}, decodeFloat8, true
	case mode == DecimalString || !ok:
		return schema.Type{Kind: schema.KindString}, decodeText, true
	case scale < 0: // numeric(3,-2): multiples of 100, of up to 5 digits
		precision, scale = precision-scale, 0
	case scale > precision: // numeric(2,5): 0.000xx
		precision = scale
	}
	return schema.Type{Kind: schema.KindDecimal, Precision: precision, Scale: scale}, decimalDecoder(scale), true
}

// decimalDecoder reads fixed-point text to the unscaled integer at the given scale.
func decimalDecoder(scale int) Decoder {
	return func(a *Arena, b []byte) (schema.Value, error) {
		neg, i := len(b) > 0 && b[0] == '-', 0
		if neg {
			i = 1
		}
		if i == len(b) {
			return schema.Value{}, errNumber
		}
		if b[i] == 'N' || b[i] == 'I' {
			return schema.Value{}, errNaN
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
			return bigDecimal(a, b[i:], neg, scale)
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

// bigDecimal is decimalDecoder for more than 18 digits; digits were checked.
func bigDecimal(a *Arena, b []byte, neg bool, scale int) (schema.Value, error) {
	digits := make([]byte, 0, len(b)+scale)
	fraction, point := 0, false
	for _, c := range b {
		switch {
		case c == '.':
			point = true
		case !point || fraction < scale:
			digits = append(digits, c)
			if point {
				fraction++
			}
		}
	}
	for ; fraction < scale; fraction++ {
		digits = append(digits, '0')
	}
	n, ok := new(big.Int).SetString(string(digits), 10)
	if !ok {
		return schema.Value{}, errNumber
	}
	if neg {
		n.Neg(n)
	}
	return schema.BigDecimal(twosComplement(a, n)), nil
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
