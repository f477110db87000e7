import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Table BOOTSTRAP REGISTRY FOLDER TOPIC...: the final state of a KTable over each topic, a line of JSON for each row. */
public final class Table {
  private Table() {}

  public static void main(String[] args) throws Exception {
    List<String> topics = List.of(args).subList(3, args.length);
    Wire wire = new Wire(args[1], Values.typed());
    StreamsBuilder builder = new StreamsBuilder();
    for (String topic : topics) {
      builder.table(
          topic,
          Consumed.with(wire, wire),
          Materialized.<GenericRecord, GenericRecord>as(Stores.inMemoryKeyValueStore(topic))
              .withKeySerde(wire)
              .withValueSerde(wire)
              .withLoggingDisabled()
              .withCachingDisabled());
    }
    Map<TopicPartition, Long> ends = ends(args[0], topics);
    Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, "table-" + UUID.randomUUID());
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    config.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory(Path.of(args[2]), "state").toString());
    config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    config.put("consumer.isolation.level", "read_committed");
    ObjectMapper json = new ObjectMapper();
    try (KafkaStreams streams = new KafkaStreams(builder.build(), config)) {
      streams.start();
      await(streams, ends);
      for (String topic : topics) {
        ReadOnlyKeyValueStore<GenericRecord, GenericRecord> store =
            streams.store(StoreQueryParameters.fromNameAndType(topic, QueryableStoreTypes.keyValueStore()));
        try (KeyValueIterator<GenericRecord, GenericRecord> rows = store.all()) {
          rows.forEachRemaining(r -> print(json, topic, r.key, r.value));
        }
      }
    }
  }

  private static void print(ObjectMapper json, String topic, GenericRecord key, GenericRecord value) {
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("topic", topic);
    out.put("key", Values.row(key));
    out.put("value", Values.row(value));
    try {
      System.out.println(json.writeValueAsString(out));
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  /** The ends of all partitions that hold anything, as a reader of committed records sees them. */
  private static Map<TopicPartition, Long> ends(String bootstrap, List<String> topics) {
    Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "isolation.level", "read_committed");
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      List<TopicPartition> partitions = topics.stream().flatMap(t -> consumer.partitionsFor(t).stream()).map(p -> new TopicPartition(p.topic(), p.partition())).toList();
      Map<TopicPartition, Long> ends = new HashMap<>(consumer.endOffsets(partitions));
      ends.values().removeIf(end -> end == 0);
      return ends;
    }
  }

  /** Waits until the application has committed everything up to the ends. */
  private static void await(KafkaStreams streams, Map<TopicPartition, Long> ends) throws InterruptedException {
    long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
    Map<TopicPartition, Long> done = new HashMap<>();
    while (!ends.entrySet().stream().allMatch(e -> done.getOrDefault(e.getKey(), 0L) >= e.getValue())) {
      if (System.nanoTime() > deadline || streams.state() == KafkaStreams.State.ERROR) {
        throw new IllegalStateException("state " + streams.state() + ", committed " + done + " of " + ends);
      }
      Thread.sleep(50);
      done.clear();
      streams.metadataForLocalThreads().forEach(t -> t.activeTasks().forEach(task -> done.putAll(task.committedOffsets())));
    }
  }
}
