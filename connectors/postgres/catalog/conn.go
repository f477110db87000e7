package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var errSoon = errors.New("not written yet")

// ConnConfig says how to reach the database. It holds a secret: print it with String only.
type ConnConfig struct {
	Host           string // name, address, or an absolute path: the directory of a unix socket
	Port           uint16 // 0 means 5432
	User           string
	Password       string
	Database       string
	SSLMode        string        // disable, allow, prefer, require, verify-ca or verify-full; empty means prefer
	SSLRootCert    string        // path, PEM
	SSLCert        string        // path, PEM
	SSLKey         string        // path, PEM
	ConnectTimeout time.Duration // per address; 0 means 10 s
	AppName        string        // application_name; empty means tidemark
}

// Connect opens a connection for SQL. Every connection of this package sends the same settings
// in its startup packet, so that text decodes alike whatever role and database set.
//
// The error is one sentence without the password. Wrong credentials, an unknown database or
// role, a missing pg_hba.conf line, TLS that cannot work, an SQL_ASCII database and a server
// below 14 are refused; a server that is away is waited for.
func Connect(ctx context.Context, cfg ConnConfig) (*pgx.Conn, error) { return nil, errSoon }

// ConnectReplication opens a connection that takes replication commands and SQL (simple
// protocol), with the settings and errors of Connect. A role without REPLICATION is refused.
func ConnectReplication(ctx context.Context, cfg ConnConfig) (*pgconn.PgConn, error) {
	return nil, errSoon
}
