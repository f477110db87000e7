// Package debezium is the format of Debezium 3.6's PostgreSQL connector: its envelope, keys, source block, headers and
// transaction topic, as Kafka Connect's converters write them, so that a consumer written for it reads ours.
//
// What is compared with a recording of the real connector, and where this differs, is in connectors/postgres.TestDebezium
// and docs/formats.md.
package debezium

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// Version is the release whose format this is; it is published as source.version.
const Version = "3.6.1.Final"

// Config configures the format. Modes have Debezium's names; an empty one is its default.
type Config struct {
	Prefix     string // topic.prefix
	Database   string
	Topic      func(namespace, table string) string // of a table: schemas are named by it
	Key, Value connect.Converter

	Decimal       string // decimal.handling.mode: precise, string, double
	NonFiniteNull bool   // decimal.nonfinite.handling.mode=null
	Time          string // time.precision.mode: adaptive, adaptive_time_microseconds, connect, isostring, microseconds, nanoseconds
	Interval      string // interval.handling.mode: numeric, string
	Binary        string // binary.handling.mode: bytes, base64, base64-url-safe, hex
	Hstore        string // hstore.handling.mode: json, map
	MoneyDigits   int    // money.fraction.digits
	Placeholder   string // unavailable.value.placeholder
	Unknown       bool   // include.unknown.datatypes
	SchemaNames   string // schema.name.adjustment.mode: none, avro, avro_unicode
	FieldNames    string // field.name.adjustment.mode: likewise
	SkipUnchanged bool   // skip.messages.without.change: an update that changed nothing is not published, where the old row tells
	PlainHeaders  bool   // extended.headers.enabled=false: no __debezium.context headers
	RunID         string // header __debezium.context.runId
}

// Spec is what the format takes besides the modes that the source has too.
func Spec() connectors.Spec {
	adjust := []string{"none", "avro", "avro_unicode"}
	return connectors.Spec{
		{Name: "time.precision.mode", Type: connectors.TypeString, Default: "adaptive", Allowed: []string{"adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"}, Doc: "Format debezium: how date, time and timestamp are published."},
		{Name: "money.fraction.digits", Type: connectors.TypeInt, Default: "2", Doc: "Format debezium: digits after the point of money."},
		{Name: "unavailable.value.placeholder", Type: connectors.TypeString, Default: "__debezium_unavailable_value", Doc: "Format debezium: what stands for a value that the log did not carry."},
		{Name: "include.unknown.datatypes", Type: connectors.TypeBoolean, Default: "false", Doc: "Format debezium: whether columns of types without a mapping are published, as the bytes of their text; else they are left out, as Debezium does."},
		{Name: "schema.name.adjustment.mode", Type: connectors.TypeString, Default: "none", Allowed: adjust, Doc: "Format debezium: how names of schemas are made names that Avro takes."},
		{Name: "field.name.adjustment.mode", Type: connectors.TypeString, Default: "none", Allowed: adjust, Doc: "Format debezium: how names of fields are made names that Avro takes."},
		{Name: "skip.messages.without.change", Type: connectors.TypeBoolean, Default: "false", Doc: "Format debezium: whether an update that changes no published column is left out; only REPLICA IDENTITY FULL tells."},
		{Name: "extended.headers.enabled", Type: connectors.TypeBoolean, Default: "true", Doc: "Format debezium: whether records have the headers __debezium.context.*."},
	}
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		v   *string
		def string
	}{
		{&c.Decimal, "precise"}, {&c.Time, "adaptive"}, {&c.Interval, "numeric"}, {&c.Binary, "bytes"}, {&c.Hstore, "json"},
		{&c.Placeholder, "__debezium_unavailable_value"}, {&c.SchemaNames, "none"}, {&c.FieldNames, "none"},
	} {
		*d.v = strings.TrimSpace(*d.v)
		if *d.v == "" {
			*d.v = d.def
		}
	}
	return c
}

// adjust makes a name one that Avro takes, as Debezium's SchemaNameAdjuster and FieldNameSelector do: dots separate
// the parts of a schema's name.
func adjust(mode, name string, dots bool) string {
	if mode == "none" {
		return name
	}
	var b strings.Builder
	first := true
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' && mode == "avro"
		digit := r >= '0' && r <= '9'
		switch {
		case r == '.' && dots:
			b.WriteByte('.')
		case letter || digit && !first:
			b.WriteRune(r)
		case mode == "avro" && digit: // at the start
			b.WriteByte('_')
			b.WriteRune(r)
		case mode == "avro":
			b.WriteByte('_')
		default:
			fmt.Fprintf(&b, "_u%04x", r)
		}
		first = r == '.' && dots
	}
	return b.String()
}

// avroName reports whether Avro takes a name as it is, dots between its parts allowed.
func avroName(name string) bool { return namePattern.MatchString(name) }

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
