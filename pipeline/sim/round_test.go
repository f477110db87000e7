package sim

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline"
	"github.com/tidemark-cdc/tidemark/pipeline/encode"
	"github.com/tidemark-cdc/tidemark/schema"
)

const (
	prefix         = "srv"
	connector      = "sim"
	offsetsTopic   = "offsets"
	dataPartitions = 2

	// settleIn is how long a stream without further faults may take to publish everything: the longest transaction, its wait
	// and a few pauses of 30 s.
	settleIn = 15 * time.Minute
)

type fault = kfake.Fault

func topicOf(t *schema.Table) string { return prefix + "." + t.QualifiedName() }

// topics are all there are, with their partitions.
func topics() map[string]int32 {
	all := map[string]int32{offsetsTopic: 3, encode.GenerationsTopic(prefix): 1, prefix + ".transaction": 1}
	for _, t := range tables {
		all[topicOf(t)] = dataPartitions
	}
	return all
}

// round is one simulation.
type round struct {
	plan      *plan
	virtual   kfake.VirtualNetwork
	cluster   *kfake.Cluster
	bootstrap string
	epochs    epochs
	d         *database
	judge     *judge
	healed    chan struct{}
	links     sync.WaitGroup

	mu      sync.Mutex
	workers []*worker
	faults  []*kfake.FaultHandle
	took    time.Duration // to settle
}

// result is what a round gives.
type result struct {
	problems string
	trace    []string
	dealt    map[string]int
	workers  int
	changes  int
	samples  int
	settled  time.Duration
	clock    time.Duration // of the bubble
}

// simulate runs a round in a bubble of its own.
func simulate(t *testing.T, p *plan) (out result) {
	synctest.Test(t, func(*testing.T) { out = run(p) })
	return out
}

func run(p *plan) result {
	r := &round{plan: p, d: newDatabase(), healed: make(chan struct{})}
	if err := r.open(); err != nil {
		return result{problems: err.Error()}
	}
	var g sync.WaitGroup
	g.Go(r.load)
	g.Go(r.chaos)
	stopped := make(chan struct{})
	g.Go(func() { r.supervise(stopped) })
	g.Go(func() { r.watch(stopped) })
	time.Sleep(p.horizon)
	r.heal()
	r.settle()
	close(stopped)
	g.Wait()
	for _, w := range r.workers {
		w.stop()
		<-w.done
	}
	r.links.Wait() // requests may still be under way
	r.judge.finish()
	r.judge.cl.Close()
	r.cluster.Close()
	out := result{problems: r.judge.verdict(), trace: p.trace, dealt: p.dealt, workers: len(r.workers), samples: r.judge.samples, settled: r.took, clock: time.Since(epoch)}
	for _, n := range r.d.written {
		out.changes += n
	}
	return out
}

func (r *round) open() (err error) {
	ports := []int{9092, 9093, 9094}[:r.plan.brokers]
	opts := []kfake.Opt{
		kfake.NumBrokers(r.plan.brokers), kfake.Ports(ports...), kfake.ListenFn(r.virtual.Listen),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "2147483647", "log.retention.ms": "-1", "transaction.max.timeout.ms": "900000"}),
	}
	for topic, n := range topics() {
		opts = append(opts, kfake.SeedTopics(n, topic))
	}
	if r.plan.old {
		opts = append(opts, kfake.MaxVersions(kversion.V3_8_0()))
	}
	if r.cluster, err = kfake.NewCluster(opts...); err != nil {
		return err
	}
	for key, control := range map[kmsg.Key]func(kmsg.Request) (kmsg.Response, error, bool){kmsg.Produce: r.epochs.produce, kmsg.InitProducerID: r.epochs.init} {
		r.cluster.ControlKey(int16(key), func(k kmsg.Request) (kmsg.Response, error, bool) {
			r.cluster.KeepControl()
			return control(k)
		})
	}
	r.bootstrap = strings.Join(r.cluster.ListenAddrs(), ",")
	r.judge, err = newJudge(r.plan, r.d, kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.Dialer(r.virtual.DialContext))
	return err
}

