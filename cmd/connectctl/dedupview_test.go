package main

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/schema/registry"
	"github.com/tidemark-cdc/tidemark/schema/registry/embedded"
)

// TestDedupViewLooksUp takes key, columns and engine from a topic and its schemas.
func TestDedupViewLooksUp(t *testing.T) {
	const topic = "shop.public.orders"
	reg, err := embedded.Open(t.TempDir(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(reg.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := registry.New(registry.Config{URLs: []string{server.URL}, AutoRegister: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	register := func(subject, text string) int {
		id, err := client.Resolve(t.Context(), subject, text)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	meta := `{"name":"__op","type":"string"},{"name":"__pos","type":"string"},{"name":"__seq","type":"long"},{"name":"__gen","type":"long"},{"name":"__ts_us","type":"long"},{"name":"__unavailable","type":{"type":"array","items":"string"}}]}`
	key := register(topic+"-key", `{"type":"record","name":"Key","fields":[{"name":"order_no","type":"long"}]}`)
	register(topic+"-value", `{"type":"record","name":"Value","fields":[{"name":"order_no","type":"long"},{"name":"gr_xf6__xdf_e","type":["null","string"]},`+meta)
	register("shop.public.log-value", `{"type":"record","name":"Value","fields":[{"name":"line","type":["null","string"]},`+meta)
	register("odd-value", `{"type":"record","name":"Value","fields":[{"name":"line","type":["null","string"]}]}`)

	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic, "empty"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	broker := kafka.ListenAddrs()[0]
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	headers := []kgo.RecordHeader{{Key: "__pos", Value: []byte(`{"lsn":"0000002d000000d80194"}`)}, {Key: "__seq", Value: []byte("0")}, {Key: "__gen", Value: []byte("1")}, {Key: "__op", Value: []byte("c")}}
	sent := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("not ours")},
		&kgo.Record{Topic: topic, Key: registry.AppendHeader(nil, key), Value: []byte{0}, Headers: headers})
	if err := sent.FirstErr(); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{topic, "--bootstrap-servers", broker, "--schema-registry-url", server.URL}, exitOK, []string{
			"(sqlserver), loaded into shop_public_orders:", "all generations count, in order", `VIEW "shop_public_orders_current" AS`,
			`PARTITION BY r."order_no" ORDER`, `NTH_VALUE(r."gr_xf6__xdf_e"`, `'größe' = ANY (r."__unavailable")`, "LOWER("}},
		{[]string{topic, "--schema-registry-url", server.URL, "--engine", "mysql", "--fold", "upper", "--table", `raw."a.b"`, "--view", "v", "--generations", "raw.gens"}, exitOK, []string{
			`VIEW "v" AS`, `FROM "raw"."a.b" r`, `r."ORDER_NO"`, `r."__OP"`, "the active generations by raw.gens.", `r."BASELINE"`, "'file'"}},
		{[]string{topic, "--bootstrap-servers", broker, "--key", "a,B c", "--columns", `a,B c,"d,""e"`}, exitOK, []string{`PARTITION BY r."a", r."B c"`, `r."d,""e"`, "LOWER("}},
		{[]string{"any", "--engine", "postgresql", "--key", "id", "--columns", "id,v", "--metadata-prefix", "m_"}, exitOK, []string{`r."m_unavailable"`, "(postgresql)"}},
		{[]string{topic, "--schema-registry-url", server.URL}, exitUsage, []string{"give --engine, or --bootstrap-servers"}},
		{[]string{topic, "--key", "id"}, exitUsage, []string{"--worker FILE), or give --key, --columns and --engine"}},
		{[]string{"any", "--engine", "postgres", "--key", "id", "--columns", "id"}, exitUsage, []string{`--engine "postgres" is not one of postgresql, mysql, sqlserver`}},
		{[]string{"any", "--engine", "mysql", "--key", "no", "--columns", "id"}, exitUsage, []string{"key column no is not among the columns id"}},
		{[]string{"any", "--engine", "mysql", "--key", "id", "--columns", "id", "--table", `"a`}, exitUsage, []string{"--table: name"}},
		{[]string{"empty", "--bootstrap-servers", broker, "--key", "id", "--columns", "id"}, exitFailure, []string{"topic empty holds no record that tells the engine: give --engine"}},
		{[]string{"missing", "--bootstrap-servers", broker, "--key", "id"}, exitFailure, []string{"no such topic at the broker: missing"}},
		{[]string{"shop.public.log", "--schema-registry-url", server.URL, "--engine", "mysql"}, exitFailure, []string{`"shop.public.log-key"`, "a table without a key"}},
		{[]string{"odd", "--schema-registry-url", server.URL, "--engine", "mysql", "--key", "line"}, exitFailure, []string{"topic odd is not in the flat format"}},
	} {
		root, out := newRoot(), &bytes.Buffer{}
		root.SetOut(out)
		root.SetArgs(append([]string{"dedup-view", "--dialect", "postgres"}, c.args...))
		err := root.ExecuteContext(t.Context())
		text := out.String()
		if err != nil {
			text = err.Error()
		}
		if got := report(t.Context(), err); got != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, got, c.code, text)
		}
		for _, s := range c.says {
			if !strings.Contains(text, s) {
				t.Errorf("%v does not say %q:\n%s", c.args, s, text)
			}
		}
		if err != nil && strings.Contains(text, "\n") {
			t.Errorf("%v: not one line: %s", c.args, text)
		}
	}
}
