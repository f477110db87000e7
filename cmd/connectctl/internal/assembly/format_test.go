package assembly

import (
	"strings"
	"testing"
)

// Properties that do not go with the format are told; JSON on both sides needs no registry, the
// connector's converter goes before the worker's.
func TestFormats(t *testing.T) {
	base := map[string]string{
		"name": "c", "connector.class": "postgres", "topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d", "snapshot.mode": "no_data",
	}
	worker := func(more map[string]string) *Worker {
		w, err := LoadWorkerOver("", more)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	avro := map[string]string{"bootstrap.servers": "localhost:1", "schema.registry.url": "http://localhost:1"}
	json := map[string]string{"bootstrap.servers": "localhost:1", "key.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter": "json", "value.converter.schemas.enable": "false"}
	for name, tc := range map[string]struct {
		worker, connector map[string]string
		want              string // part of the problem; empty: none
		registry          bool
	}{
		"flat":                  {avro, nil, "", true},
		"debezium":              {avro, map[string]string{"format": "debezium", "time.precision.mode": "connect", "provide.transaction.metadata": "true"}, "", true},
		"json":                  {json, map[string]string{"format": "debezium"}, "", false},
		"json key":              {avro, map[string]string{"key.converter": "json"}, "", true},
		"no registry":           {map[string]string{"bootstrap.servers": "localhost:1"}, nil, "schema.registry.url is missing", true},
		"avro over json":        {json, map[string]string{"value.converter": "avro"}, "schema.registry.url is missing", true},
		"mode of the other":     {avro, map[string]string{"time.precision.mode": "connect"}, "time.precision.mode: is for format=debezium", true},
		"metadata of the other": {avro, map[string]string{"format": "debezium", "metadata.field.prefix": "m_"}, "metadata.field.prefix: is for format=flat", true},
		"arrays as text":        {avro, map[string]string{"format": "debezium", "array.handling.mode": "string"}, "array.handling.mode: string is for format=flat", true},
		"unknown format":        {avro, map[string]string{"format": "maxwell"}, `format: "maxwell" is not one of flat, debezium`, true},
	} {
		t.Run(name, func(t *testing.T) {
			raw := map[string]string{}
			for _, m := range []map[string]string{base, tc.connector} {
				for k, v := range m {
					raw[k] = v
				}
			}
			c, problems := parseConnector(worker(tc.worker), "file", raw)
			var texts []string
			for _, p := range problems {
				texts = append(texts, p.String())
			}
			if text := strings.Join(texts, "; "); tc.want == "" && text != "" || !strings.Contains(text, tc.want) {
				t.Errorf("problems %q, want %q", text, tc.want)
			}
			if c != nil && c.needsRegistry() != tc.registry {
				t.Errorf("needs a registry: %v", c.needsRegistry())
			}
		})
	}
}
