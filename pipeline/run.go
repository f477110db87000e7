package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// ErrTransactionTimedOut is in the chain of a Sink's error when the broker has ended a transaction
// for its age, as opposed to for another producer. The Sink adds its age and the rate seen.
var ErrTransactionTimedOut = errors.New("the Kafka transaction timed out")

// Run streams until the context ends or an error stops it that waiting does not cure.
//
// When the context ends, what is complete is committed and acknowledged, what is not is
// aborted, and Run returns nil. On errors of ClassBlock, ClassRefused and ClassFenced it
// releases everything and returns the error; complete transactions before the error are
// published first. ErrEnd of a bounded source ends it with nil, everything before it committed. Any other error is reported as WAITING with its reason, and after a pause
// everything starts over with a new Sink, a new Source and the offsets as stored: this also
// settles a commit whose outcome is unknown. Run waits for every goroutine it started.
func Run(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return connectors.Refuse(err)
	}
	r := runner{cfg: &cfg}
	for {
		r.report("STARTING", "")
		err := r.once(ctx)
		if ctx.Err() != nil && connectors.ClassOf(err) == connectors.ClassWait {
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				cfg.Log.Warn("stopped before everything was published; it is read again at the next start", "reason", err)
			}
			r.report("STOPPED", "")
			return nil
		}
		if errors.Is(err, connectors.ErrEnd) {
			r.report("STOPPED", "")
			return nil
		}
		if r.singly(err) {
			continue
		}
		if err = r.timedOut(err); connectors.ClassOf(err) != connectors.ClassWait {
			r.report(map[connectors.Class]string{
				connectors.ClassBlock: "BLOCKED", connectors.ClassRefused: "STOPPED", connectors.ClassFenced: "FENCED",
			}[connectors.ClassOf(err)], err.Error())
			return err
		}
		r.report("WAITING", err.Error())
		r.sleep(ctx)
	}
}

// runner is what outlives a start.
type runner struct {
	cfg      *Config
	attempt  int  // starts without progress
	expired  bool // the last start ended with a transaction timed out
	progress bool // the last start committed something
	group    int  // source transactions in the Kafka transaction that was open when the last start ended
	alone    int  // source transactions that the next start commits one by one
	peak     int  // highest memory use of the pool, in bytes
}

func (r *runner) report(name, reason string) {
	r.cfg.Report(connectors.State{Name: name, Reason: reason})
}

// singly tells that Kafka refused a record of a Kafka transaction that holds other source transactions too: the next
// start commits as many one by one, so that those before the refused one are published before it blocks.
func (r *runner) singly(err error) bool {
	r.alone = 0
	if connectors.ClassOf(err) != connectors.ClassBlock || r.group < 2 {
		return false
	}
	r.alone = r.group
	r.report("WAITING", fmt.Sprintf("one of %d source transactions was refused, they are published one by one: %v", r.group, err))
	return true
}

// timedOut turns the second timeout in a row without progress into a block: what cannot finish in time must not be tried for ever.
func (r *runner) timedOut(err error) error {
	if !errors.Is(err, ErrTransactionTimedOut) {
		r.expired = r.expired && !r.progress && connectors.ClassOf(err) == connectors.ClassWait
		return err
	}
	if !r.expired || r.progress {
		r.expired = true
		return connectors.WithClass(connectors.ClassWait, err)
	}
	return connectors.Block(fmt.Errorf("a source transaction does not finish within transaction.timeout.ms, tried twice: %w", err))
}

// sleep waits exponentially longer with every start that made no progress, ±20 %.
func (r *runner) sleep(ctx context.Context) {
	if r.progress {
		r.attempt = 0
	}
	d := r.cfg.BackoffMax
	if r.attempt < 20 {
		d = min(d, r.cfg.BackoffMin<<r.attempt)
	}
	r.attempt++
	d = time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func nowMillis() int64 { return time.Now().UnixMilli() }
