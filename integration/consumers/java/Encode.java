import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;

/** Encode: of each line {"schema": text, "body": hex} from standard input what Avro reads, and the bytes it writes of that. */
public final class Encode {
  private Encode() {}

  public static void main(String[] args) throws Exception {
    GenericData data = Values.typed();
    ObjectMapper json = new ObjectMapper();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode ask = json.readTree(line);
      Schema schema = new Schema.Parser().parse(ask.get("schema").asText());
      GenericRecord record = Wire.decode(data, schema, HexFormat.of().parseHex(ask.get("body").asText()), 0);
      Map<String, Object> out = new LinkedHashMap<>();
      out.put("value", Values.row(record));
      out.put("body", HexFormat.of().formatHex(Wire.encode(data, record)));
      System.out.println(json.writeValueAsString(out));
    }
  }
}
