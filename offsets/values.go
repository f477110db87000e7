package offsets

import (
	"errors"
	"fmt"
)

// Names of members of the generation's and the tables' values.
const (
	fieldGeneration  = "generation"
	fieldStart       = "start"
	fieldBaseline    = "baseline"
	fieldBuilding    = "building"
	fieldID          = "id"
	fieldName        = "name"
	fieldKeyColumns  = "key_columns"
	fieldKeyTypes    = "key_types"
	fieldIdentity    = "identity"
	fieldKeySchemaID = "key_schema_id"
	fieldValueID     = "value_schema_id"
	fieldTopic       = "topic"
	fieldPartitions  = "partitions"
)

// Object returns the value of the generation's entry.
func (g Generation) Object() Object {
	o := Object{{fieldGeneration, g.Number}, {fieldStart, g.Start}, {fieldBaseline, g.Baseline}}
	if g.Building {
		o = append(o, Field{fieldBuilding, true})
	}
	return o
}

// GenerationFrom reads the value of the generation's entry.
func GenerationFrom(o Object) (Generation, error) {
	var g Generation
	r := reader{o: o}
	g.Number, g.Start = r.int(fieldGeneration), r.text(fieldStart)
	g.Baseline, _ = o.Bool(fieldBaseline)
	g.Building, _ = o.Bool(fieldBuilding)
	if r.err == nil && g.Number < 1 {
		r.err = fmt.Errorf("%s is %d; it counts from 1", fieldGeneration, g.Number)
	}
	if r.err != nil {
		return Generation{}, fmt.Errorf("read stored generation: %w", r.err)
	}
	return g, nil
}

// Object returns the value of the table's entry. The id is kept bit for bit in a signed number.
func (t TableState) Object() Object {
	o := Object{
		{fieldID, int64(t.ID)}, {fieldName, t.Name}, {fieldKeyColumns, t.KeyColumns}, {fieldKeyTypes, t.KeyTypes},
		{fieldIdentity, t.Identity}, {fieldKeySchemaID, t.KeySchemaID}, {fieldTopic, t.Topic},
		{fieldPartitions, t.Partitions}, {fieldGeneration, t.Generation},
	}
	if t.ValueSchemaID != 0 {
		o = append(o, Field{fieldValueID, t.ValueSchemaID})
	}
	return t.Snapshot.append(o)
}

// TableStateFrom reads the value of a table's entry; members it does not know are ignored.
func TableStateFrom(o Object) (TableState, error) {
	r := reader{o: o}
	t := TableState{
		ID: uint64(r.int(fieldID)), Name: r.text(fieldName), KeyColumns: r.text(fieldKeyColumns), KeyTypes: r.text(fieldKeyTypes),
		Identity: r.text(fieldIdentity), KeySchemaID: r.int(fieldKeySchemaID), Topic: r.text(fieldTopic),
		Partitions: r.int(fieldPartitions), Generation: r.int(fieldGeneration),
	}
	t.ValueSchemaID, _ = o.Int(fieldValueID)
	if r.err == nil {
		t.Snapshot, r.err = progressFrom(o)
	}
	if r.err != nil {
		return TableState{}, fmt.Errorf("read stored state of table %q: %w", t.Name, r.err)
	}
	return t, nil
}

// reader collects the first member that is missing or of another type.
type reader struct {
	o   Object
	err error
}

func (r *reader) int(name string) int64 {
	n, ok := r.o.Int(name)
	r.check(name, ok)
	return n
}

func (r *reader) text(name string) string {
	s, ok := r.o.Text(name)
	r.check(name, ok)
	return s
}

func (r *reader) check(name string, ok bool) {
	if ok || r.err != nil {
		return
	}
	if r.o == nil {
		r.err = errors.New("there is none")
		return
	}
	r.err = fmt.Errorf("member %q is missing or of another type", name)
}
