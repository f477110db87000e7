package env

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
)

func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func topic(t *testing.T, k *Kafka) string {
	t.Helper()
	name := Unique("env.")
	if _, err := kadm.NewClient(client(t, kgo.SeedBrokers(k.Bootstrap()))).CreateTopic(t.Context(), 1, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func produce(ctx context.Context, c *kgo.Client, topic string) error {
	return c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr()
}

func TestKafkaListeners(t *testing.T) {
	t.Parallel()
	k := servers.Kafka(t)
	name := topic(t, k)
	user := func(u string) []sasl.Mechanism {
		return []sasl.Mechanism{plain.Auth{User: u, Pass: u}.AsMechanism(), scram.Auth{User: u, Pass: u}.AsSha256Mechanism()}
	}
	for _, c := range []struct {
		name string
		opts []kgo.Opt
		want error
	}{
		{"plaintext", []kgo.Opt{kgo.SeedBrokers(k.Bootstrap())}, nil},
		{"admin by PLAIN", []kgo.Opt{kgo.SeedBrokers(k.SASLBootstrap()), kgo.SASL(user(AdminUser)[0])}, nil},
		{"admin by SCRAM", []kgo.Opt{kgo.SeedBrokers(k.SASLBootstrap()), kgo.SASL(user(AdminUser)[1])}, nil},
		{"norights by PLAIN", []kgo.Opt{kgo.SeedBrokers(k.SASLBootstrap()), kgo.SASL(user(NoRightsUser)[0])}, kerr.TopicAuthorizationFailed},
		{"norights by SCRAM", []kgo.Opt{kgo.SeedBrokers(k.SASLBootstrap()), kgo.SASL(user(NoRightsUser)[1])}, kerr.TopicAuthorizationFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := produce(t.Context(), client(t, c.opts...), name); !errors.Is(err, c.want) {
				t.Errorf("produce: %v, want %v", err, c.want)
			}
		})
	}
	missing := client(t, kgo.SeedBrokers(k.Bootstrap()), kgo.UnknownTopicRetries(0))
	if err := produce(t.Context(), missing, Unique("missing.")); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("produce to a topic nobody created: %v", err)
	}
}

func TestKafkaThroughTheProxy(t *testing.T) {
	t.Parallel()
	k := servers.Kafka(t)
	name := topic(t, k)
	p := k.Proxy(t)
	c := client(t, kgo.SeedBrokers(k.ProxyBootstrap()), kgo.RecordDeliveryTimeout(time.Minute))
	if err := produce(t.Context(), c, name); err != nil {
		t.Fatal(err)
	}
	if p.Connections() < 2 {
		t.Errorf("%d connections through the proxy: the broker sent the client round it", p.Connections())
	}
	p.Cut()
	done := make(chan error, 1)
	c.Produce(t.Context(), &kgo.Record{Topic: name}, func(_ *kgo.Record, err error) { done <- err })
	select {
	case err := <-done:
		t.Fatalf("produced through a cut: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestKafkaFindsPortsIsKilledAndComesBack(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := alone(t)
	e.ports = firstTaken(t, kafkaSASL+1)
	k := e.NewKafka(t, KafkaOptions{Settings: map[string]string{"message.max.bytes": "2000"}})
	name := topic(t, k)
	c := client(t, kgo.SeedBrokers(k.Bootstrap()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := k.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := produce(ctx, c, name); err != nil {
		t.Error(err)
	}
	big := c.ProduceSync(ctx, &kgo.Record{Topic: name, Value: bytes.Repeat([]byte("x"), 1<<20-1000)})
	if err := big.FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("record over the limit: %v", err)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestRegistryFindsPortsAndAnswers(t *testing.T) {
	t.Parallel()
	e := alone(t)
	e.ports = firstTaken(t, 1)
	r := e.Registry(t)
	p, err := proxy.New("127.0.0.1:0", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	for _, root := range []string{r.URL(), r.URLAt(p.Addr())} {
		if code, body := get(t, root+"/subjects"); code != http.StatusOK || !strings.HasPrefix(body, "[") {
			t.Errorf("%s/subjects: %d %s", root, code, body)
		}
		if _, body := get(t, root+"/config"); !strings.Contains(body, "BACKWARD") {
			t.Errorf("%s/config: %s", root, body)
		}
	}
}
