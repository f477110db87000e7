package sink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
)

// One record fails, its neighbours and the offset go through: the client alone would commit.
func TestLostRecordIsNotHiddenByCommit(t *testing.T) {
	for _, where := range []string{"client", "broker"} {
		t.Run(where, func(t *testing.T) {
			c := fakeCluster(t)
			cfg := c.config()
			want := []string{"topic " + c.topic, "2000 bytes", "max.message.bytes"}
			if where == "client" {
				cfg.MaxRequestSize = 1000
				want[2] = "max.request.size"
			} else {
				limit := "1000"
				if _, err := c.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &limit}}, c.topic); err != nil {
					t.Fatal(err)
				}
			}
			s := c.sink(cfg)
			c.publish(s, 1, "a", "b")
			ch := c.chunk("c", strings.Repeat("x", 1975))
			if err := s.Write(t.Context(), ch); err != nil {
				t.Fatal(err)
			}
			err := s.Commit(t.Context(), position(2))
			wantError(t, err, connectors.ClassBlock, want[0], want[2])
			if b := ch.Scratch.(*batch); b.chunk != nil {
				t.Error("the chunk was not released")
			}
			if err := s.Write(t.Context(), c.chunk("d")); err == nil {
				t.Error("a write after the failure was accepted")
			}
			if err := s.Abort(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := c.stored(); n != 1 {
				t.Errorf("offset %d is committed without its data", n)
			}
			c.publish(s, 3, "e")
			c.expect("a e b")
		})
	}
}

func TestUnknownOutcome(t *testing.T) {
	c := fakeCluster(t)
	s := c.sink(c.config())
	c.publish(s, 1, "a")
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.UnknownServerError, TopLevel: true})
	if err := s.Write(t.Context(), c.chunk("b")); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context(), position(2))
	if !errors.Is(err, ErrUnknownOutcome) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	wantError(t, err, connectors.ClassWait, "UNKNOWN_SERVER_ERROR")
	if err := s.Commit(t.Context(), position(3)); !errors.Is(err, ErrUnknownOutcome) {
		t.Errorf("a commit after it: %v", err)
	}
	if err := s.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := c.stored(); n != 1 {
		t.Errorf("got offset %d", n)
	}
	c.publish(s, 4, "d")
	c.expect("a d")
}

// Every produce of a transaction fails: it must not hang, nor count as a commit.
func TestAllProducesFail(t *testing.T) {
	t.Run("transaction.version 2", func(t *testing.T) { allProducesFail(t, fakeCluster(t)) })
	t.Run("transaction.version 1", func(t *testing.T) { allProducesFail(t, fakeCluster(t, kfake.MaxVersions(kversion.V3_8_0()))) })
}

func allProducesFail(t *testing.T, c *cluster) {
	s := c.sink(c.config())
	fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	start := time.Now()
	if err := s.Write(t.Context(), c.chunk("a", "b")); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(t.Context(), position(1))
	wantError(t, err, connectors.ClassWait, "grant WRITE and DESCRIBE", c.topic)
	if err := s.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %s", d)
	}
	fault.Remove()
	c.publish(s, 2, "c")
	c.expect("c")
	if n := c.stored(); n != 2 {
		t.Errorf("got offset %d", n)
	}
}

func TestTransactionalIDDenied(t *testing.T) {
	c := fakeCluster(t)
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.TransactionalIDAuthorizationFailed, TopLevel: true, Count: -1})
	s, err := New(c.config())
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Fence(t.Context()), connectors.ClassWait, c.prefix, "grant WRITE and DESCRIBE")
	if err := s.Write(t.Context(), c.chunk("a")); !errors.Is(err, errNotFenced) {
		t.Errorf("a write without a fence: %v", err)
	}
}

