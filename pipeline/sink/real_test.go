package sink

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
)

func TestRecordsArriveAsGiven(t *testing.T) {
	c := realCluster(t)
	cfg := c.config()
	cfg.TransactionTimeout = 0
	s := c.sink(cfg)
	if s.TransactionTimeout() < time.Second || s.TransactionTimeout() > 15*time.Minute {
		t.Errorf("transaction timeout %s", s.TransactionTimeout())
	}
	ch := c.chunk("a", "b")
	ch.Records = append(ch.Records, pipeline.Record{Topic: c.topic, Partition: 1, Key: []byte("k")})
	if err := s.Write(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), position(1)); err != nil {
		t.Fatal(err)
	}
	got := c.committed()
	r := got[1][0]
	if string(r.Key) != "k" || string(r.Value) != "b" || r.Timestamp.UnixMilli() != 1_700_000_000_123 || len(r.Headers) != 2 || string(r.Headers[1].Value) != "1" {
		t.Errorf("got %+v", r)
	}
	if len(got[1]) != 2 || got[1][1].Value != nil {
		t.Errorf("the tombstone is %+v", got[1][len(got[1])-1])
	}
	if n := c.stored(); n != 1 {
		t.Errorf("got offset %d", n)
	}
}

// Two sinks under one id: the older one is fenced, with and without an open transaction.
func TestZombieIsFenced(t *testing.T) {
	for _, open := range []bool{true, false} {
		t.Run(map[bool]string{true: "open", false: "between"}[open], func(t *testing.T) {
			c := realCluster(t)
			old := c.sink(c.config())
			c.publish(old, 1, "a")
			if open {
				if err := old.Write(t.Context(), c.chunk("zombie")); err != nil {
					t.Fatal(err)
				}
				if err := old.session.cl.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			next := c.sink(c.config())
			if n := c.stored(); n != 1 {
				t.Errorf("after the fence: offset %d", n)
			}
			err := old.Write(t.Context(), c.chunk("zombie"))
			if err == nil {
				err = old.Commit(t.Context(), position(9))
			}
			wantError(t, err, connectors.ClassFenced, "another worker", c.prefix)
			c.publish(next, 2, "b")
			c.expect("a b")
			if n := c.stored(); n != 2 {
				t.Errorf("got offset %d", n)
			}
		})
	}
}

// The broker ended the transaction because it was too old: the same answer as to a zombie, told apart by age.
func TestTimedOutIsNotFenced(t *testing.T) {
	c := realCluster(t)
	cfg := c.config()
	cfg.TransactionTimeout = time.Second
	s := c.sink(cfg)
	if err := s.Write(t.Context(), c.chunk("late")); err != nil {
		t.Fatal(err)
	}
	if err := s.flush(t.Context(), s.session); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		d, err := c.adm.DescribeTransactions(context.Background(), c.prefix)
		return err == nil && d[c.prefix].State == "CompleteAbort"
	})
	if err := s.Write(t.Context(), c.chunk("later")); !errors.Is(err, ErrTimedOut) {
		t.Errorf("a write: %v", err)
	}
	err := s.end(t.Context(), s.session) // what the broker answers, without our own look at the clock
	if !errors.Is(err, ErrTimedOut) {
		t.Errorf("a commit: %v", err)
	}
	wantError(t, err, connectors.ClassWait, "transaction.timeout.ms (1000)", "1 records")
	if err := s.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.publish(s, 2, "b")
	c.expect("b")
}

