package harness

import "github.com/tidemark-cdc/tidemark/integration/env"

// Move makes the stream look at its database on another server, which has it with all its slots: what Conn runs, what
// the judge reads and, where the worker is not sent elsewhere, what the files say from now on.
func (s *Stream) Move(to *env.Postgres) {
	s.T.Helper()
	s.o.PG, s.DB = to, &env.Database{Server: to, Name: s.DB.Name}
	s.Conn = s.Connect()
	s.Configure(nil)
}