// load commits transactions at the source.
func (r *round) load() {
	rng := r.plan.rng(1)
	gap := r.plan.horizon / time.Duration(r.plan.transactions)
	for range r.plan.transactions {
		r.d.commit(rng)
		switch rng.IntN(4) {
		case 0: // a burst
		case 1:
			time.Sleep(2 * gap)
		default:
			time.Sleep(time.Duration(rng.Int64N(int64(gap) + 1)))
		}
	}
}

// refuse makes the broker answer with an error, once.
func (r *round) refuse(f fault) {
	h := r.cluster.Fault(f)
	r.mu.Lock()
	r.faults = append(r.faults, h)
	r.mu.Unlock()
}

// chaos is what happens to machines: kills, pauses, cuts, a second worker, and brokers that change places.
func (r *round) chaos() {
	rng := r.plan.rng(2)
	for range r.plan.events {
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(r.plan.horizon) / int64(r.plan.events)))):
		case <-r.healed:
			return
		}
		kind, long := rng.IntN(6), time.Duration(rng.Int64N(int64(2*r.plan.timeout)))
		w := r.running()
		switch {
		case kind == 5:
			r.plan.note("the brokers change places")
			r.cluster.ShufflePartitionLeaders()
			r.cluster.RehashCoordinators()
		case w == nil:
		case kind == 0:
			w.host.kill()
		case kind == 1:
			r.plan.note("w%d is frozen for %s", w.n, long)
			w.host.freeze(long)
			if rng.IntN(2) == 0 { // and somebody else takes over
				r.start()
			}
		case kind == 2:
			r.plan.note("all connections of w%d end", w.n)
			w.host.cut()
		case kind == 3:
			r.start()
		case kind == 4:
			r.plan.note("w%d is stopped", w.n)
			w.stop()
		}
	}
}

// running returns the newest worker that runs.
func (r *round) running() *worker {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.workers) - 1; i >= 0; i-- {
		if r.workers[i].running() {
			return r.workers[i]
		}
	}
	return nil
}

// supervise keeps a worker running, as whoever operates it would.
func (r *round) supervise(stopped <-chan struct{}) {
	rng := r.plan.rng(3)
	for {
		w := r.running()
		if w == nil {
			w = r.start()
		}
		select {
		case <-w.done:
		case <-w.host.dead:
		case <-stopped:
			return
		}
		select {
		case <-time.After(time.Duration(rng.Int64N(int64(3 * time.Second)))):
		case <-stopped:
			return
		}
	}
}

// watch takes samples while nobody acknowledges.
func (r *round) watch(stopped <-chan struct{}) {
	for {
		select {
		case <-time.After(r.plan.horizon / 10):
			r.judge.look()
		case <-stopped:
			return
		}
	}
}

// ended judges why a worker ended.
func (r *round) ended(w *worker) {
	r.plan.mu.Lock()
	lied := r.plan.lied[w.n]
	r.plan.mu.Unlock()
	switch connectors.ClassOf(w.err) {
	case connectors.ClassRefused:
		r.judge.complain("w%d was refused: %v", w.n, w.err)
	case connectors.ClassBlock:
		if errors.Is(w.err, pipeline.ErrTransactionTimedOut) {
			r.judge.complain("w%d blocks for a transaction that was long only because Kafka was away: %v", w.n, w.err)
		}
	case connectors.ClassFenced:
		if r.epochs.owns(w.n) && !lied {
			r.judge.complain("w%d says that it was fenced, and nobody has taken over: %v", w.n, w.err)
		}
	}
}

// heal ends all faults.
func (r *round) heal() {
	r.plan.healed.Store(true)
	close(r.healed)
	r.plan.note("no further faults")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.faults {
		h.Remove()
	}
}

// settle waits until everything is published and acknowledged.
func (r *round) settle() {
	from := time.Now()
	for time.Since(from) < settleIn {
		r.d.mu.Lock()
		written := int64(len(r.d.written))
		r.d.mu.Unlock()
		if written == int64(r.plan.transactions) && r.d.log.Acked() == written {
			r.took = time.Since(from)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.took = time.Since(from)
	r.judge.complain("nothing disturbs it since %s, and it has not come to the end", settleIn)
}
