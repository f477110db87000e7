import com.fasterxml.jackson.databind.ObjectMapper;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.config.SerdeConfig;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consume BOOTSTRAP REGISTRY APICURIO TOPIC...: a line of JSON for each committed record. Keys and values are decoded with Avro
 * alone and with Apicurio's deserializer, which must agree; what Avro writes of Java's values again must be the same bytes.
 */
public final class Consume {
  private Consume() {}

  public static void main(String[] args) throws Exception {
    List<String> topics = Arrays.asList(args).subList(3, args.length);
    Wire typed = new Wire(args[1], Values.typed());
    Wire plain = new Wire(args[1], new GenericData());
    ObjectMapper json = new ObjectMapper();
    try (AvroKafkaDeserializer<GenericRecord> keys = apicurio(args[2], true);
        AvroKafkaDeserializer<GenericRecord> values = apicurio(args[2], false);
        Consumer<byte[], byte[]> consumer = consumer(args[0])) {
      for (ConsumerRecord<byte[], byte[]> r : read(consumer, topics)) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("topic", r.topic());
        out.put("partition", r.partition());
        out.put("offset", r.offset());
        out.put("timestamp", r.timestamp());
        out.put("key", Values.row(decode(typed, plain, r.key(), keys.deserialize(r.topic(), r.headers(), r.key()))));
        out.put("value", Values.row(decode(typed, plain, r.value(), values.deserialize(r.topic(), r.headers(), r.value()))));
        List<Object> headers = new ArrayList<>();
        for (Header h : r.headers()) {
          boolean key = h.key().equals("__old_key");
          headers.add(Arrays.asList(h.key(), key ? Values.row(typed.read(h.value())) : new String(h.value(), StandardCharsets.UTF_8)));
        }
        out.put("headers", headers);
        System.out.println(json.writeValueAsString(out));
      }
    }
  }

  private static GenericRecord decode(Wire typed, Wire plain, byte[] bytes, GenericRecord apicurio) {
    GenericRecord record = typed.read(bytes);
    if (bytes == null) {
      if (apicurio != null) {
        throw new IllegalStateException("Apicurio's deserializer makes a record of null");
      }
      return null;
    }
    GenericRecord bare = plain.read(bytes);
    if (!bare.equals(apicurio)) {
      throw new IllegalStateException("Apicurio's deserializer reads " + apicurio + ", Avro " + bare);
    }
    int id = ByteBuffer.wrap(bytes, 1, 4).getInt();
    if (!Arrays.equals(bytes, typed.write(id, record)) || !Arrays.equals(bytes, plain.write(id, bare))) {
      throw new IllegalStateException("Avro writes other bytes of " + record);
    }
    return record;
  }

  private static AvroKafkaDeserializer<GenericRecord> apicurio(String registry, boolean key) {
    AvroKafkaDeserializer<GenericRecord> d = new AvroKafkaDeserializer<>();
    d.configure(Map.of(SerdeConfig.REGISTRY_URL, registry), key);
    return d;
  }

  private static Consumer<byte[], byte[]> consumer(String bootstrap) {
    return new KafkaConsumer<>(
        Map.of(
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap,
            ConsumerConfig.GROUP_ID_CONFIG, "java-" + UUID.randomUUID(),
            ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed",
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest"),
        new ByteArrayDeserializer(),
        new ByteArrayDeserializer());
  }

  /** Reads up to the end of every partition as it is now. */
  private static List<ConsumerRecord<byte[], byte[]>> read(Consumer<byte[], byte[]> consumer, List<String> topics) {
    List<TopicPartition> partitions = new ArrayList<>();
    topics.forEach(t -> consumer.partitionsFor(t).forEach(p -> partitions.add(new TopicPartition(t, p.partition()))));
    Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
    consumer.subscribe(topics);
    List<ConsumerRecord<byte[], byte[]>> out = new ArrayList<>();
    long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
    while (!consumer.assignment().containsAll(partitions) || !partitions.stream().allMatch(p -> consumer.position(p) >= ends.get(p))) {
      consumer.poll(Duration.ofMillis(100)).forEach(out::add);
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("not at the end of " + topics + " after 60 s");
      }
    }
    return out;
  }
}
