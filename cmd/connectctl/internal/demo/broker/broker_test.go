//go:build linux || darwin

package broker

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What was committed is there after a restart; what was in an open transaction is not seen.
func TestCommittedRecordsSurvive(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	dir := t.TempDir()
	b, err := Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.TransactionalID("t"), kgo.DefaultProduceTopic("x"), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(10))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cluster.CreateTopic("x", 1, nil); err != nil {
		t.Fatal(err)
	}
	for i, commit := range []bool{true, false} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(ctx, kgo.StringRecord([]string{"kept", "open"}[i])).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if commit {
			if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	if b, err = Start(dir); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.ConsumeTopics("x"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fetches := r.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if got := fetches.Records(); len(got) != 1 || string(got[0].Value) != "kept" {
		t.Errorf("got %d records", len(got))
	}
}
