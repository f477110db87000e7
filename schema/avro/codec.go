package avro

import (
	"errors"
	"fmt"
	"strings"

	avrolib "github.com/twmb/avro"
)

// ErrMalformed is in the chain of every error about a body that its schema does not describe.
var ErrMalformed = errors.New("malformed Avro body")

// Codec reads Avro records written with one schema, any schema and not only ours. It is
// immutable and may be used by many goroutines at once.
type Codec struct {
	root   *node
	fields map[string]int
}

// node is one type of a schema.
type node struct {
	kind    nodeKind
	logical string
	scale   int
	size    int      // fixed
	symbols []string // enum
	names   []string // record: the fields' names
	nodes   []*node  // record: the fields; union: the branches; array, map: the items
}

type nodeKind uint8

const (
	nodeNull nodeKind = iota + 1
	nodeBoolean
	nodeInt
	nodeLong
	nodeFloat
	nodeDouble
	nodeBytes
	nodeString
	nodeFixed
	nodeEnum
	nodeRecord
	nodeArray
	nodeMap
	nodeUnion
)

var nodeKinds = map[string]nodeKind{
	"null": nodeNull, "boolean": nodeBoolean, "int": nodeInt, "long": nodeLong, "float": nodeFloat,
	"double": nodeDouble, "bytes": nodeBytes, "string": nodeString, "fixed": nodeFixed, "enum": nodeEnum,
	"record": nodeRecord, "error": nodeRecord, "array": nodeArray, "map": nodeMap, "union": nodeUnion,
}

// NewCodec parses a schema.
func NewCodec(schemaText string) (*Codec, error) {
	parsed, err := avrolib.Parse(schemaText, avrolib.WithLaxNames(nil))
	if err != nil {
		return nil, fmt.Errorf("parse Avro schema: %w", err)
	}
	root := parsed.Root()
	c := &Codec{fields: map[string]int{}}
	if c.root, err = build(root, "", map[string]*node{}); err != nil {
		return nil, fmt.Errorf("parse Avro schema: %w", err)
	}
	for i, name := range c.root.names {
		c.fields[name] = i
	}
	return c, nil
}

// Fields returns the names of the record's fields, in order; none where the schema is no record.
func (c *Codec) Fields() []string { return append([]string(nil), c.root.names...) }

// build compiles a type; scope is the namespace a short name is looked up in first.
func build(s *avrolib.SchemaNode, scope string, named map[string]*node) (*node, error) {
	n := &node{kind: nodeKinds[s.Type], logical: s.LogicalType, scale: s.Scale, size: s.Size, symbols: s.Symbols}
	if n.kind == 0 {
		for _, full := range []string{scope + "." + s.Type, s.Type} {
			if known, ok := named[full]; ok {
				return known, nil
			}
		}
		return nil, fmt.Errorf("unknown type %q", s.Type)
	}
	if s.Name != "" && (n.kind == nodeRecord || n.kind == nodeEnum || n.kind == nodeFixed) {
		scope = s.Namespace
		named[strings.TrimPrefix(scope+"."+s.Name, ".")] = n
	}
	add := func(child *avrolib.SchemaNode) error {
		built, err := build(child, scope, named)
		n.nodes = append(n.nodes, built)
		return err
	}
	var err error
	switch n.kind {
	case nodeRecord:
		for i := range s.Fields {
			n.names = append(n.names, s.Fields[i].Name)
			err = errors.Join(err, add(&s.Fields[i].Type))
		}
	case nodeUnion:
		for i := range s.Branches {
			err = errors.Join(err, add(&s.Branches[i]))
		}
	case nodeArray:
		err = add(s.Items)
	case nodeMap:
		err = add(s.Values)
	}
	return n, err
}

// Long returns an int or long field of a record. ok is false where it is null.
func (c *Codec) Long(body []byte, field string) (n int64, ok bool, err error) {
	r, at, err := c.seek(body, field)
	if err != nil || at.kind == nodeNull {
		return 0, false, err
	}
	if at.kind != nodeInt && at.kind != nodeLong {
		return 0, false, fmt.Errorf("read field %s: not an int or long", field)
	}
	n, err = r.long()
	return n, err == nil, err
}

// Text returns a string or bytes field of a record; the bytes are those of body. ok is false
// where it is null.
func (c *Codec) Text(body []byte, field string) (text []byte, ok bool, err error) {
	r, at, err := c.seek(body, field)
	if err != nil || at.kind == nodeNull {
		return nil, false, err
	}
	if at.kind != nodeString && at.kind != nodeBytes {
		return nil, false, fmt.Errorf("read field %s: not a string or bytes", field)
	}
	text, err = r.bytes()
	return text, err == nil, err
}

// AppendFieldJSON appends one field of a record as JSON, as AppendJSON would.
func (c *Codec) AppendFieldJSON(dst, body []byte, field string) ([]byte, error) {
	r, at, err := c.seek(body, field)
	if err != nil {
		return dst, err
	}
	return at.appendJSON(dst, &r, 0)
}

// AppendJSON appends the record as compact JSON, its fields in the schema's order, unions as
// the bare value, for people to read: decimals as strings of digits; timestamps as RFC 3339
// (local ones without zone), dates and times likewise, infinite ones as "infinity" and
// "-infinity"; bytes as base64; floats JSON cannot write as "NaN", "Infinity" and "-Infinity".
// It is an error if bytes remain after the record.
func (c *Codec) AppendJSON(dst, body []byte) ([]byte, error) {
	r := reader{buf: body}
	out, err := c.root.appendJSON(dst, &r, 0)
	if err != nil {
		return dst, err
	}
	if len(r.buf) > 0 {
		return dst, fmt.Errorf("%w: %d bytes after the record", ErrMalformed, len(r.buf))
	}
	return out, nil
}

// seek skips to a field; a union is resolved to its branch.
func (c *Codec) seek(body []byte, field string) (reader, *node, error) {
	index, ok := c.fields[field]
	if !ok {
		return reader{}, nil, fmt.Errorf("read field %s: the schema has none of that name", field)
	}
	r := reader{buf: body}
	for _, n := range c.root.nodes[:index] {
		if err := n.skip(&r, 0); err != nil {
			return r, nil, err
		}
	}
	n := c.root.nodes[index]
	if n.kind != nodeUnion {
		return r, n, nil
	}
	n, err := r.branch(n)
	return r, n, err
}
