// Package snapshot reads the rows that tables have, beside their stream, and hands both out as one source: contract, section 6.
//
// A Source wraps a connectors.Snapshotter. It passes the inner batches on, and at boundaries hands out batches of its own: the
// rows of the exported snapshot, of chunks read in key order, and of whole tables without a key; each with the progress that it makes.
package snapshot

// Notes for the next editor.
//
// Goroutines: everything that decides runs on the goroutine of Next. Readers (reader.go), one per thread, read ahead and leave results in
// Source.shared, which the one lock guards; Wake and notify make Next look. Signals' channels and ChangeTables have goroutines of their own.
//
// Windows (window.go): a chunk's row is dropped where a streamed transaction that the chunk does not see changed its key. So
// transactions that touch tables being read are kept with the keys they changed, and of the others the recent ids alone, for tables that begin to
// be read later: a chunk that does not see one of those is read again. A transaction may be dropped once a read R has seen it, no
// read that began before the end of R is under way, and every chunk that was read and not yet decided on sees it too: what R saw, later reads see.
// What is dropped for want of room is remembered as the table's floor, which a chunk must have settled. The floor of a table rises
// only for transactions that concern it, so that a table that begins late does not wait for ever.
//
// Order of a table's chunks: they are published in the order they were read. One that does not count takes the later ones of its table with it,
// and the table is read again from where the last published one ended.
//
// A key moved by an update: where the log lacks columns of the row under its new key, and the old one was not read yet, nobody has
// their values. How a reader writes that key is not known here, so the table is read through once more, and the moved keys' rows alone are published (second.go).
