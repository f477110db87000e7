package debezium

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// As Debezium's PostgresDefaultValueConverter has them, its way with doubled quotes included.
var (
	literalDefault  = regexp.MustCompile(`'(.*?)'`)
	functionDefault = regexp.MustCompile(`^[(]?[A-Za-z0-9_.]+\((?:.+(?:, ?.+)*)?\)`)
)

// parseDefault gives the value that a column's default expression is published as; false where none is.
func (f *Format) parseDefault(c *schema.Column, m mapping) (schema.Value, bool) {
	placeholder, known := generatedDefaults[c.Type.Base]
	enum := c.Type.Logical == schema.LogicalEnum
	if c.Default == "" || !known && !enum || c.Type.Domain || m.schema.Type == connect.Struct {
		return schema.Value{}, false
	}
	text, ok := literal(c.Default, placeholder, enum)
	if !ok {
		return schema.Value{}, false
	}
	v, ok := defaultValue(c.Type.Base, text)
	if !ok {
		return schema.Value{}, false
	}
	if c.Type.Base == "bit" && len(text) != 1 && m.schema.Type == connect.Boolean {
		return schema.Value{}, false
	}
	if _, scale, declared := modifier(c.Type.Modifier); c.Type.Base == "numeric" && f.cfg.Decimal == "string" && declared && scale > 0 {
		whole, fraction, _ := strings.Cut(text, ".")
		v = schema.Text([]byte(whole + "." + fraction + strings.Repeat("0", max(0, scale-len(fraction)))))
	}
	out, err := m.convert(&arena{}, &v)
	return out, err == nil
}

// generatedDefaults are what stands for a default that a function makes.
var generatedDefaults = map[string]string{
	"bit": "00", "varbit": "0", "bool": "false", "bpchar": "", "varchar": "", "text": "", "numeric": "0.0", "float4": "0.0", "float8": "0.0",
	"int2": "0", "int4": "0", "int8": "0", "json": "{}", "jsonb": "{}", "xml": "", "uuid": "00000000-0000-0000-0000-000000000000",
	"date": "1970-01-01", "time": "00:00", "timestamp": "1970-01-01", "timestamptz": "1970-01-01", "interval": "00:00:00",
}

func literal(expression, generated string, enum bool) (string, bool) {
	if enum {
		value, _, ok := strings.Cut(expression, "'::")
		return strings.TrimPrefix(value, "'"), ok && strings.HasPrefix(expression, "'")
	}
	switch strings.ToLower(expression) {
	case "current_timestamp", "current_time", "current_date", "localtime", "localtimestamp":
		return generated, true
	}
	if functionDefault.MatchString(expression) {
		return generated, true
	}
	if !strings.Contains(expression, "'") {
		return expression, !strings.HasPrefix(expression, "NULL::")
	}
	return literalDefault.FindStringSubmatch(expression)[1], true
}

// defaultValue decodes a default's text as the source would decode a column's.
func defaultValue(base, text string) (schema.Value, bool) {
	switch base {
	case "bool":
		return schema.Bool(strings.EqualFold(text, "true")), true
	case "int2", "int4", "int8":
		n, err := strconv.ParseInt(text, 10, map[string]int{"int2": 16, "int4": 32, "int8": 64}[base])
		return schema.Int(n), err == nil
	case "float4":
		n, err := strconv.ParseFloat(text, 32)
		return schema.Float32(float32(n)), err == nil
	case "float8":
		n, err := strconv.ParseFloat(text, 64)
		return schema.Float64(n), err == nil
	case "date":
		t, err := time.Parse(time.DateOnly, text)
		return schema.Int(t.Unix() / 86400), err == nil
	case "time":
		n, ok := clockMicros([]byte(text))
		return schema.Int(n), ok
	case "timestamp", "timestamptz":
		for _, layout := range []string{time.DateOnly, "2006-01-02 15:04:05", "2006-01-02 15:04:05-07", "2006-01-02 15:04:05-07:00"} {
			if t, err := time.Parse(layout, text); err == nil {
				return schema.Int(t.UnixMicro()), true
			}
		}
		return schema.Value{}, false
	}
	return schema.Text([]byte(text)), true
}
