package check

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// Value is one column of the log's tuple.
type Value struct {
	Name        string
	Text        Text
	Unavailable bool // unchanged TOAST, or not in an old tuple
}

// Messages is the table name of logical messages; their schema's name is empty.
const Messages = "message"

// Change is one change as the contract numbers it.
type Change struct {
	LSN    uint64 // commit
	End    uint64 // of the commit record
	Seq    int64
	Op     byte // t: truncated
	Schema string
	Table  string
	Row    []Value // after; before where deleted
	Ts     int64   // commit time, microseconds since 1970; 0: the log has none
}

// Name is the qualified name.
func (c *Change) Name() string { return c.Schema + "." + c.Table }

// Truth is what a slot still holds.
type Truth struct {
	Changes []Change
}

// Keys gives the key columns of a table, nil where it has none.
type Keys func(schema, table string) []string

// ReadTruth reads, and uses up, all a pgoutput slot holds.
func ReadTruth(ctx context.Context, conn *pgx.Conn, slot, publication string, keys Keys) (*Truth, error) {
	rows, err := conn.Query(ctx, `SELECT lsn::text, data FROM pg_logical_slot_get_binary_changes($1, NULL, NULL,
		'proto_version', '1', 'publication_names', $2, 'messages', 'true')`, slot, pgx.Identifier{publication}.Sanitize())
	if err != nil {
		return nil, fmt.Errorf("read slot %s: %w", slot, err)
	}
	defer rows.Close()
	r := reader{keys: keys, relations: map[uint32]*pglogrepl.RelationMessage{}, truth: &Truth{}}
	for rows.Next() {
		var lsn string
		var data []byte
		if err := rows.Scan(&lsn, &data); err != nil {
			return nil, err
		}
		if err := r.take(data); err != nil {
			return nil, fmt.Errorf("at %s: %w", lsn, err)
		}
	}
	return r.truth, rows.Err()
}

type reader struct {
	keys      Keys
	relations map[uint32]*pglogrepl.RelationMessage
	truth     *Truth
	begin     *pglogrepl.BeginMessage
	first     int // change of this transaction
	seq       int64
}

func (r *reader) take(data []byte) error {
	m, err := pglogrepl.Parse(data)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *pglogrepl.BeginMessage:
		r.begin, r.seq, r.first = m, 0, len(r.truth.Changes)
	case *pglogrepl.CommitMessage:
		for i := r.first; i < len(r.truth.Changes); i++ {
			if c := &r.truth.Changes[i]; c.End == 0 || c.LSN == uint64(m.CommitLSN) {
				c.End = uint64(m.TransactionEndLSN)
			}
		}
	case *pglogrepl.RelationMessage:
		r.relations[m.RelationID] = m
	case *pglogrepl.LogicalDecodingMessage:
		r.message(m)
	case *pglogrepl.TruncateMessage:
		for _, id := range m.RelationIDs {
			r.add('t', id, nil)
		}
	case *pglogrepl.InsertMessage:
		r.add('c', m.RelationID, row(r.relations[m.RelationID], m.Tuple, 0))
	case *pglogrepl.UpdateMessage:
		r.update(m)
	case *pglogrepl.DeleteMessage:
		r.add('d', m.RelationID, row(r.relations[m.RelationID], m.OldTuple, m.OldTupleType))
	}
	return nil
}

func (r *reader) add(op byte, relation uint32, values []Value) {
	rel := r.relations[relation]
	r.truth.Changes = append(r.truth.Changes, Change{LSN: uint64(r.begin.FinalLSN), Seq: r.seq, Op: op, Schema: rel.Namespace, Table: rel.RelationName,
		Row: values, Ts: r.begin.CommitTime.UnixMicro()})
	r.seq++
}

// message adds a logical message; one that is not transactional is a boundary of its own, at the LSN before its own.
func (r *reader) message(m *pglogrepl.LogicalDecodingMessage) {
	content, transactional := `\x`+hex.EncodeToString(m.Content), "f"
	c := Change{LSN: uint64(m.LSN) - 1, End: uint64(m.LSN), Op: 'm', Table: Messages}
	if m.Transactional {
		transactional = "t"
		c.LSN, c.Seq, c.Ts = uint64(r.begin.FinalLSN), r.seq, r.begin.CommitTime.UnixMicro()
		r.seq++
	}
	prefix := m.Prefix
	c.Row = []Value{{Name: "prefix", Text: &prefix}, {Name: "content", Text: &content}, {Name: "transactional", Text: &transactional}}
	r.truth.Changes = append(r.truth.Changes, c)
}

func (r *reader) update(m *pglogrepl.UpdateMessage) {
	rel := r.relations[m.RelationID]
	after := row(rel, m.NewTuple, 0)
	if m.OldTuple == nil {
		r.add('u', m.RelationID, after)
		return
	}
	before := row(rel, m.OldTuple, m.OldTupleType)
	key := r.keys(rel.Namespace, rel.RelationName)
	changed := len(key) == 0
	for i := range after {
		if after[i].Unavailable && m.OldTupleType == pglogrepl.UpdateMessageTupleTypeOld {
			after[i] = before[i]
		}
		if slices.Contains(key, after[i].Name) && after[i].Unavailable {
			after[i] = before[i]
		}
		if slices.Contains(key, after[i].Name) && !equal(after[i].Text, before[i].Text) {
			changed = true
		}
	}
	if changed {
		r.add('d', m.RelationID, before)
		r.add('c', m.RelationID, after)
		return
	}
	r.add('u', m.RelationID, after)
}

// row reads a tuple; of an old tuple of kind 'K' only the key columns are data.
func row(rel *pglogrepl.RelationMessage, t *pglogrepl.TupleData, kind uint8) []Value {
	out := make([]Value, len(rel.Columns))
	for i, c := range rel.Columns {
		out[i] = Value{Name: c.Name}
		if kind == 'K' && c.Flags&1 == 0 {
			out[i].Unavailable = true
			continue
		}
		switch col := t.Columns[i]; col.DataType {
		case 'u':
			out[i].Unavailable = true
		case 't':
			s := string(bytes.Clone(col.Data))
			out[i].Text = &s
		}
	}
	return out
}

func equal(a, b Text) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
