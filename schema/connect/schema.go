// Package connect describes values as Kafka Connect's schemas do and writes them as Connect's converters would:
// as Avro, by the rules of Confluent's AvroData, and as JSON, by those of JsonConverter.
//
// A schema is compiled once into a Coder, which appends values to a buffer without reflection. A
// value is a schema.Value: a struct is an array of its fields' values, in order, a missing value
// KindNull or KindUnavailable.
package connect

import (
	"github.com/tidemark-cdc/tidemark/schema"
)

// Type is one of Connect's types.
type Type uint8

// The types.
const (
	Boolean Type = iota + 1
	Int16
	Int32
	Int64
	Float32
	Float64
	String
	Bytes
	Array
	Map // its keys are strings
	Struct
)

// Names of the logical types that the converters themselves know.
const (
	DecimalName   = "org.apache.kafka.connect.data.Decimal"
	DateName      = "org.apache.kafka.connect.data.Date"
	TimeName      = "org.apache.kafka.connect.data.Time"
	TimestampName = "org.apache.kafka.connect.data.Timestamp"
)

// Parameters of DecimalName.
const (
	ParamScale     = "scale"
	ParamPrecision = "connect.decimal.precision"
)

// Param is a parameter of a schema.
type Param struct{ Name, Value string }

// Field is a field of a struct.
type Field struct {
	Name   string
	Schema *Schema
}

// Schema is a Connect schema. It is not changed once it is in use.
type Schema struct {
	Type     Type
	Optional bool
	Default  *schema.Value // nil: none
	Name     string
	Version  int // 0: none
	Doc      string
	Params   []Param
	Fields   []Field // Struct
	Elem     *Schema // Array: of the elements; Map: of the values
}

// Param returns the value of a parameter, empty where it is absent.
func (s *Schema) Param(name string) string {
	for _, p := range s.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Of returns a schema of a type without a name.
func Of(t Type) *Schema { return &Schema{Type: t} }

// Named returns a schema of version 1 with a name and parameters.
func Named(t Type, name string, params ...Param) *Schema {
	return &Schema{Type: t, Name: name, Version: 1, Params: params}
}

// Opt returns the schema as an optional one.
func (s *Schema) Opt() *Schema {
	c := *s
	c.Optional = true
	return &c
}
