package values

import (
	"bytes"
	"errors"

	"github.com/tidemark-cdc/tidemark/schema"
)

var (
	errArray      = errors.New("is not an array literal")
	errBounds     = errors.New("is an array with a lower bound other than 1, which a key would not tell from another; set array.handling.mode=string, which publishes arrays as their text")
	errDimensions = errors.New("is an array of more than one dimension; set array.handling.mode=string, which publishes arrays as their text")
)

// arrayDecoder reads array output syntax (src/backend/utils/adt/arrayfuncs.c, array_out). Lower
// bounds other than 1 are read and dropped, or an error with bounds set: only then are they printed.
func arrayDecoder(decode Decoder, delim byte, bounds bool) Decoder {
	return func(a *Arena, b []byte) (schema.Value, error) {
		if len(b) > 0 && b[0] == '[' {
			eq := bytes.IndexByte(b, '=')
			if eq < 0 {
				return schema.Value{}, errArray
			}
			if bytes.IndexByte(b[1:eq], '[') >= 0 {
				return schema.Value{}, errDimensions
			}
			if bounds {
				return schema.Value{}, errBounds
			}
			b = b[eq+1:]
		}
		if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
			return schema.Value{}, errArray
		}
		s := arrayScanner{b: b[1 : len(b)-1], delim: delim}
		mark := len(a.scratch)
		defer func() { a.scratch = a.scratch[:mark] }()
		for more := len(s.b) > 0; more; {
			v, next, err := s.element(a, decode)
			if err != nil {
				return schema.Value{}, err
			}
			a.scratch = append(a.scratch, v)
			more = next
		}
		elems := a.values(len(a.scratch) - mark)
		copy(elems, a.scratch[mark:])
		return schema.Array(elems), nil
	}
}

type arrayScanner struct {
	b     []byte
	i     int
	delim byte
}

// element decodes the element at the cursor and reports whether another follows.
func (s *arrayScanner) element(a *Arena, decode Decoder) (v schema.Value, more bool, err error) {
	if s.i >= len(s.b) {
		return v, false, errArray
	}
	switch s.b[s.i] {
	case '{':
		return v, false, errDimensions
	case '"':
		raw, ok := s.quoted(a)
		if !ok {
			return v, false, errArray
		}
		v, err = decode(a, raw)
	default:
		start := s.i
		for s.i < len(s.b) && s.b[s.i] != s.delim {
			s.i++
		}
		raw := s.b[start:s.i]
		if len(raw) == 0 {
			return v, false, errArray
		}
		if text(raw) == "NULL" {
			v = schema.Null()
		} else {
			v, err = decode(a, raw)
		}
	}
	if err != nil || s.i == len(s.b) {
		return v, false, err
	}
	if s.b[s.i] != s.delim {
		return v, false, errArray
	}
	s.i++
	return v, true, nil
}

// quoted reads "…" with backslash escapes; the result aliases the input where nothing is escaped.
func (s *arrayScanner) quoted(a *Arena) ([]byte, bool) {
	s.i++
	start, escapes := s.i, 0
	for s.i < len(s.b) && s.b[s.i] != '"' {
		if s.b[s.i] == '\\' {
			escapes++
			s.i++
		}
		s.i++
	}
	if s.i >= len(s.b) {
		return nil, false
	}
	raw := s.b[start:s.i]
	s.i++
	if escapes == 0 {
		return raw, true
	}
	out := a.Bytes(len(raw) - escapes)
	n := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] == '\\' {
			i++
		}
		out[n] = raw[i]
		n++
	}
	return out, true
}
