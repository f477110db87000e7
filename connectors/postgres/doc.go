// Package postgres is the PostgreSQL source: it streams a database's committed transactions
// from a logical replication slot through the pgoutput plugin.
//
// Three goroutines belong to an open source. The caller's reads: Next takes messages out of one
// receive buffer and hands out changes that alias it, so a batch is valid until the next call and
// nothing is allocated per change. The status goroutine writes: it alone sends standby status
// updates, so a pipeline that does not call Next never costs the connection. The sentinel owns the
// catalogue connection: it runs queries for the reader and otherwise listens, because a server
// that shuts down ends that connection first.
//
// They share atomics only: acked (the published boundary), emitted (the last boundary Next handed
// out, lazy ones aside), received (what was read). The stream is at rest where acked has reached
// emitted and no transaction is open; only then may a keepalive's WAL end become a boundary. What must reach a
// reader that is blocked on the socket sets a flag and then a read deadline in the past; the
// reader clears the deadline first and looks at the flags second, so no event is missed.
//
// Ordinals (__seq) are taken for every decoded change before any filter of ours, so that a
// replay gives the same ones from the log alone. The columns of a row are those of the Relation
// message that came before it, not of the catalogue, which is newer; the catalogue adds what
// the message lacks: key order, NOT NULL, type names, enum labels.
package postgres
