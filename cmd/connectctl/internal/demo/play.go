//go:build linux || darwin

package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/judge"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/shop"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/watch"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// How long each part may take at most, and how the shop works.
const (
	startLimit   = 60 * time.Second
	killLimit    = 60 * time.Second
	publishLimit = 120 * time.Second
	judgeLimit   = 120 * time.Second

	staff       = 2
	pace        = 12 * time.Millisecond
	beforeHot   = 2 * time.Second
	afterHot    = 1 * time.Second
	outage      = 1 * time.Second
	afterReturn = 3 * time.Second

	// Inside the large transaction: this many of its rows lie at the broker, uncommitted.
	openEnough = 5_000
	killTries  = 3
)

// play is the course of the demo, with its goroutines and what the end needs to know.
type play struct {
	*session
	cancel  context.CancelCauseFunc
	begin   time.Time
	working sync.WaitGroup

	watcher    *watch.Watcher
	stopWatch  context.CancelFunc
	traffic    shop.Traffic
	registry   *registry.Client
	killedPID  int
	openAtKill int64
	started    time.Time // of the worker
	published  time.Time // all of it
	logged     int       // changes in the database's log
	counts     judge.Counts
}

// spawn runs f and ends the play with its error, or with its panic.
func (p *play) spawn(f func() error) {
	p.working.Add(1)
	go func() {
		defer p.working.Done()
		defer func() {
			if broken := recover(); broken != nil {
				p.cancel(brokenDown(broken))
			}
		}()
		if err := f(); err != nil {
			p.cancel(err)
		}
	}()
}

// wait ends everything the play started but the servers.
func (p *play) wait() {
	p.cancel(nil)
	if w := p.current(); w != nil && !p.opt.Keep {
		_ = w.kill()
	}
	p.working.Wait()
	if p.registry != nil {
		p.registry.Close()
	}
}

