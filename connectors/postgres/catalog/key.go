package catalog

// KeyFor returns the key columns of a table, nil where it is keyless: the configured ones, else
// the primary key, else the columns of its identity index. It refuses what the contract's
// section 2 refuses: a key column that may be NULL or that the log does not carry for updates
// and deletes, and, where the publication publishes those, a table whose updates would fail or
// could not be told apart. ops are those of the publication: AllOperations where it is yet to be created.
func KeyFor(t *Table, configured []string, ops Operations) ([]string, error) { return nil, errSoon }
