package catalog

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// Everything that changes how values are written, or that ends a session, set otherwise.
var otherwise = []string{
	"client_encoding = 'LATIN1'", "DateStyle = 'German, DMY'", "IntervalStyle = 'iso_8601'", "TimeZone = 'Asia/Tokyo'",
	"extra_float_digits = -10", "bytea_output = 'escape'", "lc_monetary = 'C.UTF-8'", "search_path = 'public'",
	"quote_all_identifiers = on", "standard_conforming_strings = off", "statement_timeout = '7s'", "lock_timeout = '7s'",
	"idle_session_timeout = '7s'", "idle_in_transaction_session_timeout = '7s'", "application_name = 'x'",
}

func TestSettingsOutrankRoleAndDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		cfg := d.role("REPLICATION")
		for _, set := range otherwise {
			d.exec("ALTER ROLE "+cfg.User+" SET "+set, "ALTER DATABASE "+d.cfg.Database+" SET "+set,
				"ALTER ROLE "+cfg.User+" IN DATABASE "+d.cfg.Database+" SET "+set)
		}
		if majorVersion(d.conn.PgConn().ParameterStatus("server_version")) >= 17 {
			d.exec("ALTER ROLE " + cfg.User + " SET transaction_timeout = '7s'")
		}
		const values = `SELECT concat_ws('|', '2024-03-10 01:02:03+00'::timestamptz, '2024-12-31'::date, '1 year 2 days'::interval,
			0.1::float8 + 0.2::float8, '\x00ff'::bytea, 12.5::money, 'naïve €', format_type('information_schema.sql_identifier'::regtype, null), current_setting('search_path'),
			current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('idle_session_timeout'),
			current_setting('idle_in_transaction_session_timeout'), coalesce(current_setting('transaction_timeout', true), '0'), current_setting('application_name'))`
		const want = `2024-03-10 01:02:03+00|2024-12-31|1 year 2 days|0.30000000000000004|\x00ff|$12.50|naïve €|information_schema.sql_identifier`
		const end = `|pg_catalog|0|0|0|0|0|tidemark`
		var got string
		if err := connect(t, d.ctx, cfg).QueryRow(d.ctx, values).Scan(&got); err != nil {
			t.Fatal(err)
		}
		repl, err := ConnectReplication(d.ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = repl.Close(d.ctx) }()
		result, err := repl.Exec(d.ctx, values).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, end) || strings.Contains(got, `"`) {
			t.Errorf("got  %s\nwant %s…%s", got, want, end)
		}
		if r := string(result[0].Rows[0][0]); r != got {
			t.Errorf("replication connection: %s\nSQL connection: %s", r, got)
		}
	})
}

func TestConnectErrors(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		plain := d.role("")
		check := func(change func(*ConnConfig), says ...string) {
			t.Helper()
			cfg := plain
			change(&cfg)
			for _, open := range []func() error{
				func() error { _, err := Connect(d.ctx, cfg); return err },
				func() error { _, err := ConnectReplication(d.ctx, cfg); return err },
			} {
				err := open()
				wantError(t, err, connectors.ClassRefused, says...)
				if err != nil && (strings.Contains(err.Error(), cfg.Password) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("not a sentence, or with the password: %q", err)
				}
			}
		}
		check(func(c *ConnConfig) { c.Password = "wrong-word" }, "password of user", plain.User)
		check(func(c *ConnConfig) { c.User = "nobody_at_all" }, `"nobody_at_all"`)
		check(func(c *ConnConfig) { c.Database = "no_such_db"; c.User, c.Password = d.cfg.User, d.cfg.Password }, `no database "no_such_db"`)
		check(func(c *ConnConfig) { c.SSLMode = "require" }, "does not offer TLS", "sslmode require")
		_, err := ConnectReplication(d.ctx, plain)
		wantError(t, err, connectors.ClassRefused, "REPLICATION", plain.User)
		if conn, err := Connect(d.ctx, plain); err != nil {
			t.Errorf("password with quote and backslash: %v", err)
		} else {
			_ = conn.Close(d.ctx)
		}
	})
}

func TestASCIIDatabaseIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		u := &url.URL{Host: d.cfg.Host + ":" + itoa(d.cfg.Port), User: url.UserPassword(d.cfg.User, d.cfg.Password)}
		ascii := newDatabase(t, u, "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
		_, err := Connect(d.ctx, ascii.cfg)
		wantError(t, err, connectors.ClassRefused, "SQL_ASCII", ascii.cfg.Database)
		_, err = ConnectReplication(d.ctx, ascii.cfg)
		wantError(t, err, connectors.ClassRefused, "SQL_ASCII", ascii.cfg.Database)
	})
}

func TestUnixSocketAndServer(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		cfg := d.cfg
		cfg.Host = strings.TrimSpace(strings.Split(d.value("SELECT current_setting('unix_socket_directories')"), ",")[0])
		if !strings.HasPrefix(cfg.Host, "/") {
			t.Skip("the server has no unix socket")
		}
		conn := connect(t, d.ctx, cfg)
		repl := d.replication()
		bySQL, err := ReadServer(d.ctx, conn, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ReadServer(d.ctx, conn, repl)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		if s.SystemID != bySQL.SystemID || s.Timeline != bySQL.Timeline || s.WALFlush < bySQL.WALFlush || bySQL.WALFlush == 0 {
			t.Errorf("IDENTIFY_SYSTEM %+v\nSQL             %+v", s, bySQL)
		}
		if s.Database != d.cfg.Database || s.DatabaseOID == 0 || s.NextXID == 0 || s.UsedSenders == 0 || !s.Superuser || s.WalSenderTimeout == 0 {
			t.Errorf("%+v", s)
		}
		if h, err := ReadTimelineHistory(d.ctx, repl, 1); h != nil || err != nil {
			t.Errorf("history of timeline 1: %v, %v", h, err)
		}
	})
}
