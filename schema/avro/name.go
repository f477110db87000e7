// Package avro turns tables into Avro schemas and rows into Avro bytes.
//
// A table version is compiled once (CompileKey, CompileValue) into a plan, which appends
// rows to a buffer without reflection and without allocation. Codec is the way back, for
// consumers: it reads records with the schema they were written with. The formats are those
// of the Avro specification, 1.12 (https://avro.apache.org/docs/1.12.0/specification/).
package avro

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// invalidByte is added to a byte that is not part of valid UTF-8, so that it is written as
// a code point that Unicode does not have.
const invalidByte = utf8.MaxRune + 1

// emptyName stands for the empty identifier: an escape without digits.
const emptyName = "_x_"

// Name returns the Avro name of a database identifier. Letters, digits and underscores of
// ASCII stay; every other code point, and a digit at the start, becomes _x<hex>_, its code
// point in lower-case hexadecimal without leading zeros. An underscore that would begin such
// an escape by accident is escaped itself. Different identifiers have different names.
func Name(identifier string) string {
	if identifier == "" {
		return emptyName
	}
	if !needsEscape(identifier) {
		return identifier
	}
	var b strings.Builder
	b.Grow(len(identifier) + 16)
	for i := 0; i < len(identifier); {
		c := identifier[i]
		switch {
		case plain(identifier, i):
			b.WriteByte(c)
			i++
		case c < utf8.RuneSelf:
			writeEscape(&b, rune(c))
			i++
		default:
			r, size := utf8.DecodeRuneInString(identifier[i:])
			if r == utf8.RuneError && size == 1 {
				r = invalidByte + rune(c)
			}
			writeEscape(&b, r)
			i += size
		}
	}
	return b.String()
}

// Original returns the database identifier whose Name is name.
func Original(name string) string {
	if name == emptyName {
		return ""
	}
	if !strings.Contains(name, "_x") {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := escapeAt(name, i)
		switch {
		case size == 0:
			b.WriteByte(name[i])
			i++
			continue
		case r >= invalidByte:
			b.WriteByte(byte(r - invalidByte))
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// namespace mangles each part and joins them with dots.
func namespace(parts []string) string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = Name(p)
	}
	return strings.Join(names, ".")
}

func needsEscape(s string) bool {
	for i := 0; i < len(s); i++ {
		if !plain(s, i) {
			return true
		}
	}
	return false
}

// plain reports whether the byte at i stays as it is.
func plain(s string, i int) bool {
	c := s[i]
	if c == '_' {
		return !beginsEscape(s, i)
	}
	return isLetter(c) || (isDigit(c) && i > 0)
}

// beginsEscape reports whether the underscore at i would read as the start of an escape in
// the result: _x, hexadecimal digits, and an underscore, be it in s or that of the next escape.
func beginsEscape(s string, i int) bool {
	if s == emptyName {
		return i == 0
	}
	if i+2 >= len(s) || s[i+1] != 'x' {
		return false
	}
	j := i + 2
	for j < len(s) && isHex(s[j]) {
		j++
	}
	return j > i+2 && j < len(s) && !isLetter(s[j]) && !isDigit(s[j])
}

// escapeAt parses the escape that begins at i; size is 0 if there is none.
func escapeAt(s string, i int) (r rune, size int) {
	if !strings.HasPrefix(s[i:], "_x") {
		return 0, 0
	}
	end := strings.IndexByte(s[i+2:], '_')
	if end < 1 {
		return 0, 0
	}
	n, err := strconv.ParseUint(s[i+2:i+2+end], 16, 31)
	if err != nil || n > invalidByte+0xff {
		return 0, 0
	}
	return rune(n), end + 3
}

func writeEscape(b *strings.Builder, r rune) {
	b.WriteString("_x")
	b.WriteString(strconv.FormatInt(int64(r), 16))
	b.WriteByte('_')
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || (c|0x20 >= 'a' && c|0x20 <= 'f') }
