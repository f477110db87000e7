package verify

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is one data record or tombstone as a consumer reads it.
type Record struct {
	Meta
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte // nil: null
	OldKey    []byte // header __old_key; nil: absent
	Value     []byte // nil: tombstone
}

// Parse reads a record's headers; ours is false for one that is no change's.
func Parse(k *kgo.Record) (r Record, ours bool, err error) {
	r = Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Key: k.Key, Value: k.Value}
	r.Meta, ours, err = MetaOf(k)
	for _, h := range k.Headers {
		if h.Key == "__old_key" {
			r.OldKey = h.Value
		}
	}
	return r, ours, err
}

func (r *Record) String() string {
	return fmt.Sprintf("%s[%d]@%d: %c at %s", r.Topic, r.Partition, r.Offset, r.Op, at(r.Meta))
}

// Validator judges one property of a stream. Record takes the records of each partition in their order; of different
// partitions they may come in any order. End returns what was found: a sentence for each place where the property does not
// hold, at most a thousand; it takes no record after it. A validator is not safe for concurrent use.
type Validator interface {
	Record(*Record)
	End() []Violation
}

// Violation is one place where a stream is not what a consumer may rely on.
type Violation struct {
	Topic     string
	Partition int32
	Offset    int64 // -1: no single record's
	What      string
}

func (v Violation) String() string {
	if v.Offset < 0 {
		return fmt.Sprintf("%s: %s", v.Topic, v.What)
	}
	return fmt.Sprintf("%s[%d]@%d: %s", v.Topic, v.Partition, v.Offset, v.What)
}

const maxViolations = 1000

// list keeps the first violations and counts all.
type list struct {
	kept  []Violation
	total int64
}

func (l *list) add(topic string, partition int32, offset int64, format string, args ...any) {
	l.total++
	if len(l.kept) < maxViolations {
		l.kept = append(l.kept, Violation{topic, partition, offset, fmt.Sprintf(format, args...)})
	}
}

func (l *list) at(r *Record, format string, args ...any) {
	l.add(r.Topic, r.Partition, r.Offset, format, args...)
}

// place is a partition of a topic.
type place struct {
	topic string
	n     int32
}

func at(m Meta) string { return fmt.Sprintf("(%d,%s,%d)", m.Generation, m.Pos, m.Seq) }

// All feeds every validator.
type All []Validator

// Record feeds every validator.
func (a All) Record(r *Record) {
	for _, v := range a {
		v.Record(r)
	}
}

// End ends every validator and returns all they found.
func (a All) End() (all []Violation) {
	for _, v := range a {
		all = append(all, v.End()...)
	}
	return all
}

// Only passes on records of the generations that count.
func Only(active func(generation int64) bool, v Validator) Validator { return only{active, v} }

type only struct {
	active func(int64) bool
	Validator
}

func (o only) Record(r *Record) {
	if o.active(r.Generation) {
		o.Validator.Record(r)
	}
}
