// Package catalog is everything of the PostgreSQL source that is not the replication stream:
// connections, facts about the server, tables and types, the publication, the slot, and the
// comparison of all of them with what the stream stored.
//
// Errors carry a connectors.Class and are sentences for an operator: what, where, what to do.
// No function keeps a goroutine after it returned. No value is safe for concurrent use while
// it is being changed; connections are used by one goroutine at a time.
package catalog
