// Package pgoutput decodes the messages of PostgreSQL's logical replication
// output plugin, as sent with the options proto_version '1' and
// messages 'true'. It turns bytes into structs and does nothing else: no I/O,
// no state between messages, no look at what the values mean.
//
// The format is the one described in PostgreSQL's manual under "Logical
// Replication Message Formats" and written by
// src/backend/replication/logical/proto.c. All integers are big-endian, all
// strings end with a zero byte. Transactions arrive whole and in commit order:
//
//	Begin (Origin)? (Relation | Type | Insert | Update | Delete | Truncate | Message)* Commit
//
// A Message that is not transactional stands between transactions. Messages of
// later protocol versions (streamed and two-phase transactions) are recognised
// and refused with an [UnexpectedKindError].
//
// # Input
//
// Input is one whole message, from its kind byte on: the payload of one
// XLogData, without its header. Input is not trusted. Every length is compared
// with what is left before anything is read or allocated, and every byte must
// be accounted for: short input, bytes after the end, negative lengths, and
// values the format does not define give a [DecodeError].
//
// # Memory
//
// Begin, Commit, Insert, Update, Delete, Truncate and Message decode without
// allocating once their slices have grown to the widest row seen. For that,
// column values, Message.Prefix and Message.Content alias the input: they are
// valid as long as the caller leaves the input's bytes alone. The slices that
// hold them ([Tuple].Columns, [Truncate].RelationIDs) belong to the struct and
// are overwritten by its next Decode. Relation, Type and Origin are rare; they
// copy what they hold and share nothing with the input or with later calls, so
// a copy of the struct may be kept.
//
// After an error the contents of the decoded struct are unspecified.
package pgoutput
