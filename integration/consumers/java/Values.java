import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/** Avro's values as Java's own types, and as the texts PostgreSQL prints. */
final class Values {
  private static final DateTimeFormatter SECONDS = DateTimeFormatter.ofPattern("HH:mm:ss");
  private static final DateTimeFormatter MICROS = DateTimeFormatter.ofPattern("HH:mm:ss.SSSSSS");

  private Values() {}

  /** A model with Avro's conversions of logical types. */
  static GenericData typed() {
    GenericData data = new GenericData();
    data.addLogicalTypeConversion(new Conversions.DecimalConversion());
    data.addLogicalTypeConversion(new Conversions.UUIDConversion());
    data.addLogicalTypeConversion(new TimeConversions.DateConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimeMicrosConversion());
    data.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
    data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMicrosConversion());
    return data;
  }

  /** A record as {field: [Java's type, text]}; null stays null. */
  static Map<String, Object> row(GenericRecord record) {
    if (record == null) {
      return null;
    }
    Map<String, Object> out = new LinkedHashMap<>();
    for (Schema.Field f : record.getSchema().getFields()) {
      Object v = record.get(f.pos());
      out.put(f.name(), v == null ? null : List.of(kind(v), text(v)));
    }
    return out;
  }

  private static String kind(Object v) {
    if (v instanceof ByteBuffer) {
      return "ByteBuffer";
    }
    return v instanceof List ? "List" : v.getClass().getSimpleName();
  }

  private static Object text(Object v) {
    if (v instanceof List<?> list) {
      List<Object> out = new ArrayList<>();
      list.forEach(e -> out.add(e == null ? null : text(e)));
      return out;
    }
    if (v instanceof GenericRecord r) {
      return row(r);
    }
    if (v instanceof BigDecimal d) {
      return d.toPlainString();
    }
    if (v instanceof ByteBuffer b) {
      byte[] bytes = new byte[b.remaining()];
      b.duplicate().get(bytes);
      return "\\x" + HexFormat.of().formatHex(bytes);
    }
    if (v instanceof Instant t) {
      return text(LocalDateTime.ofInstant(t, ZoneOffset.UTC)) + "+00";
    }
    if (v instanceof LocalDateTime t) {
      return t.toLocalDate() + " " + text(t.toLocalTime());
    }
    if (v instanceof LocalTime t) {
      return t.format(t.getNano() == 0 ? SECONDS : MICROS).replaceAll("(\\.\\d*[1-9])0+$", "$1");
    }
    if (v instanceof Float || v instanceof Double) {
      double d = ((Number) v).doubleValue();
      return d == Math.rint(d) && Math.abs(d) < 1e15 ? Long.toString((long) d) : v.toString();
    }
    return v.toString();
  }
}
