package catalog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// SQLSTATEs this package decides on (PostgreSQL: Appendix A).
const (
	codeInvalidPassword    = "28P01"
	codeInvalidAuth        = "28000"
	codeUnknownDatabase    = "3D000"
	codeTooManyConnections = "53300"
	codeLimitExceeded      = "53400"
	codeCannotConnectNow   = "57P03"
	codeProtocolViolation  = "08P01"
	codeUndefinedObject    = "42704"
	codeNoPrivilege        = "42501"
	codeLockTimeout        = "55P03"
	codeDuplicate          = "42710"
	codeUniqueViolation    = "23505"
)

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// connectError turns a connection error into one sentence. The server's own words are quoted
// where they are needed; they never hold the password.
func connectError(cfg ConnConfig, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return serverError(cfg, pg)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("connect to PostgreSQL at %s: %w", cfg.address(), context.Canceled)
	}
	if cfg.SSLMode == "" {
		cfg.SSLMode = "prefer"
	}
	if reason := tlsReason(cfg, err); reason != "" {
		return connectors.Refuse(fmt.Errorf("connect to PostgreSQL at %s with sslmode %s: %s", cfg.address(), cfg.SSLMode, reason))
	}
	return fmt.Errorf("cannot reach PostgreSQL at %s: %s", cfg.address(), networkReason(cfg, err))
}

func networkReason(cfg ConnConfig, err error) string {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("host %q is not known; check database.hostname", cfg.Host)
	case errors.As(err, &dns):
		return fmt.Sprintf("host %q cannot be looked up now: %s", cfg.Host, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused; check that the server runs and listens there (database.hostname, database.port)"
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOENT):
		return "there is no such socket; check that the server runs and its unix_socket_directories"
	case errors.Is(err, os.ErrPermission):
		return "the socket may not be opened by this user"
	case errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &timeout) && timeout.Timeout()):
		return "no answer in time; check the address and the firewalls on the way"
	case errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH):
		return "there is no route to it"
	}
	return "the connection ended before it was set up: " + lastLine(err.Error())
}

// lastLine drops the library's heading and other addresses' failures: a sentence has one line.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

func tlsReason(cfg ConnConfig, err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verify *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	switch {
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return "the server does not offer TLS; switch it on there (ssl = on) or choose another database.sslmode"
	case errors.As(err, &unknown):
		return fmt.Sprintf("the server's certificate is signed by an authority that is not in database.sslrootcert (%q)", cfg.SSLRootCert)
	case errors.As(err, &host):
		return "the server's certificate is for another name: " + host.Error()
	case errors.As(err, &invalid):
		return "the server's certificate is not valid: " + invalid.Error()
	case errors.As(err, &verify):
		return "the server's certificate cannot be verified: " + verify.Err.Error()
	case errors.As(err, &header):
		return "the answer was not TLS; is it a PostgreSQL port?"
	case strings.Contains(err.Error(), "tls: "):
		return "TLS could not be agreed on: " + lastLine(err.Error())
	}
	return ""
}

// serverError explains what the server answered instead of letting us in.
func serverError(cfg ConnConfig, pg *pgconn.PgError) error {
	at := fmt.Sprintf("PostgreSQL at %s", cfg.address())
	switch {
	case pg.Code == codeInvalidPassword:
		return connectors.Refuse(fmt.Errorf("%s does not accept the password of user %q; check database.user and database.password", at, cfg.User))
	case pg.Code == codeUnknownDatabase:
		return connectors.Refuse(fmt.Errorf("%s has no database %q; check database.dbname", at, cfg.Database))
	case pg.Code == codeInvalidAuth && strings.Contains(pg.Message, "pg_hba.conf"):
		return connectors.Refuse(fmt.Errorf("%s lets no one in this way: %s; add a line to its pg_hba.conf", at, pg.Message))
	case pg.Code == codeInvalidAuth:
		return connectors.Refuse(fmt.Errorf("%s does not let user %q in: %s; check database.user", at, cfg.User, pg.Message))
	case pg.Code == codeNoPrivilege && isWalSender(pg):
		return connectors.Refuse(fmt.Errorf("user %q of %s may not stream: it lacks REPLICATION; as a superuser run ALTER ROLE %s REPLICATION (on a managed service grant its replication role)", cfg.User, at, quoteIdent(cfg.User)))
	case pg.Code == codeNoPrivilege:
		return connectors.Refuse(fmt.Errorf("%s does not let user %q connect to database %q: %s", at, cfg.User, cfg.Database, pg.Message))
	case pg.Code == codeUndefinedObject && strings.Contains(pg.Message, "idle_session_timeout"):
		return tooOld(cfg, "13 or older")
	case pg.Code == codeProtocolViolation && strings.Contains(pg.Message, "startup parameter"):
		return connectors.Refuse(fmt.Errorf("%s is a connection pooler (%s); a pooler cannot stream, connect to the server itself", at, pg.Message))
	case pg.Code == codeTooManyConnections && isWalSender(pg):
		return fmt.Errorf("%s has no replication connection free: %s; raise max_wal_senders or end another", at, pg.Message)
	case pg.Code == codeTooManyConnections:
		return fmt.Errorf("%s has no connection free: %s", at, pg.Message)
	case pg.Code == codeCannotConnectNow:
		return fmt.Errorf("%s does not take connections yet: %s", at, pg.Message)
	}
	return fmt.Errorf("%s did not let user %q connect to database %q: %s (SQLSTATE %s)", at, cfg.User, cfg.Database, pg.Message, pg.Code)
}

// isWalSender knows the messages of 14 to 18 about the right and the number of walsenders.
func isWalSender(pg *pgconn.PgError) bool {
	m := strings.ToLower(pg.Message)
	return strings.Contains(m, "walsender") || strings.Contains(m, "wal sender") || strings.Contains(m, "max_wal_senders") || strings.Contains(m, "standby connections")
}

func tooOld(cfg ConnConfig, version string) error {
	return connectors.Refuse(fmt.Errorf("PostgreSQL at %s is version %s; 14 or newer is needed", cfg.address(), version))
}

func asciiError(database string) error {
	return connectors.Refuse(fmt.Errorf("database %q has encoding SQL_ASCII: its text has no known character set and cannot become UTF-8; move it to a database with ENCODING 'UTF8'", database))
}

func quoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
