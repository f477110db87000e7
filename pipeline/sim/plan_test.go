package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// plan is what a seed says.
type plan struct {
	seed uint64

	// the stream
	brokers      int
	old          bool // brokers of 3.8: transactions of before KIP-890
	transactions int
	horizon      time.Duration // of the load and the faults
	timeout      time.Duration // transaction.timeout.ms
	chunk        int
	records      int // of a group
	linger       time.Duration
	early        bool
	maxCut       int
	exclusive    bool // the source has one reader, as a replication slot does
	slowAcks     bool // acknowledgements are under way for a while

	latency time.Duration // of a request, at most

	// the faults
	rate   float64 // of requests that meet one
	liars  bool    // brokers say that a producer is fenced when it is not
	kinds  [fateKinds]bool
	events int // of the machines: see chaos

	healed atomic.Bool

	mu     sync.Mutex
	counts map[request]int
	trace  []string
	dealt  map[string]int
	lied   map[int]bool // workers that were told so
}

// request is a kind of request of a worker.
type request struct {
	worker int
	key    int16
}

func newPlan(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &plan{
		seed: seed, brokers: 1 + r.IntN(3), old: r.IntN(4) == 0, transactions: 5 + r.IntN(60),
		horizon: time.Duration(5+r.IntN(90)) * time.Second,
		timeout: []time.Duration{3 * time.Second, 15 * time.Second, time.Minute}[r.IntN(3)],
		chunk:   []int{1 << 10, 4 << 10, 16 << 10}[r.IntN(3)], records: []int{1, 20, 500, 50_000}[r.IntN(4)],
		linger: []time.Duration{-1, 0, 20 * time.Millisecond}[r.IntN(3)], early: r.IntN(2) == 0, maxCut: []int{1, 5, 1000}[r.IntN(3)],
		exclusive: r.IntN(2) == 0, slowAcks: r.IntN(2) == 0,
		rate: []float64{0, 0.01, 0.03, 0.1}[r.IntN(4)], liars: r.IntN(4) == 0, events: r.IntN(6),
		latency: []time.Duration{0, 2 * time.Millisecond, 30 * time.Millisecond}[r.IntN(3)],
		counts:  map[request]int{}, dealt: map[string]int{}, lied: map[int]bool{},
	}
	for i := range p.kinds {
		p.kinds[i] = r.IntN(3) > 0
	}
	return p
}

func (p *plan) String() string {
	return fmt.Sprintf("%d brokers (old %t), %d transactions in %s, timeout %s, chunk %d, group %d, linger %s, exclusive %t, slow acks %t, rate %g, liars %t, %d events, latency %s",
		p.brokers, p.old, p.transactions, p.horizon, p.timeout, p.chunk, p.records, p.linger, p.exclusive, p.slowAcks, p.rate, p.liars, p.events, p.latency)
}

func (p *plan) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Since(epoch).Round(time.Millisecond)
	p.trace = append(p.trace, fmt.Sprintf("%10s  ", at)+fmt.Sprintf(format, args...))
}

// epoch is when a bubble's clock begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// weights are how much more often than others a kind of request meets a fault.
var weights = map[kmsg.Key]float64{
	kmsg.EndTxn: 5, kmsg.Produce: 2, kmsg.InitProducerID: 5, kmsg.AddPartitionsToTxn: 2, kmsg.Fetch: 0.5, kmsg.Metadata: 0.5,
}

// answers are what a broker may say, wrongly or rightly.
var answers = map[kmsg.Key][]*kerr.Error{
	kmsg.Produce: {kerr.NotLeaderForPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.KafkaStorageError,
		kerr.UnknownServerError, kerr.MessageTooLarge, kerr.ConcurrentTransactions, kerr.CoordinatorNotAvailable, kerr.TopicAuthorizationFailed, kerr.TransactionAbortable},
	kmsg.InitProducerID: {kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions,
		kerr.TransactionalIDAuthorizationFailed, kerr.UnknownServerError, kerr.RequestTimedOut},
	kmsg.EndTxn: {kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.ConcurrentTransactions,
		kerr.UnknownServerError, kerr.RequestTimedOut, kerr.TransactionAbortable, kerr.InvalidProducerIDMapping},
	kmsg.AddPartitionsToTxn: {kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.ConcurrentTransactions, kerr.TransactionAbortable, kerr.TopicAuthorizationFailed},
	kmsg.FindCoordinator:    {kerr.CoordinatorNotAvailable},
	kmsg.ListOffsets:        {kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.OffsetNotAvailable},
	kmsg.Fetch:              {kerr.NotLeaderForPartition, kerr.UnknownServerError, kerr.KafkaStorageError},
}

// lies are said of a producer that is not fenced.
var lies = map[kmsg.Key][]*kerr.Error{
	kmsg.Produce:        {kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidTxnState, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerIDMapping},
	kmsg.InitProducerID: {kerr.ProducerFenced, kerr.InvalidProducerEpoch},
	kmsg.EndTxn:         {kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState},
}

// fate decides about a worker's next request of a kind.
func (p *plan) fate(worker int, key int16) fate {
	p.mu.Lock()
	n := p.counts[request{worker, key}]
	p.counts[request{worker, key}]++
	p.mu.Unlock()
	r := rand.New(rand.NewPCG(p.seed, uint64(worker)<<40|uint64(key)<<32|uint64(n)))
	f := fate{latency: time.Duration(r.Int64N(int64(p.latency) + 1))}
	if p.healed.Load() {
		return f
	}
	weight, ok := weights[kmsg.Key(key)]
	if !ok {
		weight = 1
	}
	if r.Float64() >= p.rate*weight {
		return f
	}
	if f.kind = fateKind(1 + r.IntN(int(fateKinds)-1)); !p.kinds[f.kind] {
		return fate{latency: f.latency}
	}
	what := f.kind.String()
	switch f.kind {
	case late, answerLate:
		f.delay = []time.Duration{20 * time.Millisecond, time.Second, p.timeout + time.Second, 35 * time.Second, 70 * time.Second}[r.IntN(5)]
		what += " " + f.delay.String()
	case refused:
		from := answers[kmsg.Key(key)]
		lie := p.liars && r.IntN(3) == 0 && lies[kmsg.Key(key)] != nil
		if lie {
			from = lies[kmsg.Key(key)]
		}
		if len(from) == 0 {
			return fate{latency: f.latency}
		}
		f.fault = kfake.Fault{Keys: []kmsg.Key{kmsg.Key(key)}, Err: from[r.IntN(len(from))]}
		if kmsg.Key(key) == kmsg.Produce && r.IntN(2) == 0 {
			f.fault.Partitions = []int32{int32(r.IntN(dataPartitions))}
		}
		if lie {
			p.mu.Lock()
			p.lied[worker] = true
			p.mu.Unlock()
		}
		what += " " + f.fault.Err.Message
	}
	p.note("w%d %s %d: %s", worker, kmsg.NameForKey(key), n, what)
	p.mu.Lock()
	p.dealt[f.kind.String()]++
	p.mu.Unlock()
	return f
}

// rng is for what does not depend on the order of events.
func (p *plan) rng(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(p.seed, 1<<60|stream)) }
