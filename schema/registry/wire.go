package registry

import (
	"encoding/binary"
	"fmt"
	"math"
)

// HeaderSize is the length in bytes of the header before every Avro body.
const HeaderSize = 5

// magic is the first byte of the wire format whose header holds a schema id.
const magic = 0

// AppendHeader appends the header of the Confluent wire format to dst: byte 0,
// then id as 4 bytes, big endian. id is one that a registry gave out (0 to
// 2^31-1). It allocates only where dst has no room.
//
// Format: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
func AppendHeader(dst []byte, id int) []byte {
	dst = append(dst, magic)
	return binary.BigEndian.AppendUint32(dst, uint32(id))
}

// ParseHeader splits b into its schema id and its Avro body, which is a part of
// b and not a copy.
func ParseHeader(b []byte) (id int, body []byte, err error) {
	if len(b) < HeaderSize {
		return 0, nil, fmt.Errorf("record of %d bytes is too short for the %d-byte schema id header: it was not written with a schema registry", len(b), HeaderSize)
	}
	if b[0] != magic {
		return 0, nil, fmt.Errorf("record starts with byte 0x%02x instead of 0x00: it was not written with a schema registry id", b[0])
	}
	n := binary.BigEndian.Uint32(b[1:HeaderSize])
	if n > math.MaxInt32 {
		return 0, nil, fmt.Errorf("record names schema id %d, beyond the largest id a registry gives (%d): it was not written with a schema registry", n, math.MaxInt32)
	}
	return int(n), b[HeaderSize:], nil
}

// KeySubject is the subject of a topic's keys (TopicNameStrategy).
func KeySubject(topic string) string { return topic + "-key" }

// ValueSubject is the subject of a topic's values (TopicNameStrategy).
func ValueSubject(topic string) string { return topic + "-value" }
