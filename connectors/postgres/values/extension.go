package values

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/tidemark-cdc/tidemark/schema"
)

var (
	errHstore = errors.New("is not hstore text")
	errVector = errors.New("is not a vector's text")
)

// extension maps the base types of extensions that are more than their text. They have no fixed
// OIDs and go by name, in whatever schema they are.
func extension(info TypeInfo, opts Options) (schema.Type, Decoder, bool) {
	if info.Kind != 'b' || opts.Text {
		return schema.Type{}, nil, false
	}
	switch info.Name {
	case "hstore":
		if opts.Hstore == HstoreMap {
			return schema.Type{Kind: schema.KindMap, Elem: &schema.Type{Kind: schema.KindString, Modifier: -1}}, decodeHstoreMap, true
		}
		return schema.Type{Kind: schema.KindString, Logical: schema.LogicalJSON}, decodeHstoreJSON, true
	case "geometry", "geography":
		t, d := mapBinary(opts.Binary, decodeEWKB)
		return t, d, true
	case "vector", "halfvec":
		return schema.Type{Kind: schema.KindArray, Elem: &schema.Type{Kind: schema.KindFloat32, Name: builtinNames[oidFloat4], Modifier: -1}}, decodeVector, true
	}
	return schema.Type{}, nil, false
}

// decodeVector reads [1,2.5] (pgvector, src/vector.c, vector_out; halfvec likewise).
func decodeVector(a *Arena, b []byte) (schema.Value, error) {
	if len(b) < 3 || b[0] != '[' || b[len(b)-1] != ']' {
		return schema.Value{}, errVector
	}
	mark := len(a.scratch)
	defer func() { a.scratch = a.scratch[:mark] }()
	for start, i := 1, 1; i < len(b); i++ {
		if b[i] != ',' && i != len(b)-1 {
			continue
		}
		f, err := strconv.ParseFloat(text(b[start:i]), 32)
		if err != nil {
			return schema.Value{}, errVector
		}
		a.scratch = append(a.scratch, schema.Float32(float32(f)))
		start = i + 1
	}
	elems := a.values(len(a.scratch) - mark)
	copy(elems, a.scratch[mark:])
	return schema.Array(elems), nil
}

// hstorePairs reads "k"=>"v", "k"=>NULL (contrib/hstore/hstore_io.c, hstore_out) and calls each
// with the unescaped key and value, a nil value for NULL.
func hstorePairs(a *Arena, b []byte, each func(key, value []byte)) bool {
	s := arrayScanner{b: b}
	for len(b) > 0 {
		key, ok := s.hstoreText(a)
		if !ok || s.i+2 > len(b) || text(b[s.i:s.i+2]) != "=>" {
			return false
		}
		s.i += 2
		if text(b[s.i:min(s.i+4, len(b))]) == "NULL" {
			s.i += 4
			each(key, nil)
		} else {
			value, ok := s.hstoreText(a)
			if !ok {
				return false
			}
			if value == nil {
				value = []byte{}
			}
			each(key, value)
		}
		if s.i == len(b) {
			return true
		}
		if s.i+2 > len(b) || text(b[s.i:s.i+2]) != ", " {
			return false
		}
		s.i += 2
	}
	return true
}

func (s *arrayScanner) hstoreText(a *Arena) ([]byte, bool) {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return nil, false
	}
	return s.quoted(a)
}

func decodeHstoreMap(a *Arena, b []byte) (schema.Value, error) {
	mark := len(a.scratch)
	defer func() { a.scratch = a.scratch[:mark] }()
	ok := hstorePairs(a, b, func(key, value []byte) {
		v := schema.Null()
		if value != nil {
			v = schema.Text(value)
		}
		a.scratch = append(a.scratch, schema.Text(key), v)
	})
	if !ok {
		return schema.Value{}, errHstore
	}
	pairs := a.values(len(a.scratch) - mark)
	copy(pairs, a.scratch[mark:])
	return schema.Map(pairs), nil
}

func decodeHstoreJSON(a *Arena, b []byte) (schema.Value, error) {
	out := append(a.build[:0], '{')
	ok := hstorePairs(a, b, func(key, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(appendJSONText(out, key), ':')
		if value == nil {
			out = append(out, "null"...)
		} else {
			out = appendJSONText(out, value)
		}
	})
	if !ok {
		return schema.Value{}, errHstore
	}
	return schema.Text(a.keep(append(out, '}'))), nil
}

// appendJSONText appends a JSON string: only what must be escaped is (RFC 8259, section 7).
func appendJSONText(out, s []byte) []byte {
	const hexDigits = "0123456789abcdef"
	out = append(out, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			_, size := utf8.DecodeRune(s[i:])
			out = append(out, s[i:i+size]...)
			i += size
			continue
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < 0x20:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			out = append(out, c)
		}
		i++
	}
	return append(out, '"')
}
