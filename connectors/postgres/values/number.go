package values

import (
	"errors"
	"strconv"
	"unsafe"

	"github.com/tidemark-cdc/tidemark/schema"
)

var (
	errBool   = errors.New("is not a boolean")
	errBit    = errors.New("is not a single bit")
	errFloat  = errors.New("is not a floating-point number")
	errUUID   = errors.New("is not a uuid")
	errNumber = errors.New("is not a number")
	errRange  = errors.New("is out of the range of its type")
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

// decodeBit reads bit(1).
func decodeBit(_ *Arena, b []byte) (schema.Value, error) {
	if len(b) == 1 && (b[0] == '0' || b[0] == '1') {
		return schema.Bool(b[0] == '1'), nil
	}
	return schema.Value{}, errBit
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

func decodeUUID(_ *Arena, b []byte) (schema.Value, error) {
	if len(b) != 36 {
		return schema.Value{}, errUUID
	}
	return schema.Text(b), nil
}
