package pgoutput

import "fmt"

// Kind is the first byte of a message and says what it is.
type Kind byte

// The messages of protocol version 1.
const (
	KindBegin    Kind = 'B'
	KindCommit   Kind = 'C'
	KindOrigin   Kind = 'O'
	KindRelation Kind = 'R'
	KindType     Kind = 'Y'
	KindInsert   Kind = 'I'
	KindUpdate   Kind = 'U'
	KindDelete   Kind = 'D'
	KindTruncate Kind = 'T'
	KindMessage  Kind = 'M'
)

// The messages of later versions: 2 streams transactions in progress, 3 sends
// prepared ones. This package names them and does not decode them.
const (
	KindStreamStart      Kind = 'S'
	KindStreamStop       Kind = 'E'
	KindStreamCommit     Kind = 'c'
	KindStreamAbort      Kind = 'A'
	KindBeginPrepare     Kind = 'b'
	KindPrepare          Kind = 'P'
	KindCommitPrepared   Kind = 'K'
	KindRollbackPrepared Kind = 'r'
	KindStreamPrepare    Kind = 'p'
)

// String names the kind in lower case, as error messages use it.
func (k Kind) String() string {
	switch k {
	case KindBegin:
		return "begin"
	case KindCommit:
		return "commit"
	case KindOrigin:
		return "origin"
	case KindRelation:
		return "relation"
	case KindType:
		return "type"
	case KindInsert:
		return "insert"
	case KindUpdate:
		return "update"
	case KindDelete:
		return "delete"
	case KindTruncate:
		return "truncate"
	case KindMessage:
		return "message"
	}
	if name := k.laterName(); name != "" {
		return name
	}
	return fmt.Sprintf("kind 0x%02x", byte(k))
}

// laterName names a kind of a later protocol version; "" for any other.
func (k Kind) laterName() string {
	switch k {
	case KindStreamStart:
		return "stream start"
	case KindStreamStop:
		return "stream stop"
	case KindStreamCommit:
		return "stream commit"
	case KindStreamAbort:
		return "stream abort"
	case KindBeginPrepare:
		return "begin prepare"
	case KindPrepare:
		return "prepare"
	case KindCommitPrepared:
		return "commit prepared"
	case KindRollbackPrepared:
		return "rollback prepared"
	case KindStreamPrepare:
		return "stream prepare"
	}
	return ""
}
