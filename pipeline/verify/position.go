package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Position is a record's place in its stream: (__gen, __pos, __seq). Within one stream all
// positions compare; the commit position is held as three numbers (MySQL: epoch, file, pos).
type Position struct {
	Generation int64
	Commit     [3]uint64
	Seq        int64
}

// Compare orders positions of one stream.
func (p Position) Compare(q Position) int {
	if c := cmp.Compare(p.Generation, q.Generation); c != 0 {
		return c
	}
	for i := range p.Commit {
		if c := cmp.Compare(p.Commit[i], q.Commit[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(p.Seq, q.Seq)
}

// Meta is what the headers of a data record or tombstone say.
type Meta struct {
	Position
	Pos       string // __pos as written
	Op        byte
	Tombstone bool
}

// MetaOf reads the headers. A record without them is not one of ours, one of the transaction topic is
// of no change: ok is false.
func MetaOf(r *kgo.Record) (m Meta, ok bool, err error) {
	var seq, gen, op string
	for _, h := range r.Headers {
		switch h.Key {
		case "__pos":
			m.Pos = string(h.Value)
		case "__seq":
			seq = string(h.Value)
		case "__gen":
			gen = string(h.Value)
		case "__op":
			op = string(h.Value)
		}
	}
	if seq == "" && op == "" && (gen == "") == (m.Pos == "") {
		return m, false, nil
	}
	m.Tombstone = r.Value == nil
	if m.Commit, err = ParsePos(m.Pos); err != nil {
		return m, true, err
	}
	if m.Seq, err = strconv.ParseInt(seq, 10, 64); err != nil || m.Seq < 0 {
		return m, true, fmt.Errorf("header __seq is not a whole number")
	}
	if m.Generation, err = strconv.ParseInt(gen, 10, 64); err != nil || m.Generation < 1 {
		return m, true, fmt.Errorf("header __gen is not a generation from 1")
	}
	if len(op) != 1 || !strings.Contains("cudrtm", op) {
		return m, true, fmt.Errorf("header __op is not an operation")
	}
	m.Op = op[0]
	return m, true, nil
}

var lsnPattern = regexp.MustCompile(`^[0-9A-F]{1,8}/[0-9A-F]{1,8}$`)

// ParsePos parses a commit position: {"lsn":"3D/485795A0"} (PostgreSQL),
// {"file":"binlog.000047","pos":11721549,"epoch":1} (MySQL) or {"lsn":"0000002d000000d80194"} (SQL Server).
func ParsePos(pos string) (commit [3]uint64, err error) {
	bad := fmt.Errorf("header __pos is not a commit position")
	var v struct {
		LSN   string  `json:"lsn"`
		File  string  `json:"file"`
		Pos   *uint64 `json:"pos"`
		Epoch uint64  `json:"epoch"`
	}
	if json.Unmarshal([]byte(pos), &v) != nil {
		return commit, bad
	}
	switch {
	case lsnPattern.MatchString(v.LSN):
		high, low, _ := strings.Cut(v.LSN, "/")
		h, _ := strconv.ParseUint(high, 16, 32)
		l, _ := strconv.ParseUint(low, 16, 32)
		return [3]uint64{0, 0, h<<32 | l}, nil
	case len(v.LSN) == 20:
		h, err1 := strconv.ParseUint(v.LSN[:4], 16, 64)
		l, err2 := strconv.ParseUint(v.LSN[4:], 16, 64)
		if err1 != nil || err2 != nil {
			return commit, bad
		}
		return [3]uint64{0, h, l}, nil
	case v.File != "" && v.Pos != nil:
		n, err := strconv.ParseUint(v.File[strings.LastIndexByte(v.File, '.')+1:], 10, 64)
		if err != nil || n == math.MaxUint64 {
			return commit, bad
		}
		return [3]uint64{v.Epoch, n, *v.Pos}, nil
	}
	return commit, bad
}
