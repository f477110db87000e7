package catalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
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
	NextXID          uint64 // 64-bit id after the highest of a transaction that is over, as of the read
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
	var s Server
	var timeout, nextXID int64
	var flush string
	err := conn.QueryRow(ctx, serverQuery).Scan(&s.Version, &s.VersionText, &s.InRecovery, &s.WALLevel, &s.Encoding,
		&s.Database, &s.DatabaseOID, &s.User, &timeout, &s.MaxSlots, &s.UsedSlots, &s.MaxSenders, &s.UsedSenders,
		&nextXID, &flush, &s.Superuser, &s.Replication)
	if err != nil {
		return Server{}, fmt.Errorf("read the server's settings: %w", err)
	}
	s.WalSenderTimeout, s.NextXID = time.Duration(timeout)*time.Millisecond, uint64(nextXID)
	if s.WALFlush, err = pgoutput.ParseLSN(flush); err != nil {
		return Server{}, fmt.Errorf("read the server's WAL position: %w", err)
	}
	if repl != nil {
		id, err := pglogrepl.IdentifySystem(ctx, repl)
		if err != nil {
			return Server{}, fmt.Errorf("read the server's identity: %w", err)
		}
		s.SystemID, s.Timeline, s.WALFlush = id.SystemID, id.Timeline, pgoutput.LSN(id.XLogPos)
		return s, nil
	}
	var systemID int64
	if err := conn.QueryRow(ctx, identityQuery).Scan(&systemID, &s.Timeline); err != nil {
		return Server{}, fmt.Errorf("read the server's identity: %w", err)
	}
	s.SystemID = strconv.FormatUint(uint64(systemID), 10)
	return s, nil
}

const serverQuery = `
SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
       current_setting('wal_level'), pg_encoding_to_char(d.encoding), d.datname::text, d.oid, current_user::text,
       (SELECT setting::bigint FROM pg_settings WHERE name = 'wal_sender_timeout'),
       current_setting('max_replication_slots')::int, (SELECT count(*)::int FROM pg_replication_slots),
       current_setting('max_wal_senders')::int, (SELECT count(*)::int FROM pg_stat_replication),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       coalesce(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END, '0/0')::text,
       r.rolsuper, r.rolreplication
  FROM pg_database d, pg_roles r
 WHERE d.datname = current_database() AND r.rolname = current_user`

// The control file's timeline is that of the last checkpoint, which a promotion is ahead of;
// the name of the current WAL file is exact, but not to be had in recovery.
const identityQuery = `
SELECT (SELECT system_identifier FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
            ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END`

// Err returns why the server cannot be streamed from, nil where it can. A standby in recovery
// is waited for; anything else is refused.
func (s Server) Err() error {
	switch {
	case s.Version/10000 < minVersion:
		return connectors.Refuse(fmt.Errorf("the server is version %s; 14 or newer is needed", s.VersionText))
	case s.Encoding == "SQL_ASCII":
		return asciiError(s.Database)
	case s.InRecovery:
		return connectors.WithClass(connectors.ClassWait, errors.New("the server is a standby in recovery; waiting for its promotion, or for its name to lead to the primary"))
	case s.WALLevel != "logical":
		return connectors.Refuse(fmt.Errorf("the server has wal_level %s; set wal_level = logical there and restart it", s.WALLevel))
	}
	return nil
}
