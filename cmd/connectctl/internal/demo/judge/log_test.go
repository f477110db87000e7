package judge

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// message builds a pgoutput message by the format in PostgreSQL's manual: integers big-endian by their size.
func message(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case byte:
			b = append(b, p)
		case uint16:
			b = binary.BigEndian.AppendUint16(b, p)
		case uint32:
			b = binary.BigEndian.AppendUint32(b, p)
		case uint64:
			b = binary.BigEndian.AppendUint64(b, p)
		case string: // zero-terminated
			b = append(append(b, p...), 0)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// row is a tuple of text columns; "~" is null.
func row(columns ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(columns)))
	for _, c := range columns {
		if c == "~" {
			b = append(b, 'n')
			continue
		}
		b = append(binary.BigEndian.AppendUint32(append(b, 't'), uint32(len(c))), c...)
	}
	return b
}

// The rules of ordinals: a key change takes two, an old tuple with the same key one, a transactional
// message one, TRUNCATE one for each relation; a message outside of a transaction changes nothing.
func TestOrdinals(t *testing.T) {
	relation := func(id uint32, name string) []byte {
		return message(byte('R'), id, "public", name, byte('d'), uint16(2),
			byte(1), "id", uint32(20), uint32(0xffffffff), byte(0), "v", uint32(25), uint32(0xffffffff))
	}
	begin := func(lsn uint64) []byte { return message(byte('B'), lsn, uint64(0), uint32(9)) }
	commit := func(lsn uint64) []byte { return message(byte('C'), byte(0), lsn, lsn+8, uint64(0)) }
	d := newDecoder()
	for i, m := range [][]byte{
		begin(100), relation(1, "a"),
		message(byte('I'), uint32(1), byte('N'), row("1", "x")),                           // 0
		message(byte('U'), uint32(1), byte('N'), row("1", "y")),                           // 1
		message(byte('U'), uint32(1), byte('K'), row("1", "~"), byte('N'), row("2", "y")), // 2, 3: key change
		message(byte('U'), uint32(1), byte('K'), row("2", "~"), byte('N'), row("2", "z")), // 4: same key
		message(byte('M'), byte(1), uint64(99), "p", uint32(1), byte('c')),                // 5
		relation(2, "b"),
		message(byte('T'), uint32(2), byte(0), uint32(1), uint32(2)), // 6, 7
		message(byte('D'), uint32(2), byte('K'), row("7", "~")),      // 8
		commit(100),
		message(byte('M'), byte(0), uint64(150), "p", uint32(1), byte('c')),
		begin(200), commit(200), // empty
		begin(300), message(byte('I'), uint32(2), byte('N'), row("8", "x")), commit(300),
	} {
		if err := d.message(m); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	want := map[Position]Change{
		{100, 0}: {"a", 'c'}, {100, 1}: {"a", 'u'}, {100, 2}: {"a", 'd'}, {100, 3}: {"a", 'c'}, {100, 4}: {"a", 'u'},
		{100, 8}: {"b", 'd'}, {300, 0}: {"b", 'c'},
	}
	if diff := cmp.Diff(want, d.log.Changes); diff != "" || d.log.Transactions != 2 {
		t.Errorf("%d transactions, %s", d.log.Transactions, diff)
	}
	if err := d.message(message(byte('I'), uint32(9), byte('N'), row("1"))); err == nil || !strings.Contains(err.Error(), "relation 9") {
		t.Errorf("a change of an unknown relation: %v", err)
	}
	if err := d.message([]byte{byte(pgoutput.KindInsert)}); err == nil {
		t.Error("a torn message was taken")
	}
}
