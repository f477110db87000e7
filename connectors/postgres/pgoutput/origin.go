package pgoutput

// Origin says that the transaction was replicated to the server from elsewhere.
type Origin struct {
	CommitLSN LSN // of the commit on the origin server
	Name      string
}

// Decode reads an Origin message: O, Int64 LSN, String name.
func (m *Origin) Decode(src []byte) error {
	r := open(src, KindOrigin)
	m.CommitLSN = LSN(r.uint64("commit LSN"))
	m.Name = string(r.cstring("name"))
	return r.end()
}
