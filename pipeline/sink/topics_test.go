package sink

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/schema"
)

var oneTable = []*schema.Table{{Name: "t"}}

func (c *cluster) topicOf(*schema.Table) string { return c.topic }

func creation(t *testing.T, props map[string]string) (Creation, []connectors.Problem) {
	t.Helper()
	raw := map[string]string{}
	for k, v := range props {
		raw[creationPrefix+k] = v
	}
	cfg, problems := CreationSpec().Parse(raw)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return ParseCreation(cfg)
}

func TestCreationGroups(t *testing.T) {
	c, problems := creation(t, map[string]string{
		"default.replication.factor": "3", "default.partitions": "5", "default.cleanup.policy": "compact",
		"groups": "inorder, hot", "inorder.include": "status, order.*", "inorder.partitions": "1",
		"hot.include": "o.*", "hot.exclude": "out.*", "hot.replication.factor": "-1", "hot.retention.ms": "7",
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for topic, want := range map[string]string{
		"status":   "inorder 3 1 0", // the default's own settings are not inherited
		"orders":   "inorder 3 1 0",
		"status2":  "default 3 5 1", // whole names only
		"ocean":    "hot -1 5 1",
		"outbox":   "default 3 5 1",
		"whatever": "default 3 5 1",
	} {
		g := c.of(topic)
		if got := fmt.Sprintf("%s %d %d %d", g.name, g.replication, g.partitions, len(g.configs)); got != want {
			t.Errorf("%s: got %s, want %s", topic, got, want)
		}
	}
	if c, _ := creation(t, nil); c.Enabled() {
		t.Error("without properties topics would be created")
	}
	if c, _ := creation(t, map[string]string{"enable": "false", "default.partitions": "1", "default.replication.factor": "1"}); c.Enabled() {
		t.Error("enable=false is ignored")
	}
}

func TestCreationProblems(t *testing.T) {
	for want, props := range map[string]map[string]string{
		"topic.creation.default.partitions: is missing":         {"default.replication.factor": "1"},
		"topic.creation.default.replication.factor: is missing": {"groups": "a", "a.include": "x", "default.partitions": "1"},
		"topic.creation.default.partitions: \"0\"":              {"default.replication.factor": "1", "default.partitions": "0"},
		"topic.creation.a.include: is missing":                  {"groups": "a", "default.replication.factor": "1", "default.partitions": "1"},
		"topic.creation.a.include: is not a list":               {"groups": "a", "a.include": "(", "default.replication.factor": "1", "default.partitions": "1"},
		"topic.creation.groups: must not":                       {"groups": "default", "default.replication.factor": "1", "default.partitions": "1"},
		"topic.creation.groups: names a twice":                  {"groups": "a,a", "a.include": "x", "default.replication.factor": "1", "default.partitions": "1"},
		"topic.creation.b.partitions: belongs to no group":      {"b.partitions": "1", "default.replication.factor": "1", "default.partitions": "1"},
		"topic.creation.default.include: is not allowed":        {"default.include": "x", "default.replication.factor": "1", "default.partitions": "1"},
	} {
		_, problems := creation(t, props)
		if got := fmt.Sprint(problems); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func (c *cluster) topics(props map[string]string) *Topics {
	raw := map[string]string{}
	for k, v := range props {
		raw[creationPrefix+k] = v
	}
	cfg, _ := CreationSpec().Parse(raw)
	creation, problems := ParseCreation(cfg)
	if len(problems) > 0 {
		c.t.Fatal(problems)
	}
	topics, err := NewTopics(TopicsConfig{Opts: c.opts, Creation: creation})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(topics.Close)
	return topics
}

func TestEnsureTopic(t *testing.T) {
	c := realCluster(t)
	fresh := c.prefix + ".new"
	t.Cleanup(func() { _, _ = c.adm.DeleteTopics(context.Background(), fresh) })
	off := c.topics(nil)
	_, err := off.Ensure(t.Context(), fresh, false)
	wantError(t, err, connectors.ClassWait, fresh, "topic.creation.enable")
	_, err = off.Ensure(t.Context(), "a b", false)
	wantError(t, err, connectors.ClassRefused, "a b")
	if _, p := off.Check(t.Context(), []string{fresh, "a b", c.topic}); len(p) != 2 {
		t.Errorf("got %v", p)
	}

	wrong := c.topics(map[string]string{"default.partitions": "3", "default.replication.factor": "7"})
	_, err = wrong.Ensure(t.Context(), fresh, false)
	wantError(t, err, connectors.ClassWait, "topic.creation.default.replication.factor", "7")
	if _, p := wrong.Check(t.Context(), []string{fresh}); len(p) != 1 {
		t.Errorf("got %v", p)
	}
	odd := c.topics(map[string]string{"default.partitions": "3", "default.replication.factor": "1", "default.no.such": "1"})
	_, err = odd.Ensure(t.Context(), fresh, false)
	wantError(t, err, connectors.ClassWait, "settings of topic.creation.default", "no.such")

	on := c.topics(map[string]string{"default.partitions": "3", "default.replication.factor": "-1", "default.cleanup.policy": "compact", "default.max.message.bytes": "4000", "default.message.timestamp.after.max.ms": "5000"})
	if _, p := on.Check(t.Context(), []string{fresh}); len(p) != 0 {
		t.Errorf("got %v", p)
	}
	if _, err := on.Ensure(t.Context(), fresh, true); err == nil || connectors.ClassOf(err) != connectors.ClassWait || !strings.Contains(err.Error(), fresh+" is gone") {
		t.Errorf("a topic that was used: %v", err)
	}
	info, err := on.Ensure(t.Context(), fresh, false)
	if err != nil || info.Partitions != 3 || info.CleanupPolicy != "compact" || info.MaxMessageBytes != 4000 || info.TimestampAfterMaxMs != 5000 || info.TimestampBeforeMaxMs <= 0 {
		t.Errorf("got %+v, %v", info, err)
	}
	if on.MaxMessageBytes(fresh) != 4000 || on.MaxMessageBytes("other") != 0 {
		t.Error("the limit is not kept")
	}
	if again, err := off.Ensure(t.Context(), fresh, false); err != nil || again != info {
		t.Errorf("got %+v, %v", again, err)
	}
}

// Small records in a batch larger than the topic takes would be refused together.
func TestBatchesFitTheTopic(t *testing.T) {
	c := realCluster(t)
	limit := "3000"
	small := c.prefix + ".small"
	c.create(small, 2, map[string]*string{"max.message.bytes": &limit})
	t.Cleanup(func() { _, _ = c.adm.DeleteTopics(context.Background(), small) })
	c.topic = small
	topics := c.topics(nil)
	if _, err := topics.Ensure(t.Context(), small, false); err != nil {
		t.Fatal(err)
	}
	cfg := c.config()
	cfg.MaxMessageBytes = topics.MaxMessageBytes
	s := c.sink(cfg)
	values := make([]string, 100)
	for i := range values {
		values[i] = strings.Repeat("v", 500)
	}
	c.publish(s, 1, values...)
	if got := c.committed(); len(got[0])+len(got[1]) != 100 {
		t.Errorf("%d records arrived", len(got[0])+len(got[1]))
	}
	if err := s.Write(t.Context(), c.chunk(strings.Repeat("v", 5000))); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Commit(t.Context(), position(2)), connectors.ClassBlock, small, "max.message.bytes")
}

func TestHighestGeneration(t *testing.T) {
	c := realCluster(t)
	g := NewGenerations(c.opts, c.topicOf, c.topic+".__generations")
	highest := func() int64 {
		t.Helper()
		n, err := g.Highest(t.Context(), append(oneTable, oneTable...))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := highest(); n != 0 {
		t.Errorf("an empty topic: %d", n)
	}
	s := c.sink(c.config())
	records := func(gen string, n int) *pipeline.Chunk {
		ch := c.chunk(make([]string, n)...)
		for i := range ch.Records {
			ch.Records[i].Headers = []pipeline.Header{{Key: headerGeneration, Value: []byte(gen)}}
		}
		return ch
	}
	write := func(ch *pipeline.Chunk) {
		t.Helper()
		if err := s.Write(t.Context(), ch); err != nil {
			t.Fatal(err)
		}
	}
	write(records("3", 4))
	if err := s.Commit(t.Context(), position(1)); err != nil {
		t.Fatal(err)
	}
	write(records("4", 1000))
	if err := s.session.cl.Flush(t.Context()); err != nil { // they must be in the log
		t.Fatal(err)
	}
	if err := s.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := highest(); n != 3 {
		t.Errorf("behind an aborted tail: %d", n)
	}
	other, err := kgo.NewClient(append(c.opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 200 {
		if err := other.ProduceSync(t.Context(), &kgo.Record{Topic: c.topic, Partition: 1}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write(records("5", 1))
	if err := s.Commit(t.Context(), position(2)); err != nil {
		t.Fatal(err)
	}
	if n := highest(); n != 5 {
		t.Errorf("got %d", n)
	}
	absent := NewGenerations(c.opts, func(*schema.Table) string { return c.topic + ".absent" }, c.topic+".none")
	if n, err := absent.Highest(t.Context(), oneTable); n != 0 || err != nil {
		t.Errorf("an absent topic: %d, %v", n, err)
	}
	activations := c.topic + ".__generations"
	if _, err := kadm.NewClient(other).CreateTopic(t.Context(), 1, -1, nil, activations); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteTopic(t, c.opts, activations) })
	if err := other.ProduceSync(t.Context(), &kgo.Record{Topic: activations, Key: []byte(`{"gen":9}`), Value: []byte("{}")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if n := highest(); n != 9 {
		t.Errorf("an activated generation without data: %d", n)
	}
}

func deleteTopic(t *testing.T, opts []kgo.Opt, topic string) {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	_, _ = kadm.NewClient(cl).DeleteTopic(context.Background(), topic)
}

func TestGuarantee(t *testing.T) {
	c := realCluster(t)
	missing, err := c.topics(nil).Guarantee(t.Context(), c.topic, c.offsets, c.topic+".absent")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(missing, "\n")
	for _, want := range []string{c.topic + " has replication factor 1", c.offsets + " has min.insync.replicas=1", c.topic + ".absent"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
}
