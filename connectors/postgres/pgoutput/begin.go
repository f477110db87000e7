package pgoutput

// Begin opens a transaction.
type Begin struct {
	FinalLSN   LSN    // where the transaction's commit record begins
	CommitTime int64  // microseconds since the Unix epoch
	Xid        uint32 // transaction id, without its epoch
}

// Decode reads a Begin message: B, Int64 LSN, Int64 time (microseconds since
// 2000-01-01), Int32 xid.
func (m *Begin) Decode(src []byte) error {
	r := open(src, KindBegin)
	m.FinalLSN = LSN(r.uint64("final LSN"))
	m.CommitTime = r.micros("commit time")
	m.Xid = r.uint32("transaction id")
	return r.end()
}
