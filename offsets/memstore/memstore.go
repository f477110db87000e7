// Package memstore keeps offsets in memory, for tests of what reads and writes them.
package memstore

import (
	"context"
	"slices"
	"sync"

	"github.com/tidemark-cdc/tidemark/offsets"
)

// Store holds the newest entry of every partition. It is safe for concurrent use; the zero value is empty.
type Store struct {
	mu      sync.Mutex
	entries []offsets.Entry
}

// New returns a store that holds entries.
func New(entries ...offsets.Entry) *Store {
	s := &Store{}
	s.Apply(entries...)
	return s
}

// Apply stores entries, as a committed Kafka transaction does; a nil offset removes its partition.
func (s *Store) Apply(entries ...offsets.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.entries = slices.DeleteFunc(s.entries, func(old offsets.Entry) bool { return old.Partition.Equal(e.Partition) })
		if e.Offset != nil {
			s.entries = append(s.entries, e)
		}
	}
}

// Load returns the entries; the caller owns the slice.
func (s *Store) Load(context.Context) ([]offsets.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries), nil
}
