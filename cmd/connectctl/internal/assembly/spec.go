// Package assembly turns a worker's and a connector's configuration into a pipeline: it knows every
// property, maps connector classes to sources, and builds the Kafka and registry clients.
package assembly

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
	"github.com/tidemark-cdc/tidemark/pipeline/metrics"
)

// Delivery modes of the property delivery.mode.
const (
	ModeTransactional = "transactional"
	ModeIdempotent    = "idempotent"
)

// avroConverters are the converter classes that mean Avro in Confluent's wire format.
var avroConverters = []string{"avro", "io.confluent.connect.avro.AvroConverter", "AvroConverter"}

// WorkerSpec is what a worker file takes.
func WorkerSpec() connectors.Spec {
	spec := kafkaconf.Spec()
	spec = append(spec, kafkaconf.PrefixedSpec(kafkaconf.Producer, kafkaconf.Consumer, kafkaconf.Admin)...)
	spec = append(spec, registrySpec("", true)...)
	spec = append(spec, registrySpec("key.converter.", false)...)
	spec = append(spec, registrySpec("value.converter.", false)...)
	spec = append(spec, converterSpec("key.converter", true)...)
	spec = append(spec, converterSpec("value.converter", true)...)
	return append(spec,
		connectors.Property{Name: "group.id", Type: connectors.TypeString, Default: "tidemark-standalone", Check: oneWord, Doc: "Names this worker group; the first part of every transactional.id."},
		connectors.Property{Name: "offset.storage.topic", Type: connectors.TypeString, Default: "tidemark-offsets", Check: topicName, Doc: "Compacted topic that holds the offsets of all connectors."},
		connectors.Property{Name: "offset.storage.partitions", Type: connectors.TypeInt, Default: "25", Check: between(1, 1000), Doc: "Partitions of the offsets topic where it has to be created."},
		connectors.Property{Name: "offset.storage.replication.factor", Type: connectors.TypeInt, Default: "-1", Check: between(-1, 100), Doc: "Replication factor of the offsets topic where it has to be created; -1 is the broker's default."},
		connectors.Property{Name: "topic.creation.enable", Type: connectors.TypeBoolean, Default: "true", Doc: "Whether connectors may create topics."},
		connectors.Property{Name: "exactly.once.source.support", Type: connectors.TypeString, Default: "enabled", Allowed: []string{"enabled"}, Doc: "Always enabled; a connector's delivery.mode=idempotent is for brokers without transactions."},
		connectors.Property{Name: "metrics.listeners", Type: connectors.TypeList, Check: listeners, Doc: "Where Prometheus may ask for metrics, such as http://127.0.0.1:9404; several separated by commas. Nowhere where absent."},
		connectors.Property{Name: "plugin.path", Type: connectors.TypeString, Doc: "Ignored: connectors are built in."},
		connectors.Property{Name: "offset.flush.interval.ms", Type: connectors.TypeLong, Doc: "Ignored: offsets commit with their records."},
		connectors.Property{Name: "config.storage.topic", Type: connectors.TypeString, Doc: "Ignored by a standalone worker."},
		connectors.Property{Name: "status.storage.topic", Type: connectors.TypeString, Doc: "Ignored by a standalone worker."},
	)
}

// registrySpec is the schema registry's properties under a prefix, as Confluent's converters name them.
func registrySpec(prefix string, defaults bool) connectors.Spec {
	autoRegister := ""
	if defaults {
		autoRegister = "true"
	}
	return connectors.Spec{
		{Name: prefix + "schema.registry.url", Type: connectors.TypeList, Doc: "URL of the schema registry, path prefix included; several separated by commas."},
		{Name: prefix + "basic.auth.credentials.source", Type: connectors.TypeString, Allowed: []string{"USER_INFO", "URL"}, Doc: "USER_INFO takes basic.auth.user.info, URL the user in the URL."},
		{Name: prefix + "basic.auth.user.info", Type: connectors.TypePassword, Doc: "user:password for the schema registry."},
		{Name: prefix + "bearer.auth.token", Type: connectors.TypePassword, Doc: "Bearer token for the schema registry, instead of basic auth."},
		{Name: prefix + "schema.registry.ssl.truststore.location", Type: connectors.TypeString, Doc: "PEM file of the certificates to trust for an https registry; the system's where absent."},
		{Name: prefix + "auto.register.schemas", Type: connectors.TypeBoolean, Default: autoRegister, Doc: "Whether new schemas are registered; with false they must be there."},
	}
}

