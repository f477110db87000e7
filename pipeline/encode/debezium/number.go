package debezium

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"strconv"

	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

var (
	errNumber = errors.New("is not a number")
	errNaN    = errors.New("is NaN or infinite, which a decimal cannot hold; set decimal.handling.mode to string or double, or decimal.nonfinite.handling.mode to null, which is what Debezium publishes")
	errBits   = errors.New("is not a bit string")
)

// modifier splits a numeric's modifier (src/backend/utils/adt/numeric.c).
func modifier(typmod int32) (precision, scale int, ok bool) {
	if typmod < 4 {
		return 0, 0, false
	}
	t := typmod - 4
	return int(t>>16) & 0xffff, int((t&0x7ff)^1024) - 1024, true
}

func (f *Format) mapNumeric(t *schema.Type) mapping {
	precision, scale, declared := modifier(t.Modifier)
	zero := "0"
	if declared && scale > 0 {
		zero = string(appendDigits(nil, new(big.Int), scale))
	}
	switch f.cfg.Decimal {
	case "string":
		return mapping{schema: connect.Of(connect.String), convert: numericText, placeholder: f.placeholder(), fallback: schema.Text([]byte(zero))}
	case "double":
		return mapping{schema: connect.Of(connect.Float64), convert: numericDouble, fallback: schema.Float64(0)}
	}
	if !declared {
		s := connect.Named(connect.Struct, "io.debezium.data.VariableScaleDecimal")
		s.Doc = "Variable scaled decimal"
		s.Fields = []connect.Field{{Name: "scale", Schema: connect.Of(connect.Int32)}, {Name: "value", Schema: connect.Of(connect.Bytes)}}
		return mapping{schema: s, convert: f.finite(variableScale), fallback: schema.Array([]schema.Value{schema.Int(0), schema.Decimal(0)})}
	}
	if scale < 0 { // multiples of a power of ten
		precision, scale = precision-scale, 0
	}
	s := connect.Named(connect.Bytes, connect.DecimalName, paramInt(connect.ParamScale, scale), paramInt(connect.ParamPrecision, precision))
	return mapping{schema: s, convert: f.finite(decimal(scale)), fallback: schema.Decimal(0)}
}

// finite makes what is no number null where that is asked for.
func (f *Format) finite(convert converter) converter {
	if !f.cfg.NonFiniteNull {
		return convert
	}
	return func(a *arena, v *schema.Value) (schema.Value, error) {
		out, err := convert(a, v)
		if errors.Is(err, errNaN) {
			return schema.Null(), nil
		}
		return out, err
	}
}

// numericText leaves the digits and names what is none as Java's enum does.
func numericText(_ *arena, v *schema.Value) (schema.Value, error) {
	switch string(v.Bytes) {
	case "NaN":
		return schema.Text([]byte("NAN")), nil
	case "Infinity":
		return schema.Text([]byte("POSITIVE_INFINITY")), nil
	case "-Infinity":
		return schema.Text([]byte("NEGATIVE_INFINITY")), nil
	}
	return *v, nil
}

func numericDouble(_ *arena, v *schema.Value) (schema.Value, error) {
	n, err := strconv.ParseFloat(string(v.Bytes), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return schema.Value{}, errNumber
	}
	return schema.Float64(n), nil
}

// decimal reads digits at a scale; more digits than that are refused.
func decimal(scale int) converter {
	return func(a *arena, v *schema.Value) (schema.Value, error) {
		digits, got, err := split(a, v.Bytes)
		if err != nil {
			return schema.Value{}, err
		}
		for ; got > scale; got-- {
			if digits[len(digits)-1] != '0' {
				return schema.Value{}, errNumber
			}
			digits = digits[:len(digits)-1]
		}
		return unscaled(a, digits, scale-got), nil
	}
}

// variableScale keeps the value and drops zeros at the end, as Debezium does.
func variableScale(a *arena, v *schema.Value) (schema.Value, error) {
	digits, scale, err := split(a, v.Bytes)
	if err != nil {
		return schema.Value{}, err
	}
	for scale > 0 && digits[len(digits)-1] == '0' {
		digits, scale = digits[:len(digits)-1], scale-1
	}
	out := a.values(2)
	out[0], out[1] = schema.Int(int64(scale)), unscaled(a, digits, 0)
	return schema.Array(out), nil
}

// split returns sign and digits without the point, and how many came after it.
func split(a *arena, text []byte) (digits []byte, scale int, err error) {
	if len(text) > 0 && (text[0] == 'N' || text[0] == 'I' || text[0] == '-' && len(text) > 1 && text[1] == 'I') {
		return nil, 0, errNaN
	}
	point := false
	digits = a.take(func(b []byte) []byte {
		for i, c := range text {
			switch {
			case c == '-' && i == 0, c >= '0' && c <= '9':
				b = append(b, c)
				if point {
					scale++
				}
			case c == '.' && !point:
				point = true
			default:
				err = errNumber
			}
		}
		return b
	})
	if len(digits) == 0 || digits[len(digits)-1] == '-' {
		err = errNumber
	}
	return digits, scale, err
}

