package check

import (
	"fmt"

	"github.com/twmb/avro"

	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// Images decodes values for the validators that need columns. The flat format has before-images in deletes alone, and
// whole ones only of tables with REPLICA IDENTITY FULL, which full tells by their topic.
func (d *Decoder) Images(full func(topic string) bool) verify.Decode {
	return func(r *verify.Record) (verify.Row, error) {
		v, err := d.Decode(r.Value)
		switch {
		case err != nil:
			return verify.Row{}, err
		case r.Op == 't':
			return verify.Row{}, nil
		case r.Op != 'd':
			return verify.Row{After: v.Columns, Unavailable: v.Unavailable}, nil
		case full(r.Topic):
			return verify.Row{Before: v.Columns}, nil
		}
		return verify.Row{}, nil
	}
}

// End decodes a record of the flat format's transaction topic; topic names the topic of a table as END names it.
func (d *Decoder) End(value []byte, topic func(collection string) string) (verify.End, error) {
	schema, err := d.plain(value)
	if err != nil {
		return verify.End{}, err
	}
	var v struct {
		ID          string `avro:"id"`
		Ts          int64  `avro:"__ts_us"`
		Status      string `avro:"status"`
		Events      int64  `avro:"event_count"`
		Collections []struct {
			Name   string `avro:"data_collection"`
			Events int64  `avro:"event_count"`
		} `avro:"data_collections"`
		Pos string `avro:"__pos"`
		Gen int64  `avro:"__gen"`
	}
	if rest, err := schema.Decode(value[5:], &v); err != nil || len(rest) > 0 || v.Status != "END" {
		return verify.End{}, fmt.Errorf("record of the transaction topic: status %q, %d bytes left: %w", v.Status, len(rest), err)
	}
	lsn, err := ParsePos(v.Pos)
	e := verify.End{Generation: v.Gen, Commit: [3]uint64{0, 0, lsn}, Events: v.Events, Tables: map[string]int64{}}
	for _, c := range v.Collections {
		e.Tables[topic(c.Name)] += c.Events
	}
	return e, err
}

// plain is the schema as it is, where compiled is that of a row.
func (d *Decoder) plain(b []byte) (*avro.Schema, error) {
	id, err := SchemaID(b)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.plains[id]; s != nil {
		return s, nil
	}
	text, err := d.Schema(id)
	if err != nil {
		return nil, err
	}
	s, err := avro.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schema %d: %w", id, err)
	}
	if d.plains == nil {
		d.plains = map[int]*avro.Schema{}
	}
	d.plains[id] = s
	return s, nil
}