func TestTimeoutIsLoweredUntilAccepted(t *testing.T) {
	c := fakeCluster(t)
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.InvalidTransactionTimeout, TopLevel: true, Count: -1, When: func(r kmsg.Request) bool {
		return r.(*kmsg.InitProducerIDRequest).TransactionTimeoutMillis > 60_000
	}})
	cfg := c.config()
	cfg.TransactionTimeout = 0
	if s := c.sink(cfg); s.TransactionTimeout() != time.Minute {
		t.Errorf("got %s", s.TransactionTimeout())
	}
	cfg.TransactionTimeout = time.Hour
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Fence(t.Context()), connectors.ClassRefused, "transaction.max.timeout.ms")
}

func TestChunkEntriesAndEmptyCommits(t *testing.T) {
	c := fakeCluster(t)
	s := c.sink(c.config())
	if err := s.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty := &pipeline.Chunk{}
	empty.Entries = append(empty.Entries, position(7))
	if err := s.Write(t.Context(), empty); err != nil {
		t.Fatal(err)
	}
	if err := s.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context()); err != nil || c.stored() != 0 {
		t.Errorf("an aborted entry was committed (%v)", err)
	}
	if err := s.Commit(t.Context(), position(8)); err != nil || c.stored() != 8 {
		t.Errorf("a boundary alone was not committed (%v)", err)
	}
	ch := c.chunk("a")
	ch.Entries = append(ch.Entries, position(9))
	if err := s.Write(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context()); err != nil || c.stored() != 9 {
		t.Errorf("a chunk's entry was not committed (%v)", err)
	}
}

// A full buffer must let a cancelled write go, and Close must give every chunk back.
func TestBackPressureAndCancel(t *testing.T) {
	c := fakeCluster(t)
	cfg := c.config()
	cfg.MaxBufferedBytes = 10
	s := c.sink(cfg)
	release := make(chan struct{})
	c.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.SleepControl(func() { <-release })
		return nil, nil, false
	})
	first := c.chunk("0123456789")
	if err := s.Write(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Write(ctx, c.chunk("b")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := s.Write(t.Context(), c.chunk("c")); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), position(1)); err != nil {
		t.Fatal(err)
	}
	c.expect("0123456789 c")
}

func TestIdempotentMode(t *testing.T) {
	c := fakeCluster(t)
	cfg := c.config()
	cfg.Mode = Idempotent
	s := c.sink(cfg)
	c.publish(s, 1, "a", "b")
	c.expect("a b")
	fault := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: c.topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
	if err := s.Write(t.Context(), c.chunk("c")); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Commit(t.Context(), position(2)), connectors.ClassWait)
	fault.Remove()
	if n := c.stored(); n != 1 {
		t.Errorf("offset %d was stored before its data", n)
	}
	if err := s.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.publish(s, 3, "d")
	c.expect("a d b")
}

func TestPauseDelaysOnlyALoadedStream(t *testing.T) {
	c := fakeCluster(t)
	cfg := c.config()
	cfg.Pause = 300 * time.Millisecond
	s := c.sink(cfg)
	start := time.Now()
	c.publish(s, 1, "a")
	if d := time.Since(start); d > 250*time.Millisecond {
		t.Errorf("the first transaction waited: %s", d)
	}
	committed := time.Now()
	if err := s.Write(t.Context(), c.chunk("b")); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(committed); d < 250*time.Millisecond {
		t.Errorf("a loaded stream waited only %s", d)
	}
	if err := s.Commit(t.Context(), position(2)); err != nil {
		t.Fatal(err)
	}
	s.session.lastEnd = time.Now().Add(-cfg.Pause)
	quiet := time.Now()
	c.publish(s, 3, "c")
	if d := time.Since(quiet); d > 250*time.Millisecond {
		t.Errorf("a quiet stream waited %s", d)
	}
}

