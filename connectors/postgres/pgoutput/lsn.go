package pgoutput

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a position in the write-ahead log: a byte offset from its beginning.
type LSN uint64

// String writes the LSN as %X/%X: two hexadecimal halves, upper case, without
// leading zeros.
func (l LSN) String() string {
	var buf [17]byte
	return string(l.Append(buf[:0]))
}

// Append appends what String returns and does not allocate if dst has room for
// 17 bytes.
func (l LSN) Append(dst []byte) []byte {
	dst = appendHex(dst, uint32(l>>32))
	dst = append(dst, '/')
	return appendHex(dst, uint32(l))
}

func appendHex(dst []byte, v uint32) []byte {
	const digits = "0123456789ABCDEF"
	shift := 28
	for shift > 0 && v>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		dst = append(dst, digits[v>>shift&0xf])
	}
	return dst
}

// ParseLSN reads what PostgreSQL's type pg_lsn accepts: one to eight
// hexadecimal digits, a slash, one to eight hexadecimal digits; nothing else,
// no spaces. Either case and leading zeros are accepted.
func ParseLSN(s string) (LSN, error) {
	high, low, ok := strings.Cut(s, "/")
	if ok && len(high) <= 8 && len(low) <= 8 {
		h, errHigh := strconv.ParseUint(high, 16, 32)
		l, errLow := strconv.ParseUint(low, 16, 32)
		if errHigh == nil && errLow == nil {
			return LSN(h<<32 | l), nil
		}
	}
	return 0, fmt.Errorf("parse LSN %q: want two hexadecimal numbers of up to 8 digits with a slash between, like 16/B374D848", s)
}
