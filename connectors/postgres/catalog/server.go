package catalog

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// Server is what the server said about itself.
type Server struct {
	SystemID         string // decimal, 64 bits unsigned
	Timeline         int32
	Version          int          // server_version_num, such as 180001
	VersionText      string       // server_version
	WALFlush         pgoutput.LSN // end of the flushed (in recovery: replayed) WAL
	InRecovery       bool
	WALLevel         string
	Encoding         string        // of the database
	WalSenderTimeout time.Duration // 0: off
	MaxSlots         int
	UsedSlots        int
	MaxSenders       int
	UsedSenders      int    // our own connections included
	NextXID          uint64 // 64-bit id the next transaction takes, as of the read
	Database         string
	DatabaseOID      uint32
	User             string
	Superuser        bool
	Replication      bool // role attribute; managed services may grant the right without it
}

// ReadServer reads the server's facts over a SQL connection. With a replication connection,
// identity, timeline and WAL end come from IDENTIFY_SYSTEM, which is right on the first
// moment after a promotion too; repl may be nil.
func ReadServer(ctx context.Context, conn *pgx.Conn, repl *pgconn.PgConn) (Server, error) {
	return Server{}, errSoon
}

// Err returns why the server cannot be streamed from, nil where it can. A standby in recovery
// is waited for; anything else is refused.
func (s Server) Err() error { return errSoon }
