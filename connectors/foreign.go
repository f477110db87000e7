package connectors

import "strings"

// elsewhere tells what to do about a property that Kafka Connect or Debezium knows and that no spec
// here has; empty where it is none of theirs. Names end in "*" where they stand for a prefix.
func elsewhere(name string) string {
	for _, f := range []struct{ names, says string }{
		{"database.server.name", "is topic.prefix since Debezium 2.0; set topic.prefix"},
		{"table.whitelist table.blacklist schema.whitelist schema.blacklist column.whitelist column.blacklist",
			"has another name since Debezium 2.0; set the property that ends in include.list or exclude.list"},
		{"database.history.* schema.history.* include.schema.changes include.schema.comments",
			"is not needed: a table's description comes from the log and the catalogue; remove it"},
		{"transforms.* predicates.*", "belongs to single message transforms, of which there are none; remove it"},
		{"transforms predicates",
			"there are no single message transforms; with format=flat values are rows, as after ExtractNewRecordState, and topic.naming.overrides renames topics; remove it"},
		{"errors.tolerance errors.log.* errors.deadletterqueue.* errors.retry.* errors.max.retries event.processing.failure.handling.mode event.converting.failure.handling.mode",
			"no change is skipped: what passes is waited for, what would fail again ends the stream with exit code 3; remove it"},
		{"slot.max.retries slot.retry.delay.ms retriable.restart.connector.wait.ms",
			"what passes is waited for without end, longer and longer up to retry.backoff.max.ms; remove it"},
		{"slot.drop.on.stop", "a slot is never dropped; remove it, and drop the slot by hand where the stream ends for good"},
		{"slot.stream.params publication.refresh.mode xmin.fetch.interval.ms flush.lsn.source lsn.flush.mode lsn.flush.timeout.ms lsn.flush.timeout.action offset.mismatch.strategy",
			"the slot is always acknowledged up to what Kafka has committed, and options of the stream are fixed; remove it"},
		{"database.initial.statements database.tcpKeepAlive database.query.timeout.ms database.sslfactory database.sslpassword", "connections are set up by this program alone; remove it"},
		{"heartbeat.topics.prefix topic.heartbeat.prefix", "heartbeats are written to the offsets topic, not to a topic of their own; remove it"},
		{"max.batch.size max.queue.size max.queue.size.in.bytes poll.interval.ms",
			"transaction.max.records and memory.budget.bytes bound a batch here; remove it"},
		{"producer.override.compression.type", "set compression.type"},
		{"producer.override.max.request.size", "set max.request.size"},
		{"producer.override.transaction.timeout.ms", "set transaction.timeout.ms"},
		{"producer.override.*", "not a property of a connection; batches, acks and retries of the producer are this program's: acks=all, idempotent, in transactions; remove it"},
		{"snapshot.locking.mode snapshot.isolation.mode snapshot.query.mode snapshot.fetch.size snapshot.delay.ms snapshot.lock.timeout.ms snapshot.tables.order.by.row.count snapshot.max.threads.multiplier streaming.delay.ms incremental.snapshot.watermarking.strategy",
			"tables are read in an exported snapshot or in chunks beside the stream, without a lock that writers would meet; remove it"},
		{"snapshot.mode.* snapshot.locking.mode.custom.name snapshot.query.mode.custom.name", "there are no plugins for snapshots; remove it, and see snapshot.mode"},
		{"signal.* read.only", "has no meaning for the signals here; remove it"},
		{"notification.*", "states are in the log of connectctl run; remove it"},
		{"converters post.processors post.processors.*", "there are no plugins; remove it, and see the handling modes for how types are published"},
		{"key.converter.* value.converter.*", "not a property of a converter here; those of the schema registry and of JSON are taken, Avro's other settings are fixed; remove it"},
		{"sanitize.field.names", "names are always made fit for Avro, in a way that can be undone; remove it"},
		{"datatype.propagate.source.type column.propagate.source.type", "every column's type is in its schema as tidemark.type; remove it"},
		{"column.mask.* column.truncate.*", "columns are published whole or not at all; leave the column out with column.exclude.list"},
		{"replica.identity.autoset.values", "tables are never altered; run ALTER TABLE … REPLICA IDENTITY yourself and remove it"},
		{"topic.naming.strategy topic.delimiter topic.cache.size", "topics are <topic.prefix>.<schema>.<table>; rename single ones with topic.naming.overrides, and remove it"},
		{"custom.metric.tags", "metrics have the label connector alone; remove it"},
		{"config.action.reload header.converter header.converter.*", "has no meaning here; remove it"},
		{"rest.* listeners admin.listeners admin.listeners.* access.control.*", "there is no REST interface in this version; remove it"},
		{"offset.storage.file.filename", "offsets are kept in Kafka; set offset.storage.topic"},
		{"offset.storage.* config.storage.* status.storage.* scheduled.rebalance.* rebalance.* session.timeout.ms heartbeat.interval.ms worker.* task.shutdown.graceful.timeout.ms offset.flush.* connector.client.config.override.policy internal.*",
			"belongs to a Kafka Connect worker and has no meaning here; remove it"},
	} {
		for _, known := range strings.Fields(f.names) {
			prefix, open := strings.CutSuffix(known, "*")
			if name == known || open && strings.HasPrefix(name, prefix) {
				return f.says
			}
		}
	}
	return ""
}