func TestNoRights(t *testing.T) {
	seeds := os.Getenv("TIDEMARK_TEST_KAFKA_SASL")
	if seeds == "" {
		t.Skip("TIDEMARK_TEST_KAFKA_SASL (a SASL_PLAINTEXT listener with user norights/norights) is not set")
	}
	c := realCluster(t)
	opts := []kgo.Opt{kgo.SeedBrokers(seeds), kgo.SASL(plain.Auth{User: "norights", Pass: "norights"}.AsMechanism())}
	cfg := c.config()
	cfg.Opts = opts
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Fence(t.Context()), connectors.ClassWait, "transactional id "+c.prefix, "grant")
	cfg.Mode = Idempotent
	if s, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Fence(t.Context()), connectors.ClassWait, c.offsets, "grant")
	topics, err := NewTopics(TopicsConfig{Opts: opts, Creation: Creation{groups: []group{{name: "default", replication: 1, partitions: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer topics.Close()
	_, err = topics.Ensure(t.Context(), c.topic+".new", false)
	wantError(t, err, connectors.ClassWait, c.topic+".new", "grant")
	if _, p := topics.Check(t.Context(), []string{c.topic, c.topic + ".new", "a b"}); len(p) != 3 {
		t.Errorf("got %v", p)
	}
	_, err = NewGenerations(opts, c.topicOf, c.topic+".__generations").Highest(t.Context(), oneTable)
	wantError(t, err, connectors.ClassWait, c.topic, "grant")
}

// A producer epoch ends at 32767: the next transactions get a new producer id.
func TestEpochExhaustion(t *testing.T) {
	if os.Getenv("TIDEMARK_TEST_LONG") == "" {
		t.Skip("TIDEMARK_TEST_LONG is not set; this takes 33,000 requests to the broker")
	}
	c := realCluster(t)
	s := c.sink(c.config())
	c.publish(s, 1, "a")
	id, epoch, err := s.session.cl.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(c.opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for epoch < 32_760 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(c.prefix), 30_000
		resp, err := req.RequestWith(t.Context(), cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil && !errors.Is(err, kerr.ConcurrentTransactions) {
			t.Fatal(err)
		}
		if err == nil {
			epoch = resp.ProducerEpoch
		}
	}
	if err := s.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		c.publish(s, int64(i+2), "b"+strconv.Itoa(i))
	}
	if now, _, err := s.session.cl.ProducerID(t.Context()); err != nil || now == id {
		t.Errorf("the producer id is still %d (%v)", now, err)
	}
	if got := len(c.committed()[0]); got != 21 {
		t.Errorf("%d records are visible, want 21", got)
	}
	if n := c.stored(); n != 21 {
		t.Errorf("got offset %d", n)
	}
}

// WRITE on the data topic is withdrawn in mid-stream, and given back.
func TestRightWithdrawn(t *testing.T) {
	seeds := os.Getenv("TIDEMARK_TEST_KAFKA_SASL")
	if seeds == "" {
		t.Skip("TIDEMARK_TEST_KAFKA_SASL (a SASL_PLAINTEXT listener with user norights/norights) is not set")
	}
	c := realCluster(t)
	acl := func() *kadm.ACLBuilder {
		return kadm.NewACLs().Allow("User:norights").AllowHosts("*").ResourcePatternType(kadm.ACLPatternLiteral)
	}
	id := acl().TransactionalIDs(c.prefix).Operations(kadm.OpWrite, kadm.OpDescribe)
	stored := acl().Topics(c.offsets).Operations(kadm.OpWrite, kadm.OpDescribe)
	write := acl().Topics(c.topic).Operations(kadm.OpWrite, kadm.OpDescribe)
	grant := func(b *kadm.ACLBuilder) {
		t.Helper()
		if _, err := c.adm.CreateACLs(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	revoke := func(b *kadm.ACLBuilder) { _, _ = c.adm.DeleteACLs(context.Background(), b) }
	for _, b := range []*kadm.ACLBuilder{id, stored, write} {
		grant(b)
		defer revoke(b)
	}
	cfg := c.config()
	cfg.Opts = []kgo.Opt{kgo.SeedBrokers(seeds), kgo.MetadataMinAge(50 * time.Millisecond), kgo.SASL(plain.Auth{User: "norights", Pass: "norights"}.AsMechanism())}
	s := c.sink(cfg)
	c.publish(s, 1, "a")
	revoke(write)
	if err := s.Write(t.Context(), c.chunk("b", "c")); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	wantError(t, s.Commit(t.Context(), position(2)), connectors.ClassWait, c.topic, "grant WRITE")
	if err := s.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %s", d)
	}
	if n := c.stored(); n != 1 {
		t.Errorf("offset %d is stored without its data", n)
	}
	grant(write)
	if err := s.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.publish(s, 3, "d")
	c.expect("a d")
}

// The data topic is deleted under the producer.
func TestTopicDeleted(t *testing.T) {
	c := realCluster(t)
	s := c.sink(c.config())
	c.publish(s, 1, "a", "b")
	if _, err := c.adm.DeleteTopics(t.Context(), c.topic); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), c.chunk("c", "d")); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Commit(t.Context(), position(2)), connectors.ClassWait, c.topic, "does not exist")
	if err := s.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := c.stored(); n != 1 {
		t.Errorf("got offset %d", n)
	}
}

// A worker that waits starts again and again. It may go on as long as nobody else has taken over; then it has lost, also
// where it had nothing to write that would have told it.
func TestWaitingWorkerDoesNotFenceItsSuccessor(t *testing.T) {
	c := realCluster(t)
	cfg := c.config()
	cfg.Before = new(Incarnation)
	restart := func(n int64) *Sink {
		s := c.sink(cfg)
		if n > 0 {
			c.publish(s, n, "a")
			if err := s.Write(t.Context(), c.chunk("aborted")); err != nil {
				t.Fatal(err)
			}
			if err := s.flush(t.Context(), s.session); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	old := restart(0)
	for n := range int64(4) {
		old = restart(n % 2 * (n + 1))
	}
	next := c.sink(c.config()) // another process: it remembers nothing
	wantError(t, old.Fence(t.Context()), connectors.ClassFenced, "another worker has taken over", c.prefix)
	c.publish(next, 9, "b")
	if n := c.stored(); n != 9 {
		t.Errorf("got offset %d", n)
	}
}
