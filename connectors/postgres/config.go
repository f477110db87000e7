package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
)

// The properties, named as Debezium names them where the meaning is the same.
const (
	propHost            = "database.hostname"
	propPort            = "database.port"
	propUser            = "database.user"
	propPassword        = "database.password"
	propDatabase        = "database.dbname"
	propSSLMode         = "database.sslmode"
	propSSLRootCert     = "database.sslrootcert"
	propSSLCert         = "database.sslcert"
	propSSLKey          = "database.sslkey"
	propPlugin          = "plugin.name"
	propSlot            = "slot.name"
	propFailover        = "slot.failover"
	propPublication     = "publication.name"
	propAutocreate      = "publication.autocreate.mode"
	propViaRoot         = "publish.via.partition.root"
	propSchemaInclude   = "schema.include.list"
	propSchemaExclude   = "schema.exclude.list"
	propTableInclude    = "table.include.list"
	propTableExclude    = "table.exclude.list"
	propColumnInclude   = "column.include.list"
	propColumnExclude   = "column.exclude.list"
	propKeyColumns      = "message.key.columns"
	propMessageInclude  = "message.prefix.include.list"
	propMessageExclude  = "message.prefix.exclude.list"
	propSkipped         = "skipped.operations"
	propUnavailable     = "unavailable.value.handling"
	propMaxMessage      = "log.message.max.bytes"
	propHeartbeat       = "heartbeat.interval.ms"
	propHeartbeatAction = "heartbeat.action.query"
	propStatusInterval  = "status.update.interval.ms"
	propDecimal         = "decimal.handling.mode"
	propNonFinite       = "decimal.nonfinite.handling.mode"
	propInterval        = "interval.handling.mode"
	propBinary          = "binary.handling.mode"
	propHstore          = "hstore.handling.mode"
	propArray           = "array.handling.mode"
	propUnknownLabels   = "enum.unknown.label.handling.mode"
)

const listDoc = " Comma-separated regular expressions, anchored, without regard to case; a comma in one is written \\,."

