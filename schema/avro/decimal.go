package avro

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"math/bits"
)

// decimalLimit bounds the unscaled integers of one precision.
type decimalLimit struct {
	num      int64  // largest magnitude, where it fits 64 bits; else 0
	max, min []byte // largest and smallest, two's complement, big endian, minimal, of one length
}

func newDecimalLimit(precision int) *decimalLimit {
	n := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	n.Sub(n, big.NewInt(1))
	l := &decimalLimit{max: n.Bytes()}
	if n.IsInt64() {
		l.num = n.Int64()
	}
	if l.max[0]&0x80 != 0 {
		l.max = append([]byte{0}, l.max...)
	}
	// 10^p-1 is odd and above 1, so its negative needs as many bytes.
	l.min = make([]byte, len(l.max))
	carry := byte(1)
	for i := len(l.max) - 1; i >= 0; i-- {
		l.min[i] = ^l.max[i] + carry
		if l.min[i] != 0 {
			carry = 0
		}
	}
	return l
}

// holds reports whether the minimal two's complement b is within the limit.
func (l *decimalLimit) holds(b []byte) bool {
	if len(b) != len(l.max) {
		return len(b) < len(l.max)
	}
	if b[0]&0x80 == 0 {
		return bytes.Compare(b, l.max) <= 0
	}
	return bytes.Compare(b, l.min) >= 0
}

// minimal strips bytes that only repeat the sign; b has at least one byte.
func minimal(b []byte) []byte {
	for len(b) > 1 && ((b[0] == 0 && b[1] < 0x80) || (b[0] == 0xff && b[1] >= 0x80)) {
		b = b[1:]
	}
	return b
}

// appendDecimal appends n as Avro bytes, minimal; dst has room for 9 bytes.
func appendDecimal(dst []byte, n int64) []byte {
	size := bits.Len64(uint64(n^n>>63))/8 + 1
	at := len(dst)
	dst = dst[:at+9]
	dst[at] = byte(size << 1)
	binary.BigEndian.PutUint64(dst[at+1:], uint64(n)<<(64-8*size))
	return dst[:at+1+size]
}
