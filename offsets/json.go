package offsets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// AppendJSON appends o as compact JSON, members in order, non-ASCII text as UTF-8, as Connect's
// JsonConverter writes it. A nil Object is appended as null; a Kafka record of it has no value
// at all (see Value). An infinite or NaN float is appended as a string, as Jackson does.
func (o Object) AppendJSON(dst []byte) []byte {
	if o == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for i, f := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, f.Name)
		dst = append(dst, ':')
		dst = appendPrimitive(dst, f.Value)
	}
	return append(dst, '}')
}

// Value returns the value of the Kafka record that carries o: its JSON, or nil for a tombstone.
func (o Object) Value() []byte {
	if o == nil {
		return nil
	}
	return o.AppendJSON(nil)
}

// String returns o as compact JSON.
func (o Object) String() string { return string(o.AppendJSON(nil)) }

func appendPrimitive(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case float64:
		return appendFloat(dst, v)
	case string:
		return appendString(dst, v)
	}
	return appendString(dst, fmt.Sprint(v))
}

// appendFloat always writes a fraction or an exponent, so that a float is read as one again.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	if !bytes.ContainsAny(dst[start:], ".e") {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r) // an invalid byte becomes U+FFFD: JSON has no other place for it
			i += n
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// ParseObject parses a flat JSON object of primitives. Whole numbers are int64, exactly; others
// are float64. Nested values, members that appear twice and trailing data are refused. Empty
// input and null give a nil Object, a tombstone.
func ParseObject(b []byte) (Object, error) {
	if trimmed := bytes.TrimSpace(b); len(trimmed) == 0 || string(trimmed) == "null" {
		return nil, nil
	}
	d, err := newDecoder(b)
	if err != nil {
		return nil, err
	}
	if err := expect(d, json.Delim('{')); err != nil {
		return nil, err
	}
	o, err := parseMembers(d)
	if err != nil {
		return nil, err
	}
	return o, atEnd(d)
}

// AppendKey appends the key of an entry: ["<connector>",{<partition>}].
func AppendKey(dst []byte, connector string, partition Object) []byte {
	dst = appendString(append(dst, '['), connector)
	dst = partition.AppendJSON(append(dst, ','))
	return append(dst, ']')
}

// ParseKey parses the key of an entry into the connector's name and the partition.
func ParseKey(b []byte) (connector string, partition Object, err error) {
	d, err := newDecoder(b)
	if err != nil {
		return "", nil, err
	}
	if err := expect(d, json.Delim('[')); err != nil {
		return "", nil, err
	}
	t, err := d.Token()
	if err != nil {
		return "", nil, syntax(err)
	}
	connector, ok := t.(string)
	if !ok {
		return "", nil, errors.New("the key's first element is not the connector's name")
	}
	if err := expect(d, json.Delim('{')); err != nil {
		return "", nil, err
	}
	if partition, err = parseMembers(d); err != nil {
		return "", nil, err
	}
	if err := expect(d, json.Delim(']')); err != nil {
		return "", nil, err
	}
	return connector, partition, atEnd(d)
}

func newDecoder(b []byte) (*json.Decoder, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d, nil
}

// parseMembers reads the members of an object whose opening brace was read, and its closing brace.
func parseMembers(d *json.Decoder) (Object, error) {
	o := Object{}
	for {
		t, err := d.Token()
		if err != nil {
			return nil, syntax(err)
		}
		name, ok := t.(string)
		if !ok {
			return o, nil // only the closing brace may stand here
		}
		if _, twice := o.Get(name); twice {
			return nil, fmt.Errorf("member %q appears twice", name)
		}
		if t, err = d.Token(); err != nil {
			return nil, syntax(err)
		}
		v, err := primitive(t)
		if err != nil {
			return nil, fmt.Errorf("member %q: %w", name, err)
		}
		o = append(o, Field{name, v})
	}
}

func primitive(t json.Token) (any, error) {
	switch t := t.(type) {
	case json.Number:
		if strings.ContainsAny(t.String(), ".eE") {
			f, err := strconv.ParseFloat(t.String(), 64)
			if err != nil {
				return nil, fmt.Errorf("number %s is out of range", t)
			}
			return f, nil
		}
		n, err := strconv.ParseInt(t.String(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("number %s does not fit 64 bits", t)
		}
		return n, nil
	case json.Delim:
		return nil, errors.New("is nested; only null, booleans, numbers and strings are allowed")
	}
	return t, nil
}

func expect(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return syntax(err)
	}
	if t != want {
		return fmt.Errorf("found %v where %v is needed", t, want)
	}
	return nil
}

func atEnd(d *json.Decoder) error {
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the end")
	}
	return nil
}

func syntax(err error) error { return fmt.Errorf("not valid JSON: %w", err) }
