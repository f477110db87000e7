package pgoutput

// A sample is a message written by hand from the manual's description, and what
// it means.
type sample struct {
	name string
	wire string
	want message
}

func text(s string) ColumnValue { return ColumnValue{Kind: ColumnText, Data: []byte(s)} }

func tuple(c ...ColumnValue) Tuple { return Tuple{Columns: c} }

var (
	null      = ColumnValue{Kind: ColumnNull}
	unchanged = ColumnValue{Kind: ColumnUnchanged}
)

func samples() []sample {
	return []sample{
		{"begin", "B\x00\x00\x00\x16\xb3\x74\xd8\x48\x00\x02\xb3\x4d\x2d\x7b\x0a\x00\x00\x00\x02\xf1",
			&Begin{FinalLSN: 0x16_B374D848, CommitTime: unixToY2K + 0x2_B34D_2D7B_0A00, Xid: 753}},
		{"begin before 2000", "B\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
			&Begin{FinalLSN: 1, CommitTime: 946_684_799_999_999, Xid: 1<<32 - 1}},
		{"commit", "C\x00\x00\x00\x00\x16\xb3\x74\xd8\x48\x00\x00\x00\x16\xb3\x74\xd8\x78\x00\x00\x00\x00\x00\x00\x00\x01",
			&Commit{CommitLSN: 0x16_B374D848, EndLSN: 0x16_B374D878, CommitTime: 946_684_800_000_001}},
		{"origin", "O\x00\x00\x00\x01\x00\x00\x00\x02knoten-süd\x00",
			&Origin{CommitLSN: 0x1_00000002, Name: "knoten-süd"}},
		{"origin without name", "O\x00\x00\x00\x01\x00\x00\x00\x02\x00", &Origin{CommitLSN: 0x1_00000002}},
		{"relation", "R\x00\x00\x40\x01public\x00Größe \"商品\"\x00d\x00\x02" +
			"\x01id\x00\x00\x00\x00\x14\xff\xff\xff\xff" + "\x00名前\x00\x00\x00\x04\x13\x00\x00\x00\x18",
			&Relation{ID: 16385, Namespace: "public", Name: `Größe "商品"`, ReplicaIdentity: IdentityDefault, Columns: []RelationColumn{
				{Flags: 1, Name: "id", TypeOID: 20, TypeModifier: -1}, {Name: "名前", TypeOID: 1043, TypeModifier: 24}}}},
		{"relation of pg_catalog, no columns", "R\x00\x00\x04\xeb\x00pg_class\x00n\x00\x00",
			&Relation{ID: 1259, Namespace: "pg_catalog", Name: "pg_class", ReplicaIdentity: IdentityNothing, Columns: []RelationColumn{}}},
		{"type", "Y\x00\x00\x40\x02Süd\x00mood\x00", &Type{OID: 16386, Namespace: "Süd", Name: "mood"}},
		{"type of pg_catalog", "Y\x00\x00\x00\x17\x00int4\x00", &Type{OID: 23, Namespace: "pg_catalog", Name: "int4"}},
		{"insert", "I\x00\x00\x40\x01N\x00\x04t\x00\x00\x00\x0242nut\x00\x00\x00\x00",
			&Insert{RelationID: 16385, New: tuple(text("42"), null, unchanged, text(""))}},
		{"insert binary", "I\x00\x00\x40\x01N\x00\x01b\x00\x00\x00\x02\x00\xff",
			&Insert{RelationID: 16385, New: tuple(ColumnValue{ColumnBinary, []byte{0, 0xff}})}},
		{"insert no columns", "I\x00\x00\x40\x01N\x00\x00", &Insert{RelationID: 16385, New: tuple()}},
		{"update", "U\x00\x00\x40\x01N\x00\x02t\x00\x00\x00\x011u",
			&Update{RelationID: 16385, New: tuple(text("1"), unchanged)}},
		{"update with key", "U\x00\x00\x40\x01K\x00\x02t\x00\x00\x00\x011nN\x00\x02t\x00\x00\x00\x012t\x00\x00\x00\x02\xc3\xbc",
			&Update{RelationID: 16385, OldKind: OldKey, Old: tuple(text("1"), null), New: tuple(text("2"), text("ü"))}},
		{"update with old row", "U\x00\x00\x40\x01O\x00\x01t\x00\x00\x00\x01NN\x00\x01n",
			&Update{RelationID: 16385, OldKind: OldFull, Old: tuple(text("N")), New: tuple(null)}},
		{"delete by key", "D\x00\x00\x40\x01K\x00\x02t\x00\x00\x00\x011n",
			&Delete{RelationID: 16385, OldKind: OldKey, Old: tuple(text("1"), null)}},
		{"delete of old row", "D\x00\x00\x40\x01O\x00\x01t\x00\x00\x00\x011",
			&Delete{RelationID: 16385, OldKind: OldFull, Old: tuple(text("1"))}},
		{"truncate", "T\x00\x00\x00\x02\x03\x00\x00\x40\x05\x00\x00\x40\x01",
			&Truncate{Options: TruncateCascade | TruncateRestartIdentity, RelationIDs: []uint32{16389, 16385}}},
		{"message", "M\x01\x00\x00\x00\x16\xb3\x74\xd8\x48präfix\x00\x00\x00\x00\x03a\x00b",
			&Message{Transactional: true, LSN: 0x16_B374D848, Prefix: []byte("präfix"), Content: []byte("a\x00b")}},
		{"message, empty", "M\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
			&Message{Prefix: []byte{}, Content: []byte{}}},
	}
}
