package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Position is (__gen, __pos, __seq) of PostgreSQL.
type Position struct {
	Gen int64
	LSN uint64
	Seq int64
}

func (p Position) String() string { return fmt.Sprintf("(%d,%s,%d)", p.Gen, FormatLSN(p.LSN), p.Seq) }

// Compare orders positions.
func (p Position) Compare(o Position) int {
	switch {
	case p.Gen != o.Gen:
		return sign(p.Gen < o.Gen)
	case p.LSN != o.LSN:
		return sign(p.LSN < o.LSN)
	case p.Seq != o.Seq:
		return sign(p.Seq < o.Seq)
	}
	return 0
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// Record is one record as a consumer reads it. Key and Value are as they are in Kafka, in wire format.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp int64 // milliseconds
	Position
	Op     byte
	Key    []byte // nil: null
	OldKey []byte // header __old_key; nil: absent
	Value  []byte // nil: tombstone
}

func (r *Record) String() string {
	return fmt.Sprintf("%s[%d]@%d %c %s", r.Topic, r.Partition, r.Offset, r.Op, r.Position)
}

// Parse reads a record's headers.
func Parse(k *kgo.Record) (Record, error) {
	r := Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Timestamp: k.Timestamp.UnixMilli(), Key: k.Key, Value: k.Value}
	bad := func(what string) (Record, error) {
		return r, fmt.Errorf("%s[%d]@%d: %s; headers %v", k.Topic, k.Partition, k.Offset, what, k.Headers)
	}
	seen := map[string]int{}
	var err error
	for _, h := range k.Headers {
		seen[h.Key]++
		switch v := string(h.Value); h.Key {
		case "__pos":
			if r.LSN, err = ParsePos(v); err != nil {
				return bad(err.Error())
			}
		case "__seq":
			if r.Seq, err = strconv.ParseInt(v, 10, 64); err != nil || strconv.FormatInt(r.Seq, 10) != v || r.Seq < 0 {
				return bad("__seq is not a plain number")
			}
		case "__gen":
			if r.Gen, err = strconv.ParseInt(v, 10, 64); err != nil || strconv.FormatInt(r.Gen, 10) != v || r.Gen < 1 {
				return bad("__gen is not a plain number from 1")
			}
		case "__op":
			if len(v) != 1 || !strings.Contains("cudrtm", v) {
				return bad("__op is not an operation")
			}
			r.Op = v[0]
		case "__old_key":
			r.OldKey = h.Value
		default:
			return bad("unknown header " + h.Key)
		}
	}
	for _, name := range []string{"__pos", "__seq", "__gen", "__op"} {
		if seen[name] != 1 {
			return bad(fmt.Sprintf("%d headers %s", seen[name], name))
		}
	}
	return r, nil
}

// ParsePos reads {"lsn":"3D/485795A0"}, which must be compact.
func ParsePos(text string) (uint64, error) {
	var p struct {
		LSN string `json:"lsn"`
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return 0, fmt.Errorf("position %q: %w", text, err)
	}
	lsn, err := ParseLSN(p.LSN)
	if err != nil || text != `{"lsn":"`+FormatLSN(lsn)+`"}` {
		return 0, fmt.Errorf("position %q is not compact", text)
	}
	return lsn, nil
}

// ParseLSN reads PostgreSQL's text form.
func ParseLSN(text string) (uint64, error) {
	var high, low uint32
	if _, err := fmt.Sscanf(text, "%X/%X", &high, &low); err != nil {
		return 0, fmt.Errorf("LSN %q: %w", text, err)
	}
	return uint64(high)<<32 | uint64(low), nil
}

// FormatLSN writes PostgreSQL's text form.
func FormatLSN(lsn uint64) string { return fmt.Sprintf("%X/%X", lsn>>32, uint32(lsn)) }

// Order returns every violation of the order of records that are in offset order within each partition: positions of
// data records strictly increase, no pair is anywhere twice, a keyed delete is followed by its tombstone and by nothing else.
func Order(records []Record) (violations []string) {
	type place struct {
		topic string
		n     int32
	}
	last := map[place]*Record{}
	seen := map[Position]*Record{}
	for i := range records {
		r := &records[i]
		at := place{r.Topic, r.Partition}
		before := last[at]
		awaits := before != nil && before.Op == 'd' && before.Key != nil && before.Value != nil
		switch {
		case r.Value == nil && !(awaits && before.Position == r.Position && bytes.Equal(before.Key, r.Key) && r.Op == 'd'):
			violations = append(violations, r.String()+": tombstone without its delete")
		case r.Value != nil && awaits:
			violations = append(violations, before.String()+": delete without its tombstone")
		case r.Value != nil && before != nil && before.Compare(r.Position) >= 0:
			violations = append(violations, r.String()+": not after "+before.String())
		}
		if r.Value != nil {
			if other, twice := seen[r.Position]; twice {
				violations = append(violations, r.String()+": twice, also "+other.String())
			}
			seen[r.Position] = r
		}
		last[at] = r
	}
	for _, r := range last {
		if r.Op == 'd' && r.Key != nil && r.Value != nil {
			violations = append(violations, r.String()+": delete without its tombstone")
		}
	}
	return violations
}
