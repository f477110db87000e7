// Package sourcetest has a scripted source for tests of what drives one (Log, Source), and the
// acceptance suite that every source passes (Accept).
package sourcetest

import (
	"fmt"
	"sync"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// FieldEnd is the member of a fake boundary that counts the transactions up to it.
const FieldEnd = "end"

// Tx is one transaction of a scripted log.
type Tx struct {
	Changes []connectors.Change // Seq is assigned by Append
	Lazy    bool                // for a transaction without changes: its boundary may wait
	Err     error               // if set, Next fails with it after ErrAfter changes
	// ErrAfter is the number of changes given before Err; the transaction's end is never given.
	ErrAfter int
	// Once makes Err pass after it was returned once.
	Once bool
	// Gate, if set, is waited for before the change with index GateAt is given.
	Gate   <-chan struct{}
	GateAt int
}

// Log stands for a database's log: it outlives the sources that read it.
type Log struct {
	mu      sync.Mutex
	txs     []Tx
	failed  map[int]bool // transactions whose Once error was returned
	acked   int64
	changed chan struct{} // closed and replaced when something was appended
}

// NewLog returns an empty log.
func NewLog() *Log {
	return &Log{failed: map[int]bool{}, changed: make(chan struct{})}
}

// Append commits transactions to the log.
func (l *Log) Append(txs ...Tx) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, tx := range txs {
		for i := range tx.Changes {
			tx.Changes[i].Seq = int64(i)
		}
		l.txs = append(l.txs, tx)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Len returns the number of transactions.
func (l *Log) Len() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.txs))
}

// Acked returns the number of transactions acknowledged.
func (l *Log) Acked() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked
}

// Pos returns the position of transaction i, as it appears in __pos.
func Pos(i int) string { return fmt.Sprintf(`{"lsn":"0/%X"}`, (i+1)*16) }

// Boundary returns the boundary after the first n transactions.
func Boundary(n int) offsets.Object {
	o := offsets.Object{{Name: FieldEnd, Value: int64(n)}}
	if n > 0 {
		o = append(o, offsets.Field{Name: offsets.FieldPos, Value: Pos(n - 1)})
	}
	return o
}

// at returns transaction i if it is there, and a channel that is closed when the log grows.
func (l *Log) at(i int) (*Tx, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i < len(l.txs) {
		return &l.txs[i], nil
	}
	return nil, l.changed
}

// willFail tells that the transaction's error is still to come.
func (l *Log) willFail(i int, tx *Tx) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tx.Err != nil && !l.failed[i]
}

func (l *Log) fails(i int, tx *Tx) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tx.Err == nil || l.failed[i] {
		return false
	}
	l.failed[i] = tx.Once
	return true
}

func (l *Log) ack(n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < l.acked || n > int64(len(l.txs)) {
		return connectors.Refuse(fmt.Errorf("acknowledged %d of %d transactions after %d", n, len(l.txs), l.acked))
	}
	l.acked = n
	return nil
}
