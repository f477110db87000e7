package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// snapshot is a pg_snapshot: which transactions a read has seen. Visibility, not the place in the log, decides: the server
// writes a commit into the log before its transaction becomes visible, with synchronous replication long before.
type snapshot struct {
	xmin uint64   // every id below is seen
	xmax uint64   // no id from here on is seen
	xip  []uint64 // between them, not seen; ascending

	waits string // who is waited for before the read counts; empty: nobody
}

var _ connectors.Visibility = (*snapshot)(nil)

// parseSnapshot reads the text of a pg_snapshot: xmin:xmax:xip,xip.
func parseSnapshot(text string) (*snapshot, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return nil, fmt.Errorf("snapshot %q is not of the form xmin:xmax:xip", text)
	}
	s := &snapshot{}
	var err error
	number := func(digits string) uint64 {
		n, e := strconv.ParseUint(digits, 10, 64)
		if e != nil && err == nil {
			err = fmt.Errorf("snapshot %q: %w", text, e)
		}
		return n
	}
	s.xmin, s.xmax = number(parts[0]), number(parts[1])
	if parts[2] != "" {
		for _, x := range strings.Split(parts[2], ",") {
			s.xip = append(s.xip, number(x))
		}
	}
	slices.Sort(s.xip)
	return s, err
}

// Sees reports whether the read has seen the transaction. What has no id is no transaction and hides nothing.
func (s *snapshot) Sees(tx *connectors.Transaction) bool {
	switch {
	case tx.ID == 0, tx.ID < s.xmin:
		return true
	case tx.ID >= s.xmax:
		return false
	}
	_, running := slices.BinarySearch(s.xip, tx.ID)
	return !running
}

// Settled reports whether the read has seen the transaction and every one with a lower id, so that all later reads do too.
func (s *snapshot) Settled(tx *connectors.Transaction) bool { return tx.ID < s.xmin }

// Above reports whether no transaction is in the log before the stream's start and not seen by the read.
func (s *snapshot) Above() (ok bool, waits string) { return s.waits == "", s.waits }

// place is a place in the log: after every record that ends there or before.
type place pgoutput.LSN

var _ connectors.Place = place(0)

// Before reports whether the commit record of the batch's transaction begins at the place or after it.
func (p place) Before(b *connectors.Batch) bool {
	if b.Tx.Pos == "" {
		return false
	}
	commit, err := catalog.ParsePos(b.Tx.Pos)
	return err == nil && commit >= pgoutput.LSN(p)
}

// Reached reports whether everything before the place was handed out with the batch.
func (p place) Reached(b *connectors.Batch) bool {
	if !b.Last {
		return false
	}
	pos, err := catalog.ParsePosition(b.Boundary)
	return err == nil && pos != nil && pos.BoundaryLSN >= pgoutput.LSN(p)
}

// The heads of the WAL's pages, and of the first page of its files.
const (
	walPageHead = 24
	walFileHead = 40
)

// endOfRecord takes back what pg_current_wal_insert_lsn adds where the last record fills its page: the next page's head is
// not written before the next record, and a quiet server's stream would never come so far.
func endOfRecord(lsn pgoutput.LSN, block uint64) pgoutput.LSN {
	if head := uint64(lsn) % block; head == walPageHead || head == walFileHead {
		return lsn - pgoutput.LSN(head)
	}
	return lsn
}
