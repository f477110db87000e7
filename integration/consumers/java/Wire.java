import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serializer;

/** Confluent's wire format with nothing but Avro: a zero, the schema's id, the body. */
final class Wire implements Serde<GenericRecord> {
  private final String registry;
  private final GenericData data;
  private final HttpClient http = HttpClient.newHttpClient();
  private final Map<Integer, Schema> byId = new ConcurrentHashMap<>();
  private final Map<Schema, Integer> ids = new ConcurrentHashMap<>();

  Wire(String registry, GenericData data) {
    this.registry = registry;
    this.data = data;
  }

  @Override
  public Deserializer<GenericRecord> deserializer() {
    return (topic, bytes) -> read(bytes);
  }

  @Override
  public Serializer<GenericRecord> serializer() {
    return (topic, record) -> record == null ? null : write(ids.get(record.getSchema()), record);
  }

  GenericRecord read(byte[] bytes) {
    if (bytes == null) {
      return null;
    }
    ByteBuffer frame = ByteBuffer.wrap(bytes);
    if (frame.get() != 0) {
      throw new IllegalArgumentException("not in wire format");
    }
    Schema schema = byId.computeIfAbsent(frame.getInt(), this::fetch);
    try {
      return decode(data, schema, bytes, frame.position());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  byte[] write(int id, GenericRecord record) {
    byte[] body;
    try {
      body = encode(data, record);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return ByteBuffer.allocate(5 + body.length).put((byte) 0).putInt(id).put(body).array();
  }

  static GenericRecord decode(GenericData data, Schema schema, byte[] bytes, int from) throws IOException {
    BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(bytes, from, bytes.length - from, null);
    GenericRecord record = new GenericDatumReader<GenericRecord>(schema, schema, data).read(null, decoder);
    if (!decoder.isEnd()) {
      throw new IOException("bytes are left after the record");
    }
    return record;
  }

  static byte[] encode(GenericData data, GenericRecord record) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
    new GenericDatumWriter<GenericRecord>(record.getSchema(), data).write(record, encoder);
    encoder.flush();
    return out.toByteArray();
  }

  private Schema fetch(int id) {
    try {
      HttpRequest request = HttpRequest.newBuilder(URI.create(registry + "/schemas/ids/" + id)).build();
      HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
      if (answer.statusCode() != 200) {
        throw new IOException("schema " + id + ": " + answer.body());
      }
      Schema schema = new Schema.Parser().parse(new ObjectMapper().readTree(answer.body()).get("schema").asText());
      ids.put(schema, id);
      return schema;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
