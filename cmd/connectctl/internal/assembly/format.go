package assembly

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/pipeline/encode/debezium"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/connect"
)

// The formats of the property format.
const (
	FormatFlat     = "flat"
	FormatDebezium = "debezium"
)

// jsonConverters are the converter classes that mean JSON as Kafka Connect writes it.
var jsonConverters = []string{"json", "org.apache.kafka.connect.json.JsonConverter", "JsonConverter"}

const converterDoc = "avro: Avro in Confluent's wire format, json: what Connect's JsonConverter writes, without a registry."

// converterSpec is a side's converter properties, as Connect names them.
func converterSpec(side string, defaults bool) connectors.Spec {
	class, schemas, format, absent := "", "", "", " The worker's where absent."
	if defaults {
		class, schemas, format, absent = "avro", "true", "BASE64", ""
	}
	return connectors.Spec{
		{Name: side, Type: connectors.TypeClass, Default: class, Allowed: append(append([]string{}, avroConverters...), jsonConverters...), Doc: converterDoc + absent},
		{Name: side + ".schemas.enable", Type: connectors.TypeBoolean, Default: schemas, Doc: "JSON: whether every record carries its schema." + absent},
		{Name: side + ".decimal.format", Type: connectors.TypeString, Default: format, Allowed: []string{"BASE64", "NUMERIC"}, Doc: "JSON: how decimals are written: the base64 of their unscaled bytes, or as numbers." + absent},
	}
}

// formatSpec is what says how records look.
func formatSpec() connectors.Spec {
	spec := connectors.Spec{
		{Name: "format", Type: connectors.TypeString, Default: FormatFlat, Allowed: []string{FormatFlat, FormatDebezium}, Doc: "What keys and values hold: the row and its metadata, or the envelope of Debezium's PostgreSQL connector."},
		{Name: "provide.transaction.metadata", Type: connectors.TypeBoolean, Default: "false", Doc: "Whether the end of every source transaction, with counts, is published to the transaction topic; in the format debezium also its begin."},
		{Name: "topic.transaction", Type: connectors.TypeString, Default: "transaction", Check: topicName, Doc: "Name of the transaction topic, after topic.prefix and a dot."},
	}
	return append(spec, debezium.Spec()...)
}

// checkFormat finds properties that do not go with the format.
func checkFormat(cfg connectors.Config) (problems []connectors.Problem) {
	add := func(property, message string) {
		problems = append(problems, connectors.Problem{Property: property, Message: message})
	}
	if cfg.String("format") != "" && !strings.EqualFold(cfg.String("format"), FormatDebezium) {
		for _, p := range debezium.Spec() {
			if cfg.IsSet(p.Name) {
				add(p.Name, "is for format=debezium; set that, or remove the property")
			}
		}
		return problems
	}
	if cfg.IsSet("metadata.field.prefix") {
		add("metadata.field.prefix", "is for format=flat, an envelope of Debezium has no such fields; remove it")
	}
	if strings.EqualFold(cfg.String("array.handling.mode"), "string") {
		add("array.handling.mode", "string is for format=flat; Debezium knows arrays only as arrays; remove it")
	}
	return problems
}

// converter returns a side's converter: the connector's properties go before the worker's.
func (c *Connector) converter(side string) connect.Converter {
	get := func(name string) string {
		if c.Config.IsSet(name) || c.worker == nil {
			return c.Config.String(name)
		}
		return c.worker.Config.String(name)
	}
	var out connect.Converter
	for _, class := range jsonConverters {
		out.JSON = out.JSON || strings.EqualFold(get(side), class)
	}
	out.Schemas = !strings.EqualFold(get(side+".schemas.enable"), "false")
	out.Numeric = strings.EqualFold(get(side+".decimal.format"), "NUMERIC")
	return out
}

// needsRegistry reports whether a side is Avro.
func (c *Connector) needsRegistry() bool {
	return !c.converter("key.converter").JSON || !c.converter("value.converter").JSON
}

// encoder returns the encoder for the connector's format. Without a registry both sides must be JSON.
func (c *Connector) encoder(registry encode.Registry, topics encode.Topics) (*encode.Encoder, error) {
	cfg := c.Config
	e := encode.Config{
		Prefix: cfg.String("topic.prefix"), Server: cfg.String("topic.prefix"), Overrides: c.naming,
		// Both off is a problem told already; validate goes on to find the others.
		Tombstones: cfg.Bool("tombstones.on.delete") || !cfg.Bool("deletes.on.delete"), Deletes: cfg.Bool("deletes.on.delete"),
		MetadataPrefix: cfg.String("metadata.field.prefix"), MaxRequestSize: int(cfg.Int("max.request.size")),
		Key: c.converter("key.converter"), Value: c.converter("value.converter"),
		Transactions: cfg.Bool("provide.transaction.metadata"), TransactionTopic: cfg.String("topic.prefix") + "." + cfg.String("topic.transaction"),
		Registry: registry, Topics: topics,
	}
	var enc *encode.Encoder
	if strings.EqualFold(cfg.String("format"), FormatDebezium) {
		e.Format = c.debezium(e.Key, e.Value, func(namespace, name string) string {
			return enc.Topic(&schema.Table{Namespace: namespace, Name: name})
		})
	}
	enc, err := encode.New(e)
	return enc, err
}

func (c *Connector) debezium(key, value connect.Converter, topic func(namespace, table string) string) *debezium.Format {
	cfg := c.Config
	mode := func(name string) string { return strings.ToLower(cfg.String(name)) }
	return debezium.New(debezium.Config{
		Prefix: cfg.String("topic.prefix"), Database: cfg.String("database.dbname"), Topic: topic, Key: key, Value: value,
		Decimal: mode("decimal.handling.mode"), NonFiniteNull: mode("decimal.nonfinite.handling.mode") == "null",
		Time: mode("time.precision.mode"), Interval: mode("interval.handling.mode"), Binary: mode("binary.handling.mode"), Hstore: mode("hstore.handling.mode"),
		MoneyDigits: int(cfg.Int("money.fraction.digits")), Placeholder: cfg.String("unavailable.value.placeholder"), Unknown: cfg.Bool("include.unknown.datatypes"),
		SchemaNames: mode("schema.name.adjustment.mode"), FieldNames: mode("field.name.adjustment.mode"),
		SkipUnchanged: cfg.Bool("skip.messages.without.change"), PlainHeaders: !cfg.Bool("extended.headers.enabled"), RunID: runID(),
	})
}

// runID is a random UUID of version 4.
func runID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
