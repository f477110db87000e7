package connect

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-cdc/tidemark/schema"
)

var jsonTypes = [...]string{
	Boolean: "boolean", Int16: "int16", Int32: "int32", Int64: "int64", Float32: "float", Float64: "double",
	String: "string", Bytes: "bytes", Array: "array", Map: "map", Struct: "struct",
}

// JSONSchema returns the schema as JsonConverter embeds it (asJsonSchema): compact JSON.
//
// Format: https://github.com/apache/kafka/blob/4.3/connect/json/src/main/java/org/apache/kafka/connect/json/JsonConverter.java
func (s *Schema) JSONSchema() string { return string(s.appendJSONSchema(nil, "")) }

func (s *Schema) appendJSONSchema(b []byte, field string) []byte {
	b = append(append(append(b, `{"type":"`...), jsonTypes[s.Type]...), '"')
	switch s.Type {
	case Array:
		b = s.Elem.appendJSONSchema(append(b, `,"items":`...), "")
	case Map:
		b = Of(String).appendJSONSchema(append(b, `,"keys":`...), "")
		b = s.Elem.appendJSONSchema(append(b, `,"values":`...), "")
	case Struct:
		b = append(b, `,"fields":[`...)
		for i, f := range s.Fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = f.Schema.appendJSONSchema(b, f.Name)
		}
		b = append(b, ']')
	}
	b = strconv.AppendBool(append(b, `,"optional":`...), s.Optional)
	if s.Name != "" {
		b = appendString(append(b, `,"name":`...), s.Name)
	}
	if s.Version != 0 {
		b = strconv.AppendInt(append(b, `,"version":`...), int64(s.Version), 10)
	}
	if s.Doc != "" {
		b = appendString(append(b, `,"doc":`...), s.Doc)
	}
	if len(s.Params) > 0 {
		b = appendParams(append(b, `,"parameters":`...), s.Params)
	}
	if s.Default != nil {
		b = append(b, `,"default":`...)
		b, _ = Compile(s).appendJSONValue(b, s.Default, jsonOptions{})
	}
	if field != "" {
		b = appendString(append(b, `,"field":`...), field)
	}
	return append(b, '}')
}

func appendParams(b []byte, params []Param) []byte {
	b = append(b, '{')
	for i, p := range params {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(appendString(b, p.Name), ':'), p.Value)
	}
	return append(b, '}')
}

// AvroSchema returns the schema as AvroData writes it: compact JSON, of a required value. Names must be Avro's.
//
// Format: https://github.com/confluentinc/schema-registry/blob/master/avro-data/src/main/java/io/confluent/connect/avro/AvroData.java
func (s *Schema) AvroSchema() string {
	return string(s.appendAvro(nil, "", map[string]bool{}))
}

// appendAvroType appends the type of a field or element: a union where it is optional, the null
// first unless there is a default.
func (s *Schema) appendAvroType(b []byte, space string, seen map[string]bool) []byte {
	switch {
	case !s.Optional:
		return s.appendAvro(b, space, seen)
	case s.Default != nil:
		return append(s.appendAvro(append(b, '['), space, seen), `,"null"]`...)
	}
	return append(s.appendAvro(append(b, `["null",`...), space, seen), ']')
}

var avroTypes = [...]string{
	Boolean: "boolean", Int16: "int", Int32: "int", Int64: "long", Float32: "float", Float64: "double",
	String: "string", Bytes: "bytes", Array: "array", Map: "map", Struct: "record",
}

func (s *Schema) appendAvro(b []byte, space string, seen map[string]bool) []byte {
	at := len(b)
	b = append(append(append(b, `{"type":"`...), avroTypes[s.Type]...), '"')
	switch s.Type {
	case Struct:
		namespace, name := splitName(s.Name)
		if seen[s.Name] {
			if namespace == space {
				return appendString(b[:at], name)
			}
			return appendString(b[:at], s.Name)
		}
		seen[s.Name] = true
		b = s.appendAvroRecord(b, namespace, name, space, seen)
	case Array:
		b = s.Elem.appendAvroType(append(b, `,"items":`...), space, seen)
	case Map:
		b = s.Elem.appendAvroType(append(b, `,"values":`...), space, seen)
	case Bytes:
		if s.Name == DecimalName {
			b = append(append(b, `,"scale":`...), s.Param(ParamScale)...)
			precision := s.Param(ParamPrecision)
			if precision == "" {
				precision = "64" // AvroData's
			}
			b = append(append(b, `,"precision":`...), precision...)
		}
	}
	plain := len(b)
	b = s.appendAvroProperties(b)
	if len(b) == plain && s.Type < Array {
		return appendString(b[:at], avroTypes[s.Type])
	}
	return append(b, '}')
}

func (s *Schema) appendAvroProperties(b []byte) []byte {
	if s.Doc != "" {
		b = appendString(append(b, `,"connect.doc":`...), s.Doc)
	}
	if s.Version != 0 {
		b = strconv.AppendInt(append(b, `,"connect.version":`...), int64(s.Version), 10)
	}
	if len(s.Params) > 0 {
		b = appendParams(append(b, `,"connect.parameters":`...), s.Params)
	}
	if s.Default != nil {
		b = s.appendAvroDefault(append(b, `,"connect.default":`...))
	}
	if s.Name != "" {
		b = appendString(append(b, `,"connect.name":`...), s.Name)
	}
	if s.Type == Int16 {
		b = append(b, `,"connect.type":"int16"`...)
	}
	switch s.Name {
	case DecimalName:
		b = append(b, `,"logicalType":"decimal"`...)
	case DateName:
		b = append(b, `,"logicalType":"date"`...)
	case TimeName:
		b = append(b, `,"logicalType":"time-millis"`...)
	case TimestampName:
		b = append(b, `,"logicalType":"timestamp-millis"`...)
	}
	return b
}

func (s *Schema) appendAvroRecord(b []byte, namespace, name, space string, seen map[string]bool) []byte {
	b = appendString(append(b, `,"name":`...), name)
	if namespace != space {
		b = appendString(append(b, `,"namespace":`...), namespace)
	}
	b = append(b, `,"fields":[`...)
	for i, f := range s.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(append(b, `{"name":`...), f.Name), `,"type":`...)
		b = f.Schema.appendAvroType(b, namespace, seen)
		switch {
		case f.Schema.Default != nil:
			b = f.Schema.appendAvroDefault(append(b, `,"default":`...))
		case f.Schema.Optional:
			b = append(b, `,"default":null`...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendAvroDefault appends a default; bytes are a string, a code point each, as Avro has it.
func (s *Schema) appendAvroDefault(b []byte) []byte {
	if s.Type != Bytes {
		b, _ = Compile(s).appendJSONValue(b, s.Default, jsonOptions{})
		return b
	}
	raw := s.Default.Bytes
	if s.Default.Kind == schema.KindDecimal && raw == nil {
		raw = appendUnscaled(nil, s.Default.Num)
	}
	text := make([]rune, len(raw))
	for i, c := range raw {
		text[i] = rune(c)
	}
	return appendString(b, string(text))
}

func splitName(full string) (namespace, name string) {
	if i := strings.LastIndexByte(full, '.'); i >= 0 {
		return full[:i], full[i+1:]
	}
	return "", full
}

// appendString appends a JSON string as Jackson writes it. Bytes that are not UTF-8 become U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	const hex = "0123456789ABCDEF"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendBase64(dst, b []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
}
