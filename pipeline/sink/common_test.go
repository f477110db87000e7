package sink

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/offsets/kafkastore"
	"github.com/tidemark-cdc/tidemark/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a broker with a data topic of two partitions and an offsets topic of the test's own.
type cluster struct {
	t       testing.TB
	fake    *kfake.Cluster // nil for the real broker
	opts    []kgo.Opt
	adm     *kadm.Client
	prefix  string
	topic   string
	offsets string
}

func newCluster(t testing.TB, fake *kfake.Cluster, seeds []string) *cluster {
	opts := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(50 * time.Millisecond)}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	prefix := fmt.Sprintf("sink-%s-%d", strings.NewReplacer("/", "-", "#", "-", "=", "-", ",", "-").Replace(t.Name()), time.Now().UnixNano())
	c := &cluster{t: t, fake: fake, opts: opts, adm: kadm.NewClient(cl), prefix: prefix, topic: prefix + ".data", offsets: prefix + ".offsets"}
	t.Cleanup(func() {
		if fake == nil {
			_, _ = c.adm.DeleteTopics(context.Background(), c.topic, c.offsets)
		}
		cl.Close()
		if fake != nil {
			fake.Close()
		}
	})
	c.create(c.topic, 2, nil)
	c.create(c.offsets, 5, map[string]*string{"cleanup.policy": kadm.StringPtr("compact"), "retention.ms": kadm.StringPtr("-1")})
	return c
}

func (c *cluster) create(topic string, partitions int32, configs map[string]*string) {
	c.t.Helper()
	if _, err := c.adm.CreateTopic(context.Background(), partitions, 1, configs, topic); err != nil {
		c.t.Fatal(err)
	}
	until(c.t, func() bool {
		ends, err := c.adm.ListEndOffsets(context.Background(), topic)
		return err == nil && ends.Error() == nil && len(ends[topic]) == int(partitions)
	})
}

func fakeCluster(t testing.TB, opts ...kfake.Opt) *cluster {
	f, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "86400000"}))...)
	if err != nil {
		t.Fatal(err)
	}
	return newCluster(t, f, f.ListenAddrs())
}

func realCluster(t testing.TB) *cluster {
	seeds := os.Getenv("TIDEMARK_TEST_KAFKA")
	if seeds == "" {
		t.Skip("TIDEMARK_TEST_KAFKA (bootstrap servers of a real broker) is not set")
	}
	return newCluster(t, nil, strings.Split(seeds, ","))
}

func (c *cluster) config() Config {
	return Config{Opts: c.opts, TransactionalID: c.prefix, OffsetsTopic: c.offsets, Connector: "c1", TransactionTimeout: 30 * time.Second}
}

func (c *cluster) sink(cfg Config) *Sink {
	c.t.Helper()
	s, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = s.Close(context.Background()) })
	if err := s.Fence(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// chunk holds records with the values, alternating over the partitions.
func (c *cluster) chunk(values ...string) *pipeline.Chunk {
	ch := &pipeline.Chunk{}
	for i, v := range values {
		ch.Buf = append(ch.Buf, v...)
		ch.Records = append(ch.Records, pipeline.Record{
			Topic: c.topic, Partition: int32(i % 2), Key: []byte("k"), Value: []byte(v), Timestamp: 1_700_000_000_123,
			Headers: []pipeline.Header{{Key: "__gen", Value: []byte("1")}, {Key: "__seq", Value: []byte(fmt.Sprint(i))}},
		})
	}
	return ch
}

func position(n int64) offsets.Entry {
	return offsets.Entry{Partition: offsets.StreamPartition("s"), Offset: offsets.Object{{Name: "n", Value: n}}}
}

// committed returns what a read_committed consumer sees of the data topic: the values by partition.
func (c *cluster) committed() map[int32][]*kgo.Record {
	c.t.Helper()
	ranges, err := kafkastore.Ranges(context.Background(), c.adm, c.topic)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out := map[int32][]*kgo.Record{}
	err = kafkastore.Read(ctx, c.opts, ranges, func(r *kgo.Record) { out[r.Partition] = append(out[r.Partition], r) },
		func(ctx context.Context, _ map[string]map[int32]kafkastore.Range) error { return ctx.Err() })
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func (c *cluster) expect(want string) {
	c.t.Helper()
	var values []string
	records := c.committed()
	for p := range int32(2) {
		for _, r := range records[p] {
			values = append(values, string(r.Value))
		}
	}
	if got := strings.Join(values, " "); got != want {
		c.t.Errorf("a read_committed consumer sees %q, want %q", got, want)
	}
}

// stored returns the committed offset.
func (c *cluster) stored() int64 {
	c.t.Helper()
	entries, err := kafkastore.New(kafkastore.Config{Topic: c.offsets, Connector: "c1", Opts: c.opts, TransactionTimeout: 30 * time.Second}).Load(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	o, _ := offsets.Find(entries, offsets.StreamPartition("s"))
	n, _ := o.Int("n")
	return n
}

func (c *cluster) publish(s *Sink, n int64, values ...string) {
	c.t.Helper()
	if err := s.Write(context.Background(), c.chunk(values...)); err != nil {
		c.t.Fatal(err)
	}
	if err := s.Commit(context.Background(), position(n)); err != nil {
		c.t.Fatal(err)
	}
}

func wantError(t testing.TB, err error, class connectors.Class, parts ...string) {
	t.Helper()
	if err == nil || connectors.ClassOf(err) != class {
		t.Fatalf("got %v (class %v), want class %v", err, connectors.ClassOf(err), class)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
	t.Log(err)
}

func until(t testing.TB, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the awaited did not happen within 40 s")
		}
	}
}
