package catalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
)

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

// String returns where and as whom, without the password.
func (c ConnConfig) String() string {
	return fmt.Sprintf("%s, database %q, user %q", c.address(), c.Database, c.User)
}

func (c ConnConfig) address() string {
	if strings.HasPrefix(c.Host, "/") {
		return c.Host + "/.s.PGSQL." + strconv.Itoa(int(c.port()))
	}
	return net.JoinHostPort(c.Host, strconv.Itoa(int(c.port())))
}

func (c ConnConfig) port() uint16 {
	if c.Port == 0 {
		return 5432
	}
	return c.Port
}

// Connect opens a connection for SQL. Every connection of this package sends the same settings
// in its startup packet, so that text decodes alike whatever role and database set.
//
// The error is one sentence without the password. Wrong credentials, an unknown database or
// role, a missing pg_hba.conf line, TLS that cannot work, an SQL_ASCII database and a server
// below 14 are refused; a server that is away is waited for.
func Connect(ctx context.Context, cfg ConnConfig) (*pgx.Conn, error) {
	config, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, connectError(cfg, err)
	}
	if err := prepare(ctx, cfg, conn.PgConn()); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// ConnectReplication opens a connection that takes replication commands and SQL (simple
// protocol), with the settings and errors of Connect. A role without REPLICATION is refused.
func ConnectReplication(ctx context.Context, cfg ConnConfig) (*pgconn.PgConn, error) {
	config, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return nil, connectError(cfg, err)
	}
	if err := prepare(ctx, cfg, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// startup returns the settings of every connection. The startup packet outranks what ALTER
// ROLE and ALTER DATABASE set. All exist from version 14 on.
func (c ConnConfig) startup() map[string]string {
	name := c.AppName
	if name == "" {
		name = "tidemark"
	}
	return map[string]string{
		"client_encoding":                     "UTF8",
		"DateStyle":                           "ISO",
		"IntervalStyle":                       "postgres",
		"TimeZone":                            "UTC",
		"extra_float_digits":                  "3",
		"bytea_output":                        "hex",
		"lc_monetary":                         "C",
		"search_path":                         "pg_catalog",
		"quote_all_identifiers":               "off", // format_type obeys it
		"standard_conforming_strings":         "on",
		"statement_timeout":                   "0",
		"lock_timeout":                        "0",
		"idle_session_timeout":                "0",
		"idle_in_transaction_session_timeout": "0",
		"application_name":                    name,
	}
}

// parse makes pgx's configuration. Each value is given, so that the PG* variables and files of
// the environment do not fill any in.
func (c ConnConfig) parse() (*pgx.ConnConfig, error) {
	if c.Host == "" || c.User == "" || c.Database == "" {
		return nil, connectors.Refuse(fmt.Errorf("connect to PostgreSQL: host, user and database must all be set"))
	}
	mode := c.SSLMode
	if mode == "" {
		mode = "prefer"
	}
	var dsn strings.Builder
	for _, kv := range [][2]string{
		{"host", c.Host}, {"port", strconv.Itoa(int(c.port()))}, {"user", c.User}, {"dbname", c.Database},
		{"sslmode", mode}, {"sslrootcert", c.SSLRootCert}, {"sslcert", c.SSLCert}, {"sslkey", c.SSLKey},
		{"passfile", ""}, {"target_session_attrs", "any"},
	} {
		fmt.Fprintf(&dsn, "%s='%s' ", kv[0], strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(kv[1]))
	}
	config, err := pgx.ParseConfig(dsn.String())
	if err != nil {
		var pe *pgconn.ParseConfigError
		if errors.As(err, &pe) && pe.Unwrap() != nil {
			err = pe.Unwrap() // its own text is the whole connection string
		}
		return nil, connectors.Refuse(fmt.Errorf("connect to PostgreSQL at %s: TLS settings (database.sslmode, sslrootcert, sslcert, sslkey) cannot be used: %w", c.address(), err))
	}
	config.Password = c.Password
	config.RuntimeParams = c.startup()
	config.ConnectTimeout = c.ConnectTimeout
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 10 * time.Second
	}
	dialer := &net.Dialer{Timeout: config.ConnectTimeout, KeepAlive: 15 * time.Second, Control: giveUpOnDeadPeers}
	config.DialFunc = dialer.DialContext
	return config, nil
}

// prepare checks what the server told at connect, and switches off the one timeout that older
// versions do not know in a startup packet.
func prepare(ctx context.Context, cfg ConnConfig, conn *pgconn.PgConn) error {
	version := conn.ParameterStatus("server_version")
	major := majorVersion(version)
	if major < minVersion {
		return tooOld(cfg, version)
	}
	if conn.ParameterStatus("server_encoding") == "SQL_ASCII" {
		return asciiError(cfg.Database)
	}
	if major < 17 {
		return nil
	}
	if _, err := conn.Exec(ctx, "SET transaction_timeout = 0").ReadAll(); err != nil {
		return fmt.Errorf("set up the connection to %s: %w", cfg.address(), err)
	}
	return nil
}

const minVersion = 14

// deadPeer is how long a connection may go without a sign of the server's machine; probes go out on a quiet one.
const deadPeer = time.Minute

func majorVersion(version string) int {
	digits := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(version)
	}
	n, _ := strconv.Atoi(version[:digits])
	return n
}
