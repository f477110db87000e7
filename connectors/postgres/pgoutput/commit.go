package pgoutput

import "fmt"

// Commit closes a transaction.
type Commit struct {
	CommitLSN  LSN   // where the commit record begins: FinalLSN of the Begin
	EndLSN     LSN   // behind the commit record: what to acknowledge
	CommitTime int64 // microseconds since the Unix epoch
}

// Decode reads a Commit message: C, Int8 flags, Int64 commit LSN, Int64 end
// LSN, Int64 time (microseconds since 2000-01-01). No flag is defined; like the
// server's own subscriber, it refuses any.
func (m *Commit) Decode(src []byte) error {
	r := open(src, KindCommit)
	if flags := r.byte("flags"); flags != 0 {
		r.fail(1, "flags", fmt.Sprintf("is 0x%02x, not 0", flags))
	}
	m.CommitLSN = LSN(r.uint64("commit LSN"))
	m.EndLSN = LSN(r.uint64("end LSN"))
	m.CommitTime = r.micros("commit time")
	return r.end()
}
