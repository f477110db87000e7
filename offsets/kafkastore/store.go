// Package kafkastore keeps a connector's offsets in a compacted Kafka topic in Kafka Connect's
// format. It creates and checks the topic, and reads it up to the high watermark. Writing is the
// sink's part: offsets commit in the Kafka transaction of the records they cover.
//
// A load is final only after the sink was fenced: before, a predecessor could still commit.
package kafkastore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// grace is added to the transaction timeout: a coordinator looks for timed-out transactions
// only every few seconds, and then has to write their markers.
const grace = 60 * time.Second

// Config says where the offsets of one connector are.
type Config struct {
	Topic     string
	Connector string    // name of the connector, the first element of every key
	Opts      []kgo.Opt // connection to Kafka
	// Server is the stream whose offsets no other connector may hold; empty: they are not looked for.
	Server string

	// Partitions is the partition count of a topic that has to be created; 0 is Connect's default, 25.
	Partitions int32
	// Replication is the replication factor of a topic that has to be created; 0 and -1 are the broker's default.
	Replication int16
	// TransactionTimeout bounds how long a load waits for the open transactions of others, together
	// with 60 s on top. Zero asks the broker for the longest transaction it allows.
	TransactionTimeout time.Duration
	// Report takes the state while a load waits; it may be nil.
	Report connectors.Reporter
	// Warn takes what is odd and harmless, one sentence each; it may be nil.
	Warn func(string)

	grace time.Duration // for tests; 0 is the constant
}

// Store reads the offsets of one connector. It holds no connection between calls.
type Store struct {
	cfg Config
}

// New returns a store; it does not connect.
func New(cfg Config) *Store {
	if cfg.Partitions <= 0 {
		cfg.Partitions = Partitions
	}
	if cfg.Replication == 0 {
		cfg.Replication = -1
	}
	if cfg.Report == nil {
		cfg.Report = func(connectors.State) {}
	}
	if cfg.Warn == nil {
		cfg.Warn = func(string) {}
	}
	if cfg.grace == 0 {
		cfg.grace = grace
	}
	return &Store{cfg: cfg}
}

// Load returns the newest committed entry of every partition of this connector, tombstones left
// out, in no particular order. It reads every Kafka partition up to the high watermark it had at
// the call; where another producer's transaction is open there, it waits for its end, in a state
// that names it. After the transaction timeout and 60 s it gives up with an error that may pass. Where another connector
// holds offsets of the same stream, the error is of class refused: both would write to the same topics.
func (s *Store) Load(ctx context.Context) ([]offsets.Entry, error) {
	cl, err := kgo.NewClient(s.cfg.Opts...)
	if err != nil {
		return nil, connectors.Refuse(fmt.Errorf("load offsets: %w", err))
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)

	ranges, err := Ranges(ctx, adm, s.cfg.Topic)
	if err != nil {
		return nil, fmt.Errorf("load offsets: %w", err)
	}
	timeout := s.cfg.TransactionTimeout
	if timeout == 0 {
		timeout = MaxTransactionTimeout(ctx, adm)
	}
	newest := newestEntries{connector: s.cfg.Connector}
	others := newestEntries{}
	w := &waiting{adm: adm, topic: s.cfg.Topic, report: s.cfg.Report, limit: timeout + s.cfg.grace}
	err = Read(ctx, s.cfg.Opts, ranges, func(r *kgo.Record) {
		newest.add(r)
		s.addOther(&others, r)
	}, w.stalled)
	w.done()
	if err != nil {
		return nil, fmt.Errorf("load offsets from topic %s: %w", s.cfg.Topic, Explain(err, s.cfg.Topic, "READ and DESCRIBE"))
	}
	if newest.malformed > 0 {
		s.cfg.Warn(fmt.Sprintf("offsets topic %s holds %d records that are not offsets (first: %v); they are ignored", s.cfg.Topic, newest.malformed, newest.firstErr))
	}
	if held := others.entries(); len(held) > 0 {
		other, _ := held[0].Partition.Text(otherConnector)
		return nil, connectors.Refuse(fmt.Errorf("connector %q already publishes under topic.prefix %q by offsets topic %s: two connectors would mix their records in the same topics; choose another topic.prefix, or give that one's offsets up with connectctl offsets reset",
			other, s.cfg.Server, s.cfg.Topic))
	}
	return newest.entries(), nil
}

// otherConnector is a member that tells entries of one stream by several connectors apart.
const otherConnector = "connector"

// addOther keeps the stream entries that other connectors hold of our stream.
func (s *Store) addOther(others *newestEntries, r *kgo.Record) {
	connector, partition, err := offsets.ParseKey(r.Key)
	if s.cfg.Server == "" || err != nil || connector == s.cfg.Connector || !partition.Equal(offsets.StreamPartition(s.cfg.Server)) {
		return
	}
	value, err := offsets.ParseObject(r.Value)
	if err != nil {
		return
	}
	if _, ours := value.Text(offsets.FieldConnector); value != nil && !ours {
		return // another product's, whose stream this one may continue
	}
	i := others.place(string(r.Key), partition.With(otherConnector, connector))
	others.found[i].last[r.Partition] = stamped{value, r.Timestamp}
}

// newestEntries keeps the newest record of every partition of a connector. The same partition may
// have been written with its members in another order, hence under another key and in another
// Kafka partition: between those the record's time decides.
type newestEntries struct {
	connector string
	found     []candidate
	index     map[string]int // key bytes to found
	malformed int
	firstErr  error
}

type candidate struct {
	entry offsets.Entry
	last  map[int32]stamped // by Kafka partition, in which the later offset is newer
}

type stamped struct {
	value offsets.Object
	at    time.Time
}

func (n *newestEntries) add(r *kgo.Record) {
	connector, partition, err := offsets.ParseKey(r.Key)
	if err != nil {
		n.bad(r, err)
		return
	}
	if connector != n.connector {
		return
	}
	value, err := offsets.ParseObject(r.Value)
	if err != nil {
		n.bad(r, err)
		return
	}
	i := n.place(string(r.Key), partition)
	n.found[i].last[r.Partition] = stamped{value, r.Timestamp}
}

func (n *newestEntries) bad(r *kgo.Record, err error) {
	n.malformed++
	if n.firstErr == nil {
		n.firstErr = fmt.Errorf("partition %d offset %d: %w", r.Partition, r.Offset, err)
	}
}

// place finds or adds the candidate of a partition; the index spares comparing members for keys seen before.
func (n *newestEntries) place(key string, partition offsets.Object) int {
	if i, ok := n.index[key]; ok {
		return i
	}
	i := slices.IndexFunc(n.found, func(c candidate) bool { return c.entry.Partition.Equal(partition) })
	if i < 0 {
		i = len(n.found)
		n.found = append(n.found, candidate{entry: offsets.Entry{Partition: partition}, last: map[int32]stamped{}})
	}
	if n.index == nil {
		n.index = map[string]int{}
	}
	n.index[key] = i
	return i
}

func (n *newestEntries) entries() []offsets.Entry {
	var out []offsets.Entry
	for _, c := range n.found {
		var newest stamped
		for _, s := range c.last {
			if newest.at.IsZero() || s.at.After(newest.at) {
				newest = s
			}
		}
		if newest.value != nil {
			c.entry.Offset = newest.value
			out = append(out, c.entry)
		}
	}
	return out
}
