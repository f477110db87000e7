package pgoutput

// Decoder decodes messages of any kind, each into the field of its kind, and
// reuses their memory: a field holds the last message of its kind until Decode
// meets the next one. The zero value is ready to use. A Decoder is for one
// goroutine at a time.
type Decoder struct {
	Begin    Begin
	Commit   Commit
	Origin   Origin
	Relation Relation
	Type     Type
	Insert   Insert
	Update   Update
	Delete   Delete
	Truncate Truncate
	Message  Message
}

// Decode decodes one whole message and returns its kind, which names the field
// that was filled. The values of Insert, Update, Delete and Message alias src.
//
// The error is a *[DecodeError], or an *[UnexpectedKindError] for a message of
// a later protocol version; the kind is returned with it where there is one.
func (d *Decoder) Decode(src []byte) (Kind, error) {
	if len(src) == 0 {
		return 0, &DecodeError{Field: "message kind", Reason: "needs 1 bytes, 0 left"}
	}
	kind := Kind(src[0])
	switch kind {
	case KindBegin:
		return kind, d.Begin.Decode(src)
	case KindCommit:
		return kind, d.Commit.Decode(src)
	case KindOrigin:
		return kind, d.Origin.Decode(src)
	case KindRelation:
		return kind, d.Relation.Decode(src)
	case KindType:
		return kind, d.Type.Decode(src)
	case KindInsert:
		return kind, d.Insert.Decode(src)
	case KindUpdate:
		return kind, d.Update.Decode(src)
	case KindDelete:
		return kind, d.Delete.Decode(src)
	case KindTruncate:
		return kind, d.Truncate.Decode(src)
	case KindMessage:
		return kind, d.Message.Decode(src)
	}
	if kind.laterName() != "" {
		return kind, &UnexpectedKindError{Kind: kind}
	}
	return kind, &DecodeError{Kind: kind, Field: "message kind", Reason: "is unknown"}
}
