package sink

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// Incarnation is the last producer of a worker, kept from one of its sinks to the next. A worker that waits, for its database
// say, starts again and again; without it each start would fence the worker that has taken over meanwhile, which is
// the one that should win. The zero value knows none, and so does that of a new process: it fences.
type Incarnation struct {
	mu    sync.Mutex
	known bool
	id    int64
	epoch int16
}

const (
	rememberTimeout   = time.Second
	supersededTimeout = 5 * time.Second
)

// remember notes the session's producer, if it ends with nothing in doubt: the broker itself moves the epoch of one
// whose transaction it has to end.
func (i *Incarnation) remember(se *session) {
	if i == nil || se.open || se.spent != nil || se.flight.failure().err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rememberTimeout)
	defer cancel()
	id, epoch, err := se.cl.ProducerID(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known, i.id, i.epoch = err == nil && id >= 0, id, epoch
}

// take returns the producer that was remembered, once: the next one has another epoch.
func (i *Incarnation) take() (id int64, epoch int16, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	ok, i.known = i.known, false
	return i.id, i.epoch, ok
}

// superseded returns an error of class fenced where another worker took the transactional id since our last producer was
// closed. What cannot be asked does not stop a start.
func (s *Sink) superseded(ctx context.Context) error {
	if s.cfg.Before == nil {
		return nil
	}
	id, epoch, ok := s.cfg.Before.take()
	if !ok {
		return nil
	}
	cl, err := kgo.NewClient(s.cfg.Opts...)
	if err != nil {
		return nil
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, supersededTimeout)
	defer cancel()
	for {
		described, err := kadm.NewClient(cl).DescribeTransactions(ctx, s.cfg.TransactionalID)
		d, ok := described[s.cfg.TransactionalID]
		if err != nil || !ok || d.Err != nil {
			return nil
		}
		if !strings.HasPrefix(d.State, "Prepare") { // else the epoch is about to move
			if d.ProducerID == id && d.ProducerEpoch == epoch {
				return nil
			}
			return connectors.WithClass(connectors.ClassFenced, fmt.Errorf("another worker has taken over transactional id %s while this one was waiting", s.cfg.TransactionalID))
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return nil
		}
	}
}