// unscaled is the integer of digits, with zeros more at its end.
func unscaled(a *arena, digits []byte, zeros int) schema.Value {
	if len(digits)+zeros <= 18 {
		n, _ := strconv.ParseInt(string(digits), 10, 64) // digits were checked
		for range zeros {
			n *= 10
		}
		return schema.Decimal(n)
	}
	n, _ := new(big.Int).SetString(string(digits), 10)
	if zeros > 0 {
		n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(zeros)), nil))
	}
	return schema.BigDecimal(twosComplement(a, n))
}

func twosComplement(a *arena, n *big.Int) []byte {
	size := n.BitLen()/8 + 1
	if n.Sign() < 0 {
		size = new(big.Int).Not(n).BitLen()/8 + 1
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(size)*8))
	}
	return a.take(func(b []byte) []byte {
		for range size {
			b = append(b, 0)
		}
		n.FillBytes(b[len(b)-size:])
		return b
	})
}

// mapMoney maps money; its text is that of lc_monetary C: "-$1,234.50".
func (f *Format) mapMoney() mapping {
	digits := f.cfg.MoneyDigits
	zero := string(appendDigits(nil, new(big.Int), digits))
	plain := func(a *arena, v *schema.Value) []byte {
		return a.take(func(b []byte) []byte {
			for _, c := range v.Bytes {
				if c == '-' || c == '.' || c >= '0' && c <= '9' {
					b = append(b, c)
				}
			}
			return b
		})
	}
	after := func(inner converter) converter {
		return func(a *arena, v *schema.Value) (schema.Value, error) {
			t := schema.Text(plain(a, v))
			return inner(a, &t)
		}
	}
	switch f.cfg.Decimal {
	case "string":
		return mapping{schema: connect.Of(connect.String), convert: after(same), placeholder: f.placeholder(), fallback: schema.Text([]byte(zero))}
	case "double":
		return mapping{schema: connect.Of(connect.Float64), convert: after(numericDouble), fallback: schema.Float64(0)}
	}
	s := connect.Named(connect.Bytes, connect.DecimalName, paramInt(connect.ParamScale, digits))
	return mapping{schema: s, convert: after(rounded(digits)), fallback: schema.Decimal(0)}
}

// rounded is decimal with half-up rounding instead of a refusal.
func rounded(scale int) converter {
	exact := decimal(scale)
	return func(a *arena, v *schema.Value) (schema.Value, error) {
		point := bytes.IndexByte(v.Bytes, '.')
		if point < 0 || len(v.Bytes)-point-1 <= scale {
			return exact(a, v)
		}
		r, ok := new(big.Rat).SetString(string(v.Bytes))
		if !ok {
			return schema.Value{}, errNumber
		}
		t := schema.Text([]byte(r.FloatString(scale))) // half away from zero
		return exact(a, &t)
	}
}

func appendDigits(dst []byte, n *big.Int, scale int) []byte {
	r := new(big.Rat).SetInt(n)
	return append(dst, r.FloatString(scale)...)
}

// mapBinary maps bytes by binary.handling.mode.
func (f *Format) mapBinary(placeholder schema.Value) mapping {
	var encode func(dst, b []byte) []byte
	switch f.cfg.Binary {
	case "base64":
		encode = base64.StdEncoding.AppendEncode
	case "base64-url-safe":
		encode = base64.URLEncoding.AppendEncode
	case "hex":
		encode = hex.AppendEncode
	default:
		return mapping{schema: connect.Of(connect.Bytes), convert: same, placeholder: placeholder, fallback: schema.Bytes([]byte{})}
	}
	m := mapping{schema: connect.Of(connect.String), fallback: schema.Text([]byte{})}
	if f.cfg.Binary == "hex" && placeholder.Kind > schema.KindNull {
		m.placeholder = f.placeholder()
	}
	m.convert = func(a *arena, v *schema.Value) (schema.Value, error) {
		return schema.Text(a.take(func(dst []byte) []byte { return encode(dst, v.Bytes) })), nil
	}
	return m
}

// mapBits maps bit strings: one bit is a boolean, more are bytes, the last bit first, without zero bytes at the end.
func mapBits(t *schema.Type) mapping {
	length := int(t.Modifier)
	if t.Modifier < 0 {
		length = 1<<31 - 1
	}
	if length == 1 {
		return mapping{schema: connect.Of(connect.Boolean), fallback: schema.Bool(false), convert: func(_ *arena, v *schema.Value) (schema.Value, error) {
			return schema.Bool(len(v.Bytes) == 1 && v.Bytes[0] == '1'), nil
		}}
	}
	s := connect.Named(connect.Bytes, "io.debezium.data.Bits", paramInt("length", length))
	return mapping{schema: s, convert: bits, fallback: schema.Bytes([]byte{})}
}

func bits(a *arena, v *schema.Value) (schema.Value, error) {
	var err error
	out := a.take(func(b []byte) []byte {
		at := len(b)
		for i := len(v.Bytes) - 1; i >= 0; i-- {
			n := len(v.Bytes) - 1 - i
			switch v.Bytes[i] {
			case '1':
				for len(b)-at <= n/8 {
					b = append(b, 0)
				}
				b[at+n/8] |= 1 << (n % 8)
			case '0':
			default:
				err = errBits
			}
		}
		return b
	})
	return schema.Bytes(out), err
}
