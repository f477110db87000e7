package judge

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// Position is a change's place in the log: its transaction's commit record and its ordinal in it.
type Position struct {
	LSN pgoutput.LSN
	Seq int64
}

// Less orders positions of one generation.
func (p Position) Less(q Position) bool {
	return p.LSN < q.LSN || p.LSN == q.LSN && p.Seq < q.Seq
}

func (p Position) String() string { return fmt.Sprintf("%s/%d", p.LSN, p.Seq) }

// Change is one row change as both sides must have it.
type Change struct {
	Table string // without its schema
	Op    byte   // c, u or d
}

// Record is one record of a data topic.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Tombstone bool
	Gen       int64
	Position  Position
	Change    Change
}

// headers collects the metadata of a record. A header that appears twice or not at all makes it unreadable.
type headers struct {
	pos, seq, gen, op string
	err               error
}

func (h *headers) add(key string, value []byte) {
	var at *string
	switch key {
	case "__pos":
		at = &h.pos
	case "__seq":
		at = &h.seq
	case "__gen":
		at = &h.gen
	case "__op":
		at = &h.op
	default:
		return
	}
	if *at != "" {
		h.err = fmt.Errorf("header %s appears twice", key)
	}
	*at = string(value)
}

func (h *headers) parse(r *Record) error {
	if h.err != nil {
		return h.err
	}
	text, open := strings.CutPrefix(h.pos, `{"lsn":"`)
	text, closed := strings.CutSuffix(text, `"}`)
	if !open || !closed {
		return fmt.Errorf("header __pos is %q", h.pos)
	}
	var errs [3]error
	r.Position.LSN, errs[0] = pgoutput.ParseLSN(text)
	r.Position.Seq, errs[1] = strconv.ParseInt(h.seq, 10, 64)
	r.Gen, errs[2] = strconv.ParseInt(h.gen, 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if len(h.op) != 1 {
		return fmt.Errorf("header __op is %q", h.op)
	}
	r.Change.Op = h.op[0]
	return nil
}