// commonSpec is what every connector takes besides its engine's properties.
func commonSpec() connectors.Spec {
	spec := connectors.Spec{
		{Name: "name", Type: connectors.TypeString, Required: true, Check: oneWord, Doc: "name the connector; its offsets and transactional.id go by it."},
		{Name: "connector.class", Type: connectors.TypeClass, Required: true, Doc: "say which database: postgres."},
		{Name: "tasks.max", Type: connectors.TypeInt, Default: "1", Check: between(1, 1<<31-1), Doc: "Accepted; a log has one reader."},
		{Name: "topic.prefix", Type: connectors.TypeString, Required: true, Check: topicName, Doc: "name the stream; every topic starts with it."},
		{Name: "delivery.mode", Type: connectors.TypeString, Default: ModeTransactional, Allowed: []string{ModeTransactional, ModeIdempotent}, Doc: "transactional: every change once; idempotent: at least once, for brokers without transactions."},
		{Name: "exactly.once.support", Type: connectors.TypeString, Default: "required", Allowed: []string{"required", "requested"}, Doc: "Accepted; see delivery.mode."},
		{Name: "transaction.boundary", Type: connectors.TypeString, Default: "poll", Allowed: []string{"poll"}, Doc: "Accepted; source transactions are never split."},
		{Name: "transaction.timeout.ms", Type: connectors.TypeLong, Check: between(1000, 1<<31-1), Doc: "Longest time a Kafka transaction may take, in milliseconds; the broker's maximum where absent."},
		{Name: "transaction.max.records", Type: connectors.TypeInt, Default: "50000", Check: between(1, 10_000_000), Doc: "Records after which a Kafka transaction takes no further source transaction."},
		{Name: "transaction.max.bytes", Type: connectors.TypeLong, Default: "67108864", Check: between(1, 1<<40), Doc: "Bytes, likewise."},
		{Name: "transaction.linger.ms", Type: connectors.TypeLong, Default: "5", Check: between(0, 60_000), Doc: "Pause of a loaded stream between a Kafka commit and the next write, in milliseconds."},
		{Name: "memory.budget.bytes", Type: connectors.TypeLong, Default: "33554432", Check: between(8<<20, 1<<40), Doc: "Memory for encoded records between source and broker, in bytes, from 8 MiB."},
		{Name: "compression.type", Type: connectors.TypeString, Default: "none", Allowed: []string{"none", "gzip", "snappy", "lz4", "zstd"}, Doc: "Compression of the records."},
		{Name: "max.request.size", Type: connectors.TypeInt, Default: "1048576", Check: between(1024, 1<<30), Doc: "Largest batch of records sent to a broker, in bytes; a larger record blocks."},
		{Name: "offsets.storage.topic", Type: connectors.TypeString, Check: topicName, Doc: "Offsets topic of this connector alone, instead of the worker's offset.storage.topic."},
		{Name: "tombstones.on.delete", Type: connectors.TypeBoolean, Default: "true", Doc: "Whether a delete is followed by a tombstone."},
		{Name: "deletes.on.delete", Type: connectors.TypeBoolean, Default: "true", Doc: "Whether a delete is published as a record with __op=d; it and the tombstone cannot both be off."},
		{Name: "topic.naming.overrides", Type: connectors.TypeList, Doc: "Topics of single tables: schema.table:topic, separated by commas."},
		{Name: "metadata.field.prefix", Type: connectors.TypeString, Default: "__", Check: fieldPrefix, Doc: "Prefix of the metadata fields of a value, where a column has such a name."},
		{Name: "retry.backoff.max.ms", Type: connectors.TypeLong, Default: "30000", Check: between(100, 3_600_000), Doc: "Longest wait before a new attempt after an error that may pass, in milliseconds."},
		{Name: "topic.creation.*", Type: connectors.TypeString, Doc: "Connect's groups of topic settings (KIP-158)."},
	}
	spec = append(spec, formatSpec()...)
	spec = append(spec, signalSpec()...)
	spec = append(spec, converterSpec("key.converter", false)...)
	spec = append(spec, converterSpec("value.converter", false)...)
	spec = append(spec, kafkaconf.PrefixedSpec("producer.override.", "consumer.override.", "admin.override.")...)
	spec = append(spec, registrySpec("key.converter.", false)...)
	return append(spec, registrySpec("value.converter.", false)...)
}

var (
	topicPattern  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	prefixPattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func topicName(v string) error {
	if !topicPattern.MatchString(v) || v == "." || v == ".." {
		return fmt.Errorf("%q is no topic name: letters, digits, '.', '_' and '-', at most 249", v)
	}
	return nil
}

func fieldPrefix(v string) error {
	if !prefixPattern.MatchString(v) {
		return fmt.Errorf("%q cannot begin an Avro field name: letters, digits and '_', not a digit first", v)
	}
	return nil
}

// listeners checks a list of addresses to listen at.
func listeners(v string) error {
	for _, l := range strings.Split(v, ",") {
		if err := metrics.CheckListener(strings.TrimSpace(l)); err != nil {
			return err
		}
	}
	return nil
}

func oneWord(v string) error {
	if strings.TrimSpace(v) == "" || strings.ContainsAny(v, "\r\n\t/") {
		return fmt.Errorf("%q must be a name without slashes and line ends", v)
	}
	return nil
}

func between(low, high int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%s is not between %d and %d", v, low, high)
		}
		return nil
	}
}