func TestNewRefuses(t *testing.T) {
	ok := Config{TransactionalID: "t", OffsetsTopic: "o", Connector: "c"}
	for name, edit := range map[string]func(*Config){
		"mode":          func(c *Config) { c.Mode = "exactly-once" },
		"transactional": func(c *Config) { c.TransactionalID = "" },
		"offsets topic": func(c *Config) { c.OffsetsTopic = "" },
		"compression":   func(c *Config) { c.Compression = "brotli" },
	} {
		cfg := ok
		edit(&cfg)
		_, err := New(cfg)
		wantError(t, err, connectors.ClassRefused, name)
	}
}

// While Kafka takes nothing, the state says so, and takes it back.
func TestStallIsReported(t *testing.T) {
	c := fakeCluster(t)
	states := make(chan connectors.State, 10)
	cfg := c.config()
	cfg.Report = func(s connectors.State) { states <- s }
	s := c.sink(cfg)
	s.stallAfter = 30 * time.Millisecond
	release := make(chan struct{})
	c.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.SleepControl(func() { <-release })
		return nil, nil, false
	})
	if err := s.Write(t.Context(), c.chunk("a", "b", "c")); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Commit(t.Context(), position(1)) }()
	if st := <-states; st.Name != "WAITING" || !strings.Contains(st.Reason, "records") {
		t.Errorf("got %v", st)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if st := <-states; st.Name != "RUNNING" {
		t.Errorf("got %v", st)
	}
}

// An outage that outlives the transaction is waited for, however often it happens; it must not pass for a source transaction
// that is too long, which blocks.
func TestOutageIsNoTimeout(t *testing.T) {
	for _, slow := range []bool{false, true} {
		c := fakeCluster(t)
		cfg := c.config()
		cfg.TransactionTimeout = 1500 * time.Millisecond
		s := c.sink(cfg)
		release := make(chan struct{})
		c.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.fake.KeepControl()
			wait := release
			if slow {
				wait = nil
			}
			c.fake.SleepControl(func() {
				select {
				case <-wait:
				case <-time.After(200 * time.Millisecond):
					if !slow {
						<-release
					}
				}
			})
			return nil, nil, false
		})
		var err error
		for i := 0; err == nil && i < 50; i++ {
			if err = s.Write(t.Context(), c.chunk("a")); err == nil && (slow || i == 3) {
				err = s.flush(t.Context(), s.session)
			}
		}
		if connectors.ClassOf(err) != connectors.ClassWait || err == nil || errors.Is(err, ErrTimedOut) != slow {
			t.Errorf("slow %t: %v", slow, err)
		}
		close(release)
	}
}

// The same where nobody waits for the sink meanwhile, as while a large source transaction waits for memory: Kafka takes the records when
// it has given the transaction up.
func TestOutageUnseenIsNoTimeout(t *testing.T) {
	c := fakeCluster(t)
	cfg := c.config()
	cfg.TransactionTimeout = time.Second
	s := c.sink(cfg)
	c.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.fake.SleepControl(func() { <-time.After(1200 * time.Millisecond) })
		return nil, nil, false
	})
	if err := s.Write(t.Context(), c.chunk("a")); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return time.Since(s.session.began) > cfg.TransactionTimeout })
	err := s.Write(t.Context(), c.chunk("b"))
	wantError(t, err, connectors.ClassWait, "kafka has taken no record for", "starts again")
	if errors.Is(err, ErrTimedOut) {
		t.Errorf("%v passes for a transaction that is too long", err)
	}
}

func TestFenceSaysThatKafkaIsAway(t *testing.T) {
	c := fakeCluster(t)
	addr := c.fake.ListenAddrs()[0]
	s, err := New(c.config())
	if err != nil {
		t.Fatal(err)
	}
	c.fake.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	wantError(t, s.Fence(ctx), connectors.ClassWait, addr, "connection refused")
}

