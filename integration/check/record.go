package check

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/pipeline/verify"
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

// Verified is the record as the product's validators take it.
func (r *Record) Verified() *verify.Record {
	return &verify.Record{
		Meta:  verify.Meta{Position: verify.Position{Generation: r.Gen, Commit: [3]uint64{0, 0, r.LSN}, Seq: r.Seq}, Pos: FormatLSN(r.LSN), Op: r.Op, Tombstone: r.Value == nil},
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, OldKey: r.OldKey, Value: r.Value,
	}
}

// Order returns every violation of the order of records that are in offset order within each partition: positions of
// data records strictly increase, no pair is anywhere twice, a keyed delete is followed by its tombstone and by nothing else.
func Order(records []Record) (violations []string) {
	all := verify.All{&verify.Order{}, &verify.Tombstones{}, &verify.Once{}, &verify.Snapshots{}}
	for i := range records {
		all.Record(records[i].Verified())
	}
	for _, v := range all.End() {
		violations = append(violations, v.String())
	}
	return violations
}
