// Package offsets holds what a stream stores: Connect's JSON key and value shape, the stream's
// boundary, the state of each table and the generation. It is a leaf: it imports nothing of ours.
//
// The format is Kafka Connect's offsets topic: key ["<connector>",{<partition>}], value a flat
// object of primitives, compact JSON.
package offsets

// Field is one member of an Object. Value is nil, bool, int64, float64 or string.
type Field struct {
	Name  string
	Value any
}

// Object is a flat JSON object with its members in order. A nil Object is a tombstone.
type Object []Field

// Entry is one record of the offsets topic: what (Partition) and its value.
type Entry struct {
	Partition Object
	Offset    Object
}
