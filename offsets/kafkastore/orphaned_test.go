package kafkastore

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// A partition has a transaction open though its coordinator is through with it: nobody will end it, and who aborts it
// loses what may have been acknowledged.
func TestLoadTellsWhatNobodyEnds(t *testing.T) {
	const topic = "offsets"
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	opts := []kgo.Opt{kgo.SeedBrokers(fake.ListenAddrs()...)}
	cl, err := kgo.NewClient(append(opts, kgo.TransactionalID("mine"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fake.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
		for _, id := range req.(*kmsg.DescribeTransactionsRequest).TransactionalIDs {
			s := kmsg.NewDescribeTransactionsResponseTransactionState()
			s.TransactionalID, s.State, s.StartTimestamp = id, "CompleteCommit", -1
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
		return resp, nil, true
	})
	var said string
	s := New(Config{Topic: topic, Connector: "c1", Opts: opts, TransactionTimeout: time.Second, grace: time.Second, Report: func(st connectors.State) { said += st.Reason }})
	_, err = s.Load(t.Context())
	if err == nil || !strings.Contains(err.Error(), "mine") || !strings.Contains(err.Error(), "abort loses") {
		t.Errorf("got %v, want an error that names the transaction and what its abort costs", err)
	}
	if !strings.Contains(said, "mine"+orphaned) {
		t.Errorf("the state is %q", said)
	}
}
