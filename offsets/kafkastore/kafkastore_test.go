package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is a real broker's client and a topic of the test's own.
type broker struct {
	t     *testing.T
	cl    *kgo.Client
	opts  []kgo.Opt
	topic string
}

func realBroker(t *testing.T) *broker {
	seeds := os.Getenv("TIDEMARK_TEST_KAFKA")
	if seeds == "" {
		t.Skip("TIDEMARK_TEST_KAFKA (bootstrap servers of a real broker) is not set")
	}
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(seeds, ",")...), kgo.MetadataMinAge(100 * time.Millisecond)}
	cl, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, cl: cl, opts: opts, topic: fmt.Sprintf("kafkastore-%s-%d", t.Name(), time.Now().UnixNano())}
	t.Cleanup(func() {
		_, _ = kadm.NewClient(cl).DeleteTopics(context.Background(), b.topic)
		cl.Close()
	})
	return b
}

func (b *broker) store(cfg Config) *Store {
	cfg.Topic, cfg.Connector, cfg.Opts = b.topic, "c1", b.opts
	s := New(cfg)
	if w, err := s.Ensure(b.t.Context()); err != nil || len(w) > 0 {
		b.t.Fatalf("ensure: %v %v", w, err)
	}
	return s
}

func (b *broker) producer(id string) *kgo.Client {
	cl, err := kgo.NewClient(append(b.opts[:len(b.opts):len(b.opts)], kgo.TransactionalID(b.topic+id), kgo.TransactionTimeout(20*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

func (b *broker) entry(connector string, n int64) *kgo.Record {
	key := offsets.AppendKey(nil, connector, offsets.StreamPartition("s"))
	return &kgo.Record{Topic: b.topic, Key: key, Value: offsets.Object{{Name: "n", Value: n}}.Value(), Partition: 3}
}

// produce writes records in a transaction that is left open.
func (b *broker) produce(cl *kgo.Client, rs ...*kgo.Record) {
	b.t.Helper()
	if err := errors.Join(cl.BeginTransaction(), cl.ProduceSync(b.t.Context(), rs...).FirstErr()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) end(cl *kgo.Client, how kgo.TransactionEndTry) {
	b.t.Helper()
	if err := cl.EndTransaction(b.t.Context(), how); err != nil {
		b.t.Fatal(err)
	}
}

func load(t *testing.T, s *Store) int64 {
	t.Helper()
	entries, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, _ := offsets.Find(entries, offsets.StreamPartition("s"))
	n, _ := o.Int("n")
	return n
}

func TestEnsureCreatesAndChecks(t *testing.T) {
	b := realBroker(t)
	s := b.store(Config{})
	adm := kadm.NewClient(b.cl)
	topics, err := adm.ListTopics(t.Context(), b.topic)
	if err != nil || len(topics[b.topic].Partitions) != Partitions {
		t.Fatalf("got %v, %v", topics[b.topic], err)
	}
	if w, err := s.Ensure(t.Context()); err != nil || len(w) > 0 {
		t.Errorf("our own topic is found faulty: %v %v", w, err)
	}
	set := func(k, v string) {
		if _, err := adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: k, Value: &v}}, b.topic); err != nil {
			t.Fatal(err)
		}
	}
	set("segment.bytes", "1073741824")
	if w, err := s.Ensure(t.Context()); err != nil || len(w) != 1 || !strings.Contains(w[0], "segment.bytes=1073741824") {
		t.Errorf("large segments: %v %v", w, err)
	}
	set("cleanup.policy", "compact,delete")
	if _, err := s.Ensure(t.Context()); connectors.ClassOf(err) != connectors.ClassRefused || !strings.Contains(err.Error(), b.topic) {
		t.Errorf("a deleting policy: %v", err)
	}
}

func TestLoadKeepsNewestOfOurs(t *testing.T) {
	b := realBroker(t)
	var warned []string
	s := b.store(Config{Warn: func(w string) { warned = append(warned, w) }})
	if n := load(t, s); n != 0 {
		t.Fatalf("an empty topic gave %d", n)
	}
	gone := offsets.AppendKey(nil, "c1", offsets.GenerationPartition("s"))
	reordered := []byte(`[ "c1", {"table":"t","kind":"table","server":"s"} ]`)
	table := offsets.AppendKey(nil, "c1", offsets.TablePartition("s", "t"))
	err := b.cl.ProduceSync(t.Context(),
		b.entry("c1", 1), b.entry("c2", 9), b.entry("c1", 2),
		&kgo.Record{Topic: b.topic, Partition: 7, Key: gone, Value: []byte(`{"generation":1}`)},
		&kgo.Record{Topic: b.topic, Partition: 7, Key: gone},
		&kgo.Record{Topic: b.topic, Partition: 3, Key: []byte("junk"), Value: []byte("1")},
		&kgo.Record{Topic: b.topic, Partition: 9, Key: table, Value: []byte(`{"n":1}`), Timestamp: time.UnixMilli(1000)},
		&kgo.Record{Topic: b.topic, Partition: 2, Key: reordered, Value: []byte(`{"n":2}`), Timestamp: time.UnixMilli(2000)},
	).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := s.Load(t.Context())
	if err != nil || len(entries) != 2 {
		t.Fatalf("got %v, %v", entries, err)
	}
	for p, want := range map[string]int64{"s": 2, "t": 2} {
		part := offsets.StreamPartition("s")
		if p == "t" {
			part = offsets.TablePartition("s", "t")
		}
		if o, _ := offsets.Find(entries, part); !o.Equal(offsets.Object{{Name: "n", Value: want}}) {
			t.Errorf("%s: got %s", p, o)
		}
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "1 records") {
		t.Errorf("warned %q", warned)
	}
}

// A stream that another connector holds is refused until that one's offsets are removed; other products' and other
// streams' entries do not matter.
func TestLoadRefusesAnothersStream(t *testing.T) {
	b := realBroker(t)
	s := b.store(Config{Server: "s"})
	held := b.entry("c2", 1)
	held.Value = offsets.Object{{Name: offsets.FieldConnector, Value: "c2"}}.Value()
	elsewhere := &kgo.Record{Topic: b.topic, Partition: 3, Key: offsets.AppendKey(nil, "c2", offsets.StreamPartition("s2")), Value: held.Value}
	removed := &kgo.Record{Topic: b.topic, Partition: 3, Key: held.Key}
	for _, c := range []struct {
		record  *kgo.Record
		refused bool
	}{{b.entry("c1", 1), false}, {b.entry("foreign", 9), false}, {elsewhere, false}, {held, true}, {removed, false}} {
		if err := b.cl.ProduceSync(t.Context(), c.record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		_, err := s.Load(t.Context())
		if (err != nil) != c.refused || c.refused && (connectors.ClassOf(err) != connectors.ClassRefused || !strings.Contains(err.Error(), `"c2"`)) {
			t.Errorf("after %s %s: %v, refused should be %v", c.record.Key, c.record.Value, err, c.refused)
		}
		if n := load(t, b.store(Config{})); n != 1 {
			t.Errorf("without a stream's name: %d entries", n)
		}
	}
}

func TestLoadAbortedTailAndControlLast(t *testing.T) {
	b := realBroker(t)
	s := b.store(Config{})
	p := b.producer("a")
	b.produce(p, b.entry("c1", 1))
	b.end(p, kgo.TryCommit)
	if n := load(t, s); n != 1 {
		t.Errorf("commit marker last: got %d", n)
	}
	b.produce(p, b.entry("c1", 2), b.entry("c1", 3))
	b.end(p, kgo.TryAbort)
	if n := load(t, s); n != 1 {
		t.Errorf("aborted tail: got %d", n)
	}
}

// Another connector's transaction is open in our partition: our committed entry lies behind the
// last stable offset and must be waited for, never overlooked.
func TestLoadWaitsForOpenTransaction(t *testing.T) {
	b := realBroker(t)
	var mu sync.Mutex
	var states []connectors.State
	waiting := make(chan struct{})
	s := b.store(Config{TransactionTimeout: 20 * time.Second, Report: func(st connectors.State) {
		mu.Lock()
		defer mu.Unlock()
		if states = append(states, st); len(states) == 1 {
			close(waiting)
		}
	}})
	ours, other := b.producer("ours"), b.producer("other")
	b.produce(ours, b.entry("c1", 1))
	b.end(ours, kgo.TryCommit)
	b.produce(other, b.entry("c2", 5))
	b.produce(ours, b.entry("c1", 2))
	b.end(ours, kgo.TryCommit)

	got := make(chan int64, 1)
	go func() {
		entries, _ := s.Load(t.Context())
		o, _ := offsets.Find(entries, offsets.StreamPartition("s"))
		n, _ := o.Int("n")
		got <- n
	}()
	select {
	case <-waiting:
	case n := <-got:
		t.Fatalf("a load returned %d while the other transaction was open", n)
	case <-time.After(15 * time.Second):
		t.Fatal("no state was reported")
	}
	b.end(other, kgo.TryAbort)
	if n := <-got; n != 2 {
		t.Errorf("got %d, want what was committed behind the open transaction", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if r := states[0].Reason; states[0].Name != "WAITING" || !strings.Contains(r, b.topic+"other") || !strings.Contains(r, "since") || strings.Contains(r, b.topic+"ours ") {
		t.Errorf("the state does not name the transactional id waited for: %v", states)
	}
}

func TestLoadGivesUp(t *testing.T) {
	b := realBroker(t)
	s := b.store(Config{TransactionTimeout: time.Second, grace: time.Second})
	other := b.producer("other")
	b.produce(other, b.entry("c2", 5))
	_, err := s.Load(t.Context())
	if err == nil || connectors.ClassOf(err) != connectors.ClassWait || !strings.Contains(err.Error(), b.topic+"other") {
		t.Errorf("got %v, want an error that may pass and names the transactional id", err)
	}
	b.end(other, kgo.TryAbort)
}

func TestMissingRights(t *testing.T) {
	seeds := os.Getenv("TIDEMARK_TEST_KAFKA_SASL")
	if seeds == "" {
		t.Skip("TIDEMARK_TEST_KAFKA_SASL (a SASL_PLAINTEXT listener with user norights/norights) is not set")
	}
	b := realBroker(t)
	opts := []kgo.Opt{kgo.SeedBrokers(seeds), kgo.SASL(plain.Auth{User: "norights", Pass: "norights"}.AsMechanism())}
	s := New(Config{Topic: b.topic, Connector: "c1", Opts: opts})
	for name, call := range map[string]func() error{
		"ensure": func() error { _, err := s.Ensure(t.Context()); return err },
		"load":   func() error { _, err := s.Load(t.Context()); return err },
	} {
		if err := call(); err == nil || connectors.ClassOf(err) != connectors.ClassWait || !strings.Contains(err.Error(), b.topic) || !strings.Contains(err.Error(), "rant") {
			t.Errorf("%s: got %v, want which rights to grant", name, err)
		} else {
			t.Log(name, err)
		}
	}
}