func (p *play) play(ctx context.Context) (Result, error) {
	var err error
	if p.registry, err = registry.New(registry.Config{URLs: []string{p.topics.registry}}); err != nil {
		return Result{}, err
	}
	p.screen.Say("the shop has %d tables in schema %s; slot %s and the judge's slot are made at one place of the log", len(shop.Tables()), p.db.shop.Schema, p.db.slot)
	p.watch(ctx)
	if err := p.launch(ctx, "the worker runs"); err != nil {
		return Result{}, err
	}
	p.started = time.Now()
	p.passing("worker")
	closing := make(chan struct{})
	staffDone, err := p.openShop(ctx, closing)
	if err != nil {
		return Result{}, err
	}
	if err := p.within(ctx, startLimit, "no record was published", p.watcher.WaitRecord); err != nil {
		return Result{}, err
	}
	if err := p.drama(ctx); err != nil {
		return Result{}, err
	}
	close(closing)
	select {
	case <-staffDone:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	return p.finish(ctx)
}

// launch starts the worker and ends the play if the worker ends while nobody killed it.
func (p *play) launch(ctx context.Context, what string) error {
	w, err := p.startWorker()
	if err != nil {
		return err
	}
	p.screen.Say("%s (pid %d): connectctl run %s %s", what, w.process.PID, p.run.Join("worker.properties"), p.run.Join("connector.properties"))
	p.spawn(func() error {
		select {
		case <-w.ended:
			if p.current() == w && ctx.Err() == nil {
				return w.failure()
			}
		case <-ctx.Done():
		}
		return nil
	})
	return nil
}

// openShop starts the staff; the channel closes when all of them have gone home.
func (p *play) openShop(ctx context.Context, closing <-chan struct{}) (<-chan struct{}, error) {
	var all sync.WaitGroup
	for range staff {
		conn, err := p.db.connect(ctx)
		if err != nil {
			return nil, err
		}
		all.Add(1)
		p.spawn(func() error {
			defer all.Done()
			defer conn.Close(context.WithoutCancel(ctx))
			err := p.db.shop.Staff(ctx, conn, &p.traffic, pace, closing)
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	done := make(chan struct{})
	p.spawn(func() error { all.Wait(); close(done); return nil })
	return done, nil
}

// drama is the part between the opening and the closing of the shop.
func (p *play) drama(ctx context.Context) error {
	conn, err := p.db.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := pause(ctx, beforeHot); err != nil {
		return err
	}
	p.screen.Say("one transaction updates one row %s times", thousands(shop.HotUpdates))
	if err := p.db.shop.Hot(ctx, conn); err != nil {
		return err
	}
	if err := pause(ctx, afterHot); err != nil {
		return err
	}
	for round := 0; p.openAtKill == 0; round++ {
		if round == killTries {
			return fmt.Errorf("the worker finished a transaction of %s rows before it could be killed, %d times: this machine is too fast or too busy, try again", thousands(shop.BulkRows), killTries)
		}
		p.screen.Say("one transaction inserts %s rows", thousands(shop.BulkRows))
		inserted := make(chan error, 1)
		p.spawn(func() error { inserted <- p.db.shop.Bulk(ctx, conn, round); return nil })
		killErr := p.within(ctx, killLimit, fmt.Sprintf("nothing of a transaction of %s rows came to the broker", thousands(shop.BulkRows)), p.killInside)
		if err := errors.Join(<-inserted, killErr); err != nil {
			return err
		}
	}
	if err := pause(ctx, outage); err != nil {
		return err
	}
	if err := p.launch(ctx, "the worker runs again"); err != nil {
		return err
	}
	p.screen.Say("it fences its predecessor, whose open transaction is aborted, and sends the rows again from the first; until all are there, readers see nothing new")
	return pause(ctx, afterReturn)
}

// killInside waits until the broker holds part of the large transaction, uncommitted, kills the worker,
// and looks again: what is still open then was cut off. Without it the kill came too late.
func (p *play) killInside(ctx context.Context) error {
	adm, err := p.topics.client()
	if err != nil {
		return err
	}
	defer adm.Close()
	topic := p.dataPrefix() + shop.BulkTable
	before := p.watcher.Records()
	for {
		n, err := open(ctx, adm, topic)
		if err != nil {
			return err
		}
		if n >= openEnough {
			break
		}
		if p.watcher.Records() > before+shop.BulkRows { // seen by readers: it was committed between two looks
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return p.killWorker(ctx, adm, topic)
}

func (p *play) killWorker(ctx context.Context, adm *kadm.Client, topic string) error {
	p.mu.Lock()
	w := p.worker
	p.worker = nil // its end is no failure now
	p.mu.Unlock()
	if err := w.kill(); err != nil {
		return err
	}
	p.killedPID = w.process.PID
	n, err := open(ctx, adm, topic)
	if err != nil {
		return err
	}
	if n == 0 {
		p.screen.Say("the worker (pid %d) was killed, but a moment too late", w.process.PID)
		return p.launch(ctx, "the worker runs again")
	}
	p.openAtKill = n
	p.screen.Say("SIGKILL to the worker (pid %d) inside that transaction: the broker holds %s of its rows, in a Kafka transaction still open, unseen by read_committed readers", w.process.PID, thousands(n))
	return nil
}

// finish waits until everything is published, then judges.
func (p *play) finish(ctx context.Context) (Result, error) {
	conn, err := p.db.connect(ctx)
	if err != nil {
		return Result{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	target, err := p.db.position(ctx, conn)
	if err != nil {
		return Result{}, err
	}
	p.screen.Say("the shop closes; everything before %s has to be published", target)
	err = p.within(ctx, publishLimit, "not everything was published", func(ctx context.Context) error { return p.watcher.WaitCommitted(ctx, target) })
	if err != nil {
		return Result{}, err
	}
	p.published = time.Now()
	slot, err := p.waitAcknowledged(ctx, target)
	if err != nil {
		return Result{}, err
	}
	committed := p.watcher.Committed() // read after the slot, so it may only be further
	p.stopWatch()
	p.screen.Status("")
	if !p.opt.Keep {
		p.mu.Lock()
		w := p.worker
		p.worker = nil
		p.mu.Unlock()
		if err := w.stop(5 * time.Second); err != nil {
			return Result{}, err
		}
	}
	if err := p.within(ctx, judgeLimit, "the judge did not come to an end", p.judge); err != nil {
		return Result{}, err
	}
	return p.result(slot, committed), nil
}

// waitAcknowledged waits until the slot has followed; it must not be ahead, which the verdict checks.
func (p *play) waitAcknowledged(ctx context.Context, target pgoutput.LSN) (slot pgoutput.LSN, err error) {
	conn, err := p.db.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = p.within(ctx, startLimit, "the slot was not acknowledged", func(ctx context.Context) error {
		for {
			if slot, err = p.db.confirmed(ctx, conn); err != nil || slot >= target {
				return err
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	})
	return slot, err
}

func (p *play) judge(ctx context.Context) error {
	p.screen.Say("the judge reads the database's second slot and all topics anew")
	conn, err := p.db.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	log, err := judge.ReadLog(ctx, conn, p.db.judgeSlot, p.db.publication)
	if err != nil {
		return err
	}
	tally := judge.NewTally(log)
	err = judge.ReadTopics(ctx, judge.Topics{Seeds: p.topics.seeds, Prefix: p.dataPrefix(), Registry: p.registry, Hot: shop.HotTable, HotID: shop.HotID}, shop.Tables(), tally)
	if err != nil {
		return err
	}
	p.logged, p.counts = len(log.Changes), tally.Verdict()
	return nil
}

func (p *play) result(slot, committed pgoutput.LSN) Result {
	c := p.counts
	return Result{
		Changes: c.Changes, Transactions: c.Transactions, Lost: c.Lost, Duplicated: c.Duplicated, OrderViolations: c.OrderViolations,
		HotPositions: c.HotPositions, DedupLatest: c.DedupLatest, SlotConfirmed: slot.String(), Committed: committed.String(),
		EventsPerSecond: round(float64(c.Changes) / p.published.Sub(p.started).Seconds()),
		Seconds:         round(time.Since(p.begin).Seconds()),
	}
}

func round(f float64) float64 { return float64(int64(f*10+0.5)) / 10 }

// dataPrefix is the names of the data topics up to the table's.
func (p *play) dataPrefix() string { return p.topics.prefix + "." + p.db.shop.Schema + "." }

// within bounds one part of the play; the sentence says what did not happen.
func (p *play) within(ctx context.Context, limit time.Duration, sentence string, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(bounded)
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return err
	}
	if why := reason(p.run); why != "" {
		return fmt.Errorf("%s within %s; the worker says: %s", sentence, limit, why)
	}
	return fmt.Errorf("%s within %s", sentence, limit)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
