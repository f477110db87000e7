package check

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Acknowledged judges that a slot is never confirmed beyond the committed offset. It is pure: what was seen is put in.
//
// The slot is read first, then the transaction's state, then the offset. A commit is decided a moment before its markers
// make it visible, so what the reader sees may lag; but where the transaction of the connector is a new one, all of the one
// before is visible, and nothing excuses a slot that is ahead of it.
type Acknowledged struct {
	Samples int // judged

	pending uint64 // the greatest confirmed position that was not seen committed when it was sampled
	found   []string
}

// Sample takes the slot's confirmed position, whether the connector's Kafka transaction was certainly not being committed
// after that, and the offset that a read_committed reader then saw.
func (a *Acknowledged) Sample(confirmed uint64, settled bool, recorded uint64) {
	a.Samples++
	switch {
	case recorded >= a.pending:
		a.pending = 0
	case settled:
		a.object(a.pending, recorded)
		a.pending = 0
	}
	if confirmed <= recorded {
		return
	}
	if settled {
		a.object(confirmed, recorded)
		return
	}
	a.pending = max(a.pending, confirmed)
}

func (a *Acknowledged) object(confirmed, recorded uint64) {
	if len(a.found) < 100 {
		a.found = append(a.found, fmt.Sprintf("the slot is confirmed up to %s, the committed offset is %s", FormatLSN(confirmed), FormatLSN(recorded)))
	}
}

// End takes the committed offset after everything has ended and returns what was found.
func (a *Acknowledged) End(recorded uint64) []string {
	if a.pending > recorded {
		a.object(a.pending, recorded)
	}
	a.pending = 0
	return a.found
}

// Sampling says what a Sampler looks at.
type Sampling struct {
	Database        string   // connection URL
	Slot            string   //
	Seeds           []string // brokers
	Offsets         string   // topic
	TransactionalID string
	Every           time.Duration
	// Start is the slot's position before there is any offset.
	Start uint64
}

// Sampler samples slot and offset until it is stopped. Where the database or Kafka cannot be asked, the sample is left out.
type Sampler struct {
	o      Sampling
	cancel context.CancelFunc
	wg     sync.WaitGroup
	judge  Acknowledged // of the goroutine until it ended
}

// StartSampler begins to sample.
func StartSampler(ctx context.Context, o Sampling) (*Sampler, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(o.Seeds...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Sampler{o: o, cancel: cancel}
	s.wg.Go(func() {
		defer cl.Close()
		s.run(ctx, kadm.NewClient(cl))
	})
	return s, nil
}

// Stop ends sampling and returns how many samples were judged and what was found; recorded is the committed offset now.
func (s *Sampler) Stop(recorded uint64) (samples int, found []string) {
	s.cancel()
	s.wg.Wait()
	return s.judge.Samples, s.judge.End(max(recorded, s.o.Start))
}

func (s *Sampler) run(ctx context.Context, adm *kadm.Client) {
	tick := time.NewTicker(s.o.Every)
	defer tick.Stop()
	view := NewBoundary(s.o.Seeds, s.o.Offsets, s.o.Start)
	defer view.Close()
	var conn *pgx.Conn
	defer func() { closeConn(conn) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		one, cancel := context.WithTimeout(ctx, 2*time.Second)
		var err error
		if conn, err = s.sample(one, conn, adm, view); err != nil {
			closeConn(conn)
			conn = nil
		}
		cancel()
	}
}

func closeConn(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

func (s *Sampler) sample(ctx context.Context, conn *pgx.Conn, adm *kadm.Client, view *Boundary) (*pgx.Conn, error) {
	var err error
	if conn == nil {
		if conn, err = pgx.Connect(ctx, s.o.Database); err != nil {
			return nil, err
		}
	}
	var text *string
	err = conn.QueryRow(ctx, `SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = $1`, s.o.Slot).Scan(&text)
	if err != nil || text == nil {
		return conn, err
	}
	confirmed, err := ParseLSN(*text)
	if err != nil {
		return conn, err
	}
	if confirmed <= view.At {
		s.judge.Sample(confirmed, false, view.At)
		return conn, nil
	}
	state, err := adm.DescribeTransactions(ctx, s.o.TransactionalID)
	if err != nil {
		return conn, err
	}
	// Ongoing: the transaction before this one, which the slot was confirmed after, is wholly marked.
	settled := state[s.o.TransactionalID].Err == nil && state[s.o.TransactionalID].State == "Ongoing"
	if settled && s.unmarked(ctx, adm, state[s.o.TransactionalID]) {
		settled = false
	}
	if err := view.Read(ctx, adm); err != nil {
		return conn, err
	}
	s.judge.Sample(confirmed, settled, view.At)
	return conn, nil
}

// unmarked tells whether the transaction before this one is not marked after all: a broker that shuts down may forget it.
func (s *Sampler) unmarked(ctx context.Context, adm *kadm.Client, now kadm.DescribedTransaction) bool {
	listed, err := adm.ListTopics(ctx, s.o.Offsets)
	if err != nil {
		return true
	}
	set := kadm.TopicsSet{}
	for partition := range listed[s.o.Offsets].Partitions {
		set.Add(s.o.Offsets, partition)
	}
	producers, err := adm.DescribeProducers(ctx, set)
	if err != nil {
		return true
	}
	for _, p := range producers.SortedProducers() {
		if p.ProducerID == now.ProducerID && p.ProducerEpoch < now.ProducerEpoch && p.CurrentTxnStartOffset >= 0 {
			return true
		}
	}
	return false
}