// Kafka goes away with records on their way: an abort and a close must not wait for it.
func TestCloseWithoutKafka(t *testing.T) {
	c := fakeCluster(t)
	s := c.sink(c.config())
	c.publish(s, 1, "a")
	c.fake.Close()
	ch := c.chunk("b")
	if err := s.Write(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Commit(ctx, position(2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	start := time.Now()
	if err := s.Close(t.Context()); err == nil {
		t.Error("the abort cannot have worked")
	}
	if d := time.Since(start); d > abortTimeout+2*time.Second {
		t.Errorf("close took %s", d)
	}
	if ch.Scratch.(*batch).chunk != nil {
		t.Error("the chunk was not released")
	}
}

// What the broker answers decides the class, together with the age of the transaction.
func TestClasses(t *testing.T) {
	young := &session{open: true, began: time.Now(), timeout: time.Minute, connection: &connection{}, flight: newFlight()}
	old := &session{open: true, began: time.Now().Add(-time.Hour), timeout: time.Minute, connection: &connection{}, flight: newFlight()}
	for _, tc := range []struct {
		mode     Mode
		se       *session
		err      error
		class    connectors.Class
		timedOut bool
	}{
		{Transactional, young, kerr.InvalidProducerEpoch, connectors.ClassFenced, false},
		{Transactional, young, kerr.ProducerFenced, connectors.ClassFenced, false},
		{Transactional, old, kerr.ProducerFenced, connectors.ClassWait, true},
		{Transactional, old, kerr.InvalidProducerEpoch, connectors.ClassWait, true},
		{Transactional, old, kerr.InvalidTxnState, connectors.ClassWait, true},
		{Transactional, young, kerr.InvalidTxnState, connectors.ClassWait, false},
		{Idempotent, old, kerr.InvalidProducerEpoch, connectors.ClassWait, false},
		{Transactional, young, kerr.RecordListTooLarge, connectors.ClassBlock, false},
		{Transactional, young, kerr.InvalidRecord, connectors.ClassBlock, false},
		{Transactional, young, kerr.InvalidTimestamp, connectors.ClassBlock, false},
		{Transactional, young, kerr.NotEnoughReplicas, connectors.ClassWait, false},
		{Transactional, young, kerr.ClusterAuthorizationFailed, connectors.ClassWait, false},
	} {
		s := &Sink{cfg: Config{Mode: tc.mode, TransactionalID: "t", MaxRequestSize: 1000}}
		err := s.explain(tc.se, failure{topic: "x", err: tc.err})
		if connectors.ClassOf(err) != tc.class || errors.Is(err, ErrTimedOut) != tc.timedOut {
			t.Errorf("%v in a transaction of age %s: got %v, class %s", tc.err, time.Since(tc.se.began), err, connectors.ClassOf(err))
		}
	}
}

// A transaction that is open in a topic holds the search for the highest generation back, which says where.
func TestGenerationsSayWhatTheyWaitFor(t *testing.T) {
	c := fakeCluster(t)
	s := c.sink(c.config())
	ch := c.chunk("a")
	ch.Records[0].Headers = []pipeline.Header{{Key: headerGeneration, Value: []byte("3")}}
	if err := s.Write(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	if err := s.session.cl.Flush(t.Context()); err != nil { // it must be in the log
		t.Fatal(err)
	}
	states := make(chan connectors.State, 10)
	found := make(chan int64, 1)
	go func() {
		n, err := NewGenerations(c.opts, c.topicOf, c.topic+".__generations").Report(func(s connectors.State) { states <- s }).Highest(t.Context(), oneTable)
		if err != nil {
			t.Error(err)
		}
		found <- n
	}()
	select {
	case got := <-states:
		if got.Name != "WAITING" || !strings.Contains(got.Reason, "open transaction in "+c.topic+"-") {
			t.Errorf("got %v", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it says nothing")
	}
	if err := s.Commit(t.Context(), position(1)); err != nil {
		t.Fatal(err)
	}
	if n := <-found; n != 3 {
		t.Errorf("got generation %d", n)
	}
	if got := <-states; got.Name != "STARTING" {
		t.Errorf("got %v", got)
	}
}
