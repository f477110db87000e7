package kafkasignal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is a broker and what the channel delivered and logged.
type stage struct {
	t     *testing.T
	opts  []kgo.Opt
	topic string

	mu     sync.Mutex
	ids    []string
	cursor string
	text   bytes.Buffer
}

// onBrokers runs a test on the broker in this process, and on the real one where there is one.
func onBrokers(t *testing.T, f func(*stage)) {
	t.Run("kfake", func(t *testing.T) {
		c, err := kfake.NewCluster(kfake.NumBrokers(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		f(newStage(t, c.ListenAddrs()))
	})
	t.Run("kafka", func(t *testing.T) {
		seeds := os.Getenv("TIDEMARK_TEST_KAFKA")
		if seeds == "" {
			t.Skip("TIDEMARK_TEST_KAFKA (bootstrap servers of a real broker) is not set")
		}
		f(newStage(t, strings.Split(seeds, ",")))
	})
}

func newStage(t *testing.T, seeds []string) *stage {
	s := &stage{t: t, opts: []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.MetadataMinAge(50 * time.Millisecond), kgo.FetchMaxWait(100 * time.Millisecond)},
		topic: fmt.Sprintf("kafkasignal-%d", time.Now().UnixNano())}
	t.Cleanup(func() { s.admin(func(a *kadm.Client) { _, _ = a.DeleteTopics(context.Background(), s.topic) }) })
	return s
}

func (s *stage) admin(f func(*kadm.Client)) {
	cl, err := kgo.NewClient(s.opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	f(kadm.NewClient(cl))
}

func (s *stage) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *stage) channel() *Channel {
	return New(Config{Opts: s.opts, Admin: s.opts, Topic: s.topic, Key: "shop", Create: true, Replication: -1, Log: slog.New(slog.NewTextHandler(s, nil))})
}

func (s *stage) run(cursor string) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.channel().Run(ctx, cursor, func(g signal.Signal) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ids, s.cursor = append(s.ids, g.ID), g.Cursor
		})
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				s.t.Errorf("the channel ended with %v", err)
			}
		})
	}
	s.t.Cleanup(stop)
	return stop
}

func (s *stage) send(key, id string) {
	s.t.Helper()
	if _, err := Send(s.t.Context(), s.opts, s.topic, key, signal.Signal{ID: id, Type: signal.TypePause}); err != nil {
		s.t.Fatal(err)
	}
}

// raw writes a record as another program might.
func (s *stage) raw(key, value []byte) {
	s.t.Helper()
	cl, err := kgo.NewClient(s.opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(s.t.Context(), &kgo.Record{Topic: s.topic, Key: key, Value: value}).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) expect(what string, is func(ids, log string) bool) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		ids, text := strings.Join(s.ids, " "), s.text.String()
		s.mu.Unlock()
		if is(ids, text) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no %s, but %s\n%s", what, ids, text)
		}
	}
}

func (s *stage) expectIDs(want string) {
	s.t.Helper()
	s.expect(want, func(ids, _ string) bool { return ids == want })
}

// TestSignalsOfATopic: only signals of the key are delivered, from the topic's start, garbage is reported and passed, and after a
// restart it goes on after the last one delivered; a topic made anew is read from its start.
func TestSignalsOfATopic(t *testing.T) {
	onBrokers(t, func(s *stage) {
		if err := Ensure(t.Context(), s.opts, s.topic, -1); err != nil {
			t.Fatal(err)
		}
		s.send("shop", "1") // while nobody runs
		s.send("other", "x")
		s.raw([]byte("shop"), []byte("garbage"))
		s.raw(nil, []byte(`{"id":"y","type":"pause-snapshot"}`))
		s.raw([]byte("shop"), nil)
		s.send("shop", "2")
		stop := s.run("")
		s.expectIDs("1 2")
		s.expect("report", func(_, text string) bool {
			return strings.Contains(text, "offset=2 reason=\"the signal is not a JSON object")
		})
		s.send("shop", "3")
		s.expectIDs("1 2 3")
		stop()
		s.send("shop", "4")
		s.raw([]byte("shop"), []byte(`{"type":"resume-snapshot"}`)) // without an id
		stop = s.run(s.cursor)
		s.expect("two more", func(ids, _ string) bool { return strings.HasPrefix(ids, "1 2 3 4 "+s.topic+"-8-") })
		stop()
		s.ids = nil
		cursor := s.cursor
		s.admin(func(a *kadm.Client) {
			if _, err := a.DeleteTopics(t.Context(), s.topic); err != nil {
				t.Fatal(err)
			}
		})
		s.again()
		s.send("shop", "5")
		s.run(cursor)
		s.expectIDs("5")
		s.expect("report", func(_, text string) bool { return strings.Contains(text, "does not have the place that was reached") })
	})
}

// again makes the topic once more, as soon as the broker has forgotten the old one.
func (s *stage) again() {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var err error
		s.admin(func(a *kadm.Client) {
			_, err = a.CreateTopic(s.t.Context(), 1, -1, nil, s.topic)
		})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(err)
		}
	}
}

// TestTopicCannotBeRead: a topic that is missing and not to be created, and one of several partitions, are said.
func TestTopicCannotBeRead(t *testing.T) {
	onBrokers(t, func(s *stage) {
		cfg := s.channel().cfg
		cfg.Create = false
		err := New(cfg).Run(t.Context(), "", func(signal.Signal) {})
		if err == nil || !strings.Contains(err.Error(), "topic "+s.topic+" does not exist") {
			t.Error(err)
		}
		s.admin(func(a *kadm.Client) {
			if _, err := a.CreateTopic(t.Context(), 3, -1, nil, s.topic); err != nil {
				t.Fatal(err)
			}
		})
		s.send("shop", "1")
		s.run("")
		s.expectIDs("1")
		s.expect("report", func(_, text string) bool { return strings.Contains(text, "give the topic one partition") })
	})
}
