package avro

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-cdc/tidemark/schema"
)

func (n *node) appendJSON(dst []byte, r *reader, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, fmt.Errorf("%w: nested deeper than %d", ErrMalformed, maxDepth)
	}
	switch n.kind {
	case nodeNull:
		return append(dst, "null"...), nil
	case nodeBoolean:
		b, err := r.take(1)
		if err != nil {
			return dst, err
		}
		return strconv.AppendBool(dst, b[0] != 0), nil
	case nodeInt, nodeLong:
		i, err := r.long()
		return n.appendInt(dst, i), err
	case nodeFloat:
		f, err := r.float32()
		return appendFloat(dst, float64(f), 32), err
	case nodeDouble:
		f, err := r.float64()
		return appendFloat(dst, f, 64), err
	case nodeString:
		b, err := r.bytes()
		return appendString(dst, b), err
	case nodeBytes:
		b, err := r.bytes()
		return n.appendBytes(dst, b), err
	case nodeFixed:
		b, err := r.take(int64(n.size))
		return n.appendBytes(dst, b), err
	case nodeEnum:
		i, err := r.index(len(n.symbols))
		if err != nil {
			return dst, err
		}
		return appendString(dst, n.symbols[i]), nil
	case nodeUnion:
		b, err := r.branch(n)
		if err != nil {
			return dst, err
		}
		return b.appendJSON(dst, r, depth+1)
	case nodeRecord:
		return n.appendRecord(dst, r, depth)
	}
	return n.appendItems(dst, r, depth)
}

func (n *node) appendRecord(dst []byte, r *reader, depth int) ([]byte, error) {
	dst = append(dst, '{')
	for i, f := range n.nodes {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = f.appendJSON(append(appendString(dst, n.names[i]), ':'), r, depth+1); err != nil {
			return dst, fmt.Errorf("field %s: %w", n.names[i], err)
		}
	}
	return append(dst, '}'), nil
}

// appendItems appends an array or a map.
func (n *node) appendItems(dst []byte, r *reader, depth int) ([]byte, error) {
	begin, end := byte('['), byte(']')
	if n.kind == nodeMap {
		begin, end = '{', '}'
	}
	dst = append(dst, begin)
	first := true
	err := r.items(func() error {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if n.kind == nodeMap {
			key, err := r.bytes()
			if err != nil {
				return err
			}
			dst = append(appendString(dst, key), ':')
		}
		var err error
		dst, err = n.nodes[0].appendJSON(dst, r, depth+1)
		return err
	})
	return append(dst, end), err
}

func (n *node) appendInt(dst []byte, i int64) []byte {
	switch n.logical {
	case "date":
		if i == schema.InfinityDate || i == schema.NegativeInfinityDate {
			return appendInfinity(dst, i)
		}
		return quoted(time.Unix(0, 0).UTC().AddDate(0, 0, int(i)).AppendFormat(append(dst, '"'), time.DateOnly))
	case "time-millis":
		return appendTime(dst, i*1000)
	case "time-micros":
		return appendTime(dst, i)
	case "timestamp-millis":
		return quoted(time.UnixMilli(i).UTC().AppendFormat(append(dst, '"'), time.RFC3339Nano))
	case "local-timestamp-millis":
		return quoted(time.UnixMilli(i).UTC().AppendFormat(append(dst, '"'), localFormat))
	case "timestamp-micros", "local-timestamp-micros":
		if i == schema.InfinityTimestamp || i == schema.NegativeInfinityTimestamp {
			return appendInfinity(dst, i)
		}
		if n.logical == "timestamp-micros" {
			return quoted(time.UnixMicro(i).UTC().AppendFormat(append(dst, '"'), time.RFC3339Nano))
		}
		return quoted(time.UnixMicro(i).UTC().AppendFormat(append(dst, '"'), localFormat))
	}
	return strconv.AppendInt(dst, i, 10)
}

const localFormat = "2006-01-02T15:04:05.999999"

func quoted(dst []byte) []byte { return append(dst, '"') }

func appendInfinity(dst []byte, sign int64) []byte {
	if sign < 0 {
		return append(dst, `"-infinity"`...)
	}
	return append(dst, `"infinity"`...)
}

// appendTime appends microseconds since midnight, 24:00:00 included. Others are left a number.
func appendTime(dst []byte, micros int64) []byte {
	if micros < 0 || micros > dayMicros {
		return strconv.AppendInt(dst, micros, 10)
	}
	s := micros / 1_000_000
	dst = fmt.Appendf(dst, `"%02d:%02d:%02d`, s/3600, s/60%60, s%60)
	if frac := micros % 1_000_000; frac != 0 {
		dst = fmt.Appendf(dst, ".%06d", frac)
	}
	return quoted(dst)
}

func (n *node) appendBytes(dst, b []byte) []byte {
	if n.logical == "decimal" && len(b) > 0 && n.scale >= 0 && n.scale <= maxScale {
		return appendDigits(dst, b, n.scale)
	}
	return quoted(base64.StdEncoding.AppendEncode(append(dst, '"'), b))
}

// maxScale bounds the digits written for a decimal; beyond it, its bytes are shown.
const maxScale = 100_000

// appendDigits appends a decimal, two's complement at a scale, as a string of digits.
func appendDigits(dst, b []byte, scale int) []byte {
	i := new(big.Int).SetBytes(b)
	if b[0]&0x80 != 0 {
		i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	dst = append(dst, '"')
	if i.Sign() < 0 {
		dst = append(dst, '-')
		i.Neg(i)
	}
	digits := i.String()
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	dst = append(dst, digits[:len(digits)-scale]...)
	if scale > 0 {
		dst = append(append(dst, '.'), digits[len(digits)-scale:]...)
	}
	return quoted(dst)
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}

// appendString appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}