// Spec returns the source's properties.
func Spec() connectors.Spec {
	str, boolean, long := connectors.TypeString, connectors.TypeBoolean, connectors.TypeLong
	const list = listDoc
	return slices.Concat(connectors.Spec{
		{Name: propHost, Type: str, Required: true, Check: checkHost, Doc: "Host name or address of the server, or the directory of its unix socket."},
		{Name: propPort, Type: connectors.TypeInt, Default: "5432", Check: checkRange(1, 65535), Doc: "Port of the server."},
		{Name: propUser, Type: str, Required: true, Doc: "Role to connect as; it needs the REPLICATION attribute."},
		{Name: propPassword, Type: connectors.TypePassword, Doc: "Password of the role."},
		{Name: propDatabase, Type: str, Required: true, Doc: "Database to capture."},
		{Name: propSSLMode, Type: str, Default: "prefer", Allowed: []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}, Doc: "How TLS is used, as with libpq."},
		{Name: propSSLRootCert, Type: str, Doc: "File with the root certificates, PEM."},
		{Name: propSSLCert, Type: str, Doc: "File with the client certificate, PEM."},
		{Name: propSSLKey, Type: str, Doc: "File with the client key, PEM."},
		{Name: propPlugin, Type: str, Default: "pgoutput", Allowed: []string{"pgoutput"}, Doc: "Output plugin of the slot; only pgoutput."},
		{Name: propSlot, Type: str, Default: "tidemark", Check: checkSlot, Doc: "Name of the logical replication slot, one for each connector."},
		{Name: propFailover, Type: boolean, Default: "false", Doc: "Whether a slot to be created is synchronized to standbys (PostgreSQL 17 and later)."},
		{Name: propPublication, Type: str, Default: "tidemark", Check: checkName, Doc: "Name of the publication."},
		{Name: propAutocreate, Type: str, Default: "all_tables", Allowed: []string{"all_tables", "filtered", "disabled", "no_tables"}, Doc: "What may be done to the publication: created for all tables, created and extended for the captured tables, nothing, created empty."},
		{Name: propViaRoot, Type: boolean, Default: "false", Doc: "Whether a publication to be created publishes partitions as their root table."},
		{Name: propSchemaInclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Schemas to capture; all where absent." + list},
		{Name: propSchemaExclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Schemas not to capture." + list},
		{Name: propTableInclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Tables to capture, as schema.table; all where absent." + list},
		{Name: propTableExclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Tables not to capture, as schema.table." + list},
		{Name: propColumnInclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Columns to capture, as schema.table.column; all where absent." + list},
		{Name: propColumnExclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Columns not to capture, as schema.table.column." + list},
		{Name: propKeyColumns, Type: str, Check: checkKeyRules, Doc: "Key columns of tables, in place of the primary key: schema.table:column,column;… The table is a regular expression."},
		{Name: propMessageInclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Prefixes of logical messages to publish; all where absent." + list},
		{Name: propMessageExclude, Type: connectors.TypeList, Check: checkPatterns, Doc: "Prefixes of logical messages not to publish; .* publishes none." + list},
		{Name: propSkipped, Type: connectors.TypeList, Check: checkOperations, Doc: "Operations not to publish: c, u, d, t (TRUNCATE), separated by commas, or none. Where absent rows are all published and a TRUNCATE of a captured table blocks; where present without t it is published."},
		{Name: propUnavailable, Type: str, Default: "mark", Allowed: []string{"mark", "reselect"}, Doc: "What becomes of large values that an update left alone and the log does not carry: named in __unavailable, or read from the table by key when the change is read. What is read may be newer than the change: not commit-consistent. The role needs SELECT on the tables."},
		{Name: propMaxMessage, Type: long, Default: "268435456", Check: checkRange(1<<20, maxMessage), Doc: "Largest message of the log that is taken into memory, in bytes: a change with its old row, or a logical message. A larger one of a captured table blocks."},
		{Name: propHeartbeat, Type: long, Default: "10000", Check: checkRange(100, 3_600_000), Doc: "How often an idle stream records and acknowledges how far it has read, in milliseconds."},
		{Name: propHeartbeatAction, Type: str, Doc: "SQL to run at every heartbeat; none where absent, and none is needed."},
		{Name: propStatusInterval, Type: long, Default: "10000", Check: checkRange(100, 10_000), Doc: "Longest time between status updates to the server, in milliseconds; a third of wal_sender_timeout where that is less."},
	}, snapshotSpec(), connectors.Spec{
		{Name: propDecimal, Type: str, Default: "precise", Allowed: []string{"precise", "string", "double"}, Doc: "How numeric and money are published: as Avro decimal, as text, as double."},
		{Name: propNonFinite, Type: str, Default: "fail", Allowed: []string{"fail", "null"}, Doc: "What becomes of NaN where a decimal would hold the number: the stream blocks, or null is published and counted; null in a key blocks."},
		{Name: propInterval, Type: str, Allowed: []string{"numeric", "string"}, Doc: "How interval is published: as microseconds, as ISO 8601; in the flat format as PostgreSQL's text where absent."},
		{Name: propBinary, Type: str, Default: "bytes", Allowed: []string{"bytes", "base64", "base64-url-safe", "hex"}, Doc: "How bytea, geometry and geography are published: as bytes, or as text in that encoding."},
		{Name: propHstore, Type: str, Default: "json", Allowed: []string{"json", "map"}, Doc: "How hstore is published: as the text of a JSON object, as a map."},
		{Name: propArray, Type: str, Default: "array", Allowed: []string{"array", "string"}, Doc: "How arrays are published: as arrays, which have one dimension and no lower bound, or as PostgreSQL's text, which keeps both."},
		{Name: propUnknownLabels, Type: str, Default: "fail", Allowed: []string{"fail", "accept"}, Doc: "What becomes of an enum's label that the catalogue does not have (renamed since): the stream blocks, or it is published."},
	})
}

var slotName = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

func checkSlot(v string) error {
	if !slotName.MatchString(v) {
		return fmt.Errorf("%q is not a slot name: 1 to 63 of a-z, 0-9 and _", v)
	}
	return nil
}

func checkName(v string) error {
	if v == "" || len(v) > 63 || strings.ContainsRune(v, 0) {
		return fmt.Errorf("%q is not a name: 1 to 63 bytes", v)
	}
	return nil
}

// checkHost does not repeat the value: a URL may hold a password.
func checkHost(v string) error {
	if strings.Contains(v, "@") || strings.Contains(v, "://") {
		return errors.New("is a URL or holds a login; name only the host, the rest has properties of its own")
	}
	return nil
}

func checkRange(low, high int64) func(string) error {
	return func(v string) error {
		if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < low || n > high {
			return fmt.Errorf("%q is not between %d and %d", v, low, high)
		}
		return nil
	}
}

func checkPatterns(v string) error {
	_, err := parsePatterns(v)
	return err
}

func checkKeyRules(v string) error {
	_, err := parseKeyRules(v)
	return err
}

// settings are the configuration as the source uses it.
type settings struct {
	conn        catalog.ConnConfig
	slot        string
	failover    bool
	publication catalog.PublicationConfig
	filter      *filter
	rules       rules
	reselect    bool
	maxMessage  int // largest message of the log, in bytes
	values      values.Options
	newLabels   bool // labels of enums that the catalogue does not have are published
	heartbeat   time.Duration
	action      string
	snapshot    snapshots
	status      time.Duration
}

func newSettings(cfg connectors.Config) (settings, error) {
	f, err := newFilter(cfg)
	if err != nil {
		return settings{}, connectors.Refuse(err)
	}
	r, err := newRules(cfg)
	if err != nil {
		return settings{}, connectors.Refuse(err)
	}
	for _, pair := range [][2]string{{propSchemaInclude, propSchemaExclude}, {propTableInclude, propTableExclude}, {propColumnInclude, propColumnExclude}, {propMessageInclude, propMessageExclude}} {
		if cfg.String(pair[0]) != "" && cfg.String(pair[1]) != "" {
			return settings{}, connectors.Refuse(fmt.Errorf("%s and %s exclude each other; remove one", pair[0], pair[1]))
		}
	}
	snap, err := newSnapshots(cfg)
	if err != nil {
		return settings{}, err
	}
	return settings{
		conn: catalog.ConnConfig{
			Host: cfg.String(propHost), Port: uint16(cfg.Int(propPort)), User: cfg.String(propUser),
			Password: cfg.String(propPassword), Database: cfg.String(propDatabase), SSLMode: strings.ToLower(cfg.String(propSSLMode)),
			SSLRootCert: cfg.String(propSSLRootCert), SSLCert: cfg.String(propSSLCert), SSLKey: cfg.String(propSSLKey),
		},
		slot: cfg.String(propSlot), failover: cfg.Bool(propFailover),
		publication: catalog.PublicationConfig{
			Name: cfg.String(propPublication), Mode: catalog.PublicationMode(strings.ToLower(cfg.String(propAutocreate))),
			ViaPartitionRoot: cfg.Bool(propViaRoot),
		},
		filter: f, rules: r, snapshot: snap, maxMessage: int(cfg.Int(propMaxMessage)), reselect: strings.EqualFold(cfg.String(propUnavailable), "reselect"), values: valueOptions(cfg), newLabels: strings.EqualFold(cfg.String(propUnknownLabels), "accept"),
		heartbeat: cfg.Millis(propHeartbeat), action: cfg.String(propHeartbeatAction), status: cfg.Millis(propStatusInterval),
	}, nil
}

func valueOptions(cfg connectors.Config) values.Options {
	mode := func(property string) string { return strings.ToLower(cfg.String(property)) }
	return values.Options{
		Decimal: values.DecimalMode(mode(propDecimal)), NonFiniteNull: mode(propNonFinite) == "null",
		Interval: values.IntervalMode(mode(propInterval)), Binary: values.BinaryMode(mode(propBinary)),
		Hstore: values.HstoreMode(mode(propHstore)), Array: values.ArrayMode(mode(propArray)),
	}
}
