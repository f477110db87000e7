package pgoutput

import "encoding/binary"

// The encoders below write what the server writes. They judge the decoders:
// what decodes must encode to the same bytes, and the other way round.

var be = binary.BigEndian

func appendString(b []byte, s string) []byte { return append(append(b, s...), 0) }

func appendNamespace(b []byte, s string) []byte {
	if s == "pg_catalog" {
		s = ""
	}
	return appendString(b, s)
}

func appendMicros(b []byte, unix int64) []byte { return be.AppendUint64(b, uint64(unix-unixToY2K)) }

func (t *Tuple) encode(b []byte) []byte {
	b = be.AppendUint16(b, uint16(len(t.Columns)))
	for _, c := range t.Columns {
		b = append(b, c.Kind)
		if c.Kind == ColumnText || c.Kind == ColumnBinary {
			b = be.AppendUint32(b, uint32(len(c.Data)))
			b = append(b, c.Data...)
		}
	}
	return b
}

func (m *Begin) encode() []byte {
	b := be.AppendUint64([]byte{'B'}, uint64(m.FinalLSN))
	return be.AppendUint32(appendMicros(b, m.CommitTime), m.Xid)
}

func (m *Commit) encode() []byte {
	b := be.AppendUint64([]byte{'C', 0}, uint64(m.CommitLSN))
	return appendMicros(be.AppendUint64(b, uint64(m.EndLSN)), m.CommitTime)
}

func (m *Origin) encode() []byte {
	return appendString(be.AppendUint64([]byte{'O'}, uint64(m.CommitLSN)), m.Name)
}

func (m *Relation) encode() []byte {
	b := be.AppendUint32([]byte{'R'}, m.ID)
	b = append(appendString(appendNamespace(b, m.Namespace), m.Name), m.ReplicaIdentity)
	b = be.AppendUint16(b, uint16(len(m.Columns)))
	for _, c := range m.Columns {
		b = appendString(append(b, c.Flags), c.Name)
		b = be.AppendUint32(be.AppendUint32(b, c.TypeOID), uint32(c.TypeModifier))
	}
	return b
}

func (m *Type) encode() []byte {
	return appendString(appendNamespace(be.AppendUint32([]byte{'Y'}, m.OID), m.Namespace), m.Name)
}

func (m *Insert) encode() []byte {
	return m.New.encode(append(be.AppendUint32([]byte{'I'}, m.RelationID), 'N'))
}

func (m *Update) encode() []byte {
	b := be.AppendUint32([]byte{'U'}, m.RelationID)
	if m.OldKind != OldNone {
		b = m.Old.encode(append(b, m.OldKind))
	}
	return m.New.encode(append(b, 'N'))
}

func (m *Delete) encode() []byte {
	return m.Old.encode(append(be.AppendUint32([]byte{'D'}, m.RelationID), m.OldKind))
}

func (m *Truncate) encode() []byte {
	b := append(be.AppendUint32([]byte{'T'}, uint32(len(m.RelationIDs))), m.Options)
	for _, id := range m.RelationIDs {
		b = be.AppendUint32(b, id)
	}
	return b
}

func (m *Message) encode() []byte {
	b := []byte{'M', 0}
	if m.Transactional {
		b[1] = 1
	}
	b = append(append(be.AppendUint64(b, uint64(m.LSN)), m.Prefix...), 0)
	return append(be.AppendUint32(b, uint32(len(m.Content))), m.Content...)
}

// message is what every message struct is to a test.
type message interface {
	Decode(src []byte) error
	encode() []byte
}

// of returns the field of d that holds messages of the kind, nil if none does.
func (d *Decoder) of(k Kind) message {
	switch k {
	case KindBegin:
		return &d.Begin
	case KindCommit:
		return &d.Commit
	case KindOrigin:
		return &d.Origin
	case KindRelation:
		return &d.Relation
	case KindType:
		return &d.Type
	case KindInsert:
		return &d.Insert
	case KindUpdate:
		return &d.Update
	case KindDelete:
		return &d.Delete
	case KindTruncate:
		return &d.Truncate
	case KindMessage:
		return &d.Message
	}
	return nil
}
