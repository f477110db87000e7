package check

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/avro"
)

// Text is a column's value as PostgreSQL prints it with UTC and ISO; nil: null.
type Text = *string

// Row is one decoded key or value.
type Row struct {
	Columns     map[string]Text // by the column's own name; of a value without metadata
	Unavailable map[string]bool
	Op          string
	Pos         string
	Seq, Gen    int64
	TsMicros    int64
	Meta        bool // has metadata: a value
}

// Decoder decodes wire format with the schemas of a registry. It may be used by many goroutines.
type Decoder struct {
	// Schema returns the text of a schema.
	Schema func(id int) (string, error)

	mu      sync.Mutex
	schemas map[int]*compiled
	plains  map[int]*avro.Schema // of what is no row
}

type compiled struct {
	text   string
	avro   *avro.Schema
	fields map[string]field
}

type field struct {
	column  string
	logical string
	scale   int
	bytes   bool
	array   bool
	elem    *field
}

// SchemaID is the id in a wire format header.
func SchemaID(b []byte) (int, error) {
	if len(b) < 5 || b[0] != 0 {
		return 0, fmt.Errorf("%x is not in wire format", b[:min(len(b), 8)])
	}
	return int(binary.BigEndian.Uint32(b[1:])), nil
}

// SchemaText returns the schema a key or value was written with.
func (d *Decoder) SchemaText(b []byte) (string, error) {
	c, err := d.compiled(b)
	if err != nil {
		return "", err
	}
	return c.text, nil
}

func (d *Decoder) compiled(b []byte) (*compiled, error) {
	id, err := SchemaID(b)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.schemas[id]; c != nil {
		return c, nil
	}
	text, err := d.Schema(id)
	if err != nil {
		return nil, err
	}
	c, err := compile(text)
	if err != nil {
		return nil, fmt.Errorf("schema %d: %w", id, err)
	}
	if d.schemas == nil {
		d.schemas = map[int]*compiled{}
	}
	d.schemas[id] = c
	return c, nil
}

// compile keeps the logical types aside, so that the library gives the primitives.
func compile(text string) (*compiled, error) {
	var root map[string]any
	if err := json.Unmarshal([]byte(text), &root); err != nil {
		return nil, err
	}
	c := &compiled{text: text, fields: map[string]field{}}
	list, _ := root["fields"].([]any)
	for _, f := range list {
		m := f.(map[string]any)
		name := m["name"].(string)
		out := describe(m["type"])
		out.column = name
		if column, ok := m["tidemark.column"].(string); ok {
			out.column = column
		}
		c.fields[name] = out
		m["type"] = strip(m["type"])
	}
	plain, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	c.avro, err = avro.Parse(string(plain))
	return c, err
}

func describe(t any) (f field) {
	switch t := t.(type) {
	case string:
		f.bytes = t == "bytes"
	case []any:
		for _, branch := range t {
			if branch != "null" {
				f = describe(branch)
			}
		}
	case map[string]any:
		if t["type"] == "array" {
			elem := describe(t["items"])
			return field{array: true, elem: &elem}
		}
		f.bytes = t["type"] == "bytes"
		f.logical, _ = t["logicalType"].(string)
		if scale, ok := t["scale"].(float64); ok {
			f.scale = int(scale)
		}
	}
	return f
}

func strip(t any) any {
	switch t := t.(type) {
	case []any:
		for i := range t {
			t[i] = strip(t[i])
		}
	case map[string]any:
		for _, name := range []string{"logicalType", "precision", "scale"} {
			delete(t, name)
		}
		if t["type"] == "array" {
			t["items"] = strip(t["items"])
			return t
		}
		return t["type"]
	}
	return t
}

// Decode decodes a key or value in wire format; b must not be empty.
func (d *Decoder) Decode(b []byte) (Row, error) {
	c, err := d.compiled(b)
	if err != nil {
		return Row{}, err
	}
	var v any
	rest, err := c.avro.Decode(b[5:], &v)
	if err != nil || len(rest) != 0 {
		return Row{}, fmt.Errorf("%d bytes left: %w", len(rest), err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return Row{}, fmt.Errorf("a %T is no record", v)
	}
	row := Row{Columns: map[string]Text{}, Unavailable: map[string]bool{}}
	for name, value := range m {
		switch name {
		case "__op":
			row.Op, row.Meta = fmt.Sprint(value), true
		case "__pos":
			row.Pos = fmt.Sprint(value)
		case "__seq":
			row.Seq, _ = value.(int64)
		case "__gen":
			row.Gen, _ = value.(int64)
		case "__ts_us":
			row.TsMicros, _ = value.(int64)
		case "__unavailable":
			for _, n := range value.([]any) {
				row.Unavailable[n.(string)] = true
			}
		default:
			f := c.fields[name]
			if row.Columns[f.column], err = f.text(value); err != nil {
				return row, fmt.Errorf("column %s: %w", f.column, err)
			}
		}
	}
	return row, nil
}

// text prints a value as PostgreSQL does.
func (f *field) text(v any) (Text, error) {
	var s string
	switch v := v.(type) {
	case nil:
		return nil, nil
	case bool:
		s = map[bool]string{true: "t", false: "f"}[v]
	case int32:
		s = f.number(int64(v))
	case int64:
		s = f.number(v)
	case float32:
		s = float(float64(v), 32)
	case float64:
		s = float(v, 64)
	case string:
		s = v
	case []byte:
		if f.logical == "decimal" {
			s = decimal(v, f.scale)
		} else {
			s = `\x` + hex.EncodeToString(v)
		}
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			t, err := f.elem.text(e)
			if err != nil {
				return nil, err
			}
			parts[i] = "NULL"
			if t != nil {
				parts[i] = quote(*t)
			}
		}
		s = "{" + strings.Join(parts, ",") + "}"
	default:
		return nil, fmt.Errorf("a %T", v)
	}
	return &s, nil
}

func float(v float64, bits int) string {
	if math.IsInf(v, 0) {
		return map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]
	}
	return strconv.FormatFloat(v, 'g', -1, bits)
}

// quote writes an array's element as PostgreSQL does.
func quote(s string) string {
	if s != "" && !strings.EqualFold(s, "NULL") && !strings.ContainsAny(s, "{},\"\\ \t\n\r\v\f") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func (f *field) number(n int64) string {
	trim := func(s string) string {
		if i := strings.IndexByte(s, '.'); i > 0 {
			return strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	switch f.logical {
	case "date":
		return time.Unix(n*86400, 0).UTC().Format("2006-01-02")
	case "time-micros":
		return trim(time.UnixMicro(n).UTC().Format("15:04:05.000000"))
	case "timestamp-micros":
		return trim(time.UnixMicro(n).UTC().Format("2006-01-02 15:04:05.000000")) + "+00"
	case "local-timestamp-micros":
		return trim(time.UnixMicro(n).UTC().Format("2006-01-02 15:04:05.000000"))
	}
	return strconv.FormatInt(n, 10)
}

// decimal prints two's complement big-endian bytes at a scale.
func decimal(b []byte, scale int) string {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	negative := n.Sign() < 0
	s := n.Abs(n).String()
	if scale > 0 {
		for len(s) <= scale {
			s = "0" + s
		}
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if negative {
		s = "-" + s
	}
	return s
}
