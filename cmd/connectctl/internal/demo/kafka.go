//go:build linux || darwin

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
)

// topics names what the demo makes in Kafka: everything starts with the prefix.
type topics struct {
	seeds    []string
	prefix   string // topic.prefix
	offsets  string
	registry string // URL
}

func (t *topics) client() (*kadm.Client, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.seeds...), kgo.RetryTimeout(10*time.Second))
	if err != nil {
		return nil, fmt.Errorf("connect to Kafka: %w", err)
	}
	return kadm.NewClient(cl), nil
}

// check asks the brokers once, so that a wrong address is one sentence at the start.
func (t *topics) check(ctx context.Context) error {
	adm, err := t.client()
	if err != nil {
		return err
	}
	defer adm.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := adm.BrokerMetadata(ctx); err != nil {
		return fmt.Errorf("no Kafka broker answers at %s: %w", strings.Join(t.seeds, ","), err)
	}
	return nil
}

// open counts the records of a topic that are in a transaction still open: between the last stable
// offset, where read_committed readers stop, and the end.
func open(ctx context.Context, adm *kadm.Client, topic string) (int64, error) {
	// The stable end is read first: what commits in between must not look open.
	end, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("list the end of %s: %w", topic, err)
	}
	stable, err := adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("list the stable end of %s: %w", topic, err)
	}
	var n int64
	end.Each(func(e kadm.ListedOffset) {
		if s, ok := stable.Lookup(topic, e.Partition); ok && s.Err == nil && e.Err == nil {
			n += max(e.Offset-s.Offset, 0)
		}
	})
	return n, nil
}

// remove deletes the demo's topics and, where the registry is not our own, its subjects.
func (t *topics) remove(ctx context.Context) error {
	adm, err := t.client()
	if err != nil {
		return err
	}
	defer adm.Close()
	all, err := adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var names []string
	for name := range all {
		if t.ours(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	done, err := adm.DeleteTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	var errs []error
	for _, r := range done {
		if r.Err != nil && !errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			errs = append(errs, fmt.Errorf("delete topic %s: %w", r.Topic, r.Err))
		}
	}
	return errors.Join(errs...)
}

func (t *topics) ours(name string) bool {
	return name == t.offsets || strings.HasPrefix(name, t.prefix+".")
}

// removeSubjects deletes the demo's subjects from a registry that is not its own.
func (t *topics) removeSubjects(ctx context.Context) error {
	u, err := url.Parse(t.registry)
	if err != nil {
		return errors.New("the schema registry's URL cannot be read")
	}
	opts := []sr.ClientOpt{sr.HTTPClient(&http.Client{Timeout: 5 * time.Second})}
	if u.User != nil {
		password, _ := u.User.Password()
		opts = append(opts, sr.BasicAuth(u.User.Username(), password))
		u.User = nil
	}
	cl, err := sr.NewClient(append(opts, sr.URLs(u.String()))...)
	if err != nil {
		return fmt.Errorf("connect to the schema registry: %w", err)
	}
	subjects, err := cl.Subjects(ctx)
	if err != nil {
		return fmt.Errorf("list subjects: %w", err)
	}
	var errs []error
	for _, s := range subjects {
		if !strings.HasPrefix(s, t.prefix+".") {
			continue
		}
		if _, err := cl.DeleteSubject(ctx, s, sr.SoftDelete); err != nil {
			errs = append(errs, fmt.Errorf("delete subject %s: %w", s, err))
			continue
		}
		_, _ = cl.DeleteSubject(ctx, s, sr.HardDelete) // not every registry knows it
	}
	return errors.Join(errs...)
}
