package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

// Options of a run.
type Options struct {
	Binary string // connectctl
	Seed   uint64
	Rounds int           // to make; 0: as many as there is time for
	For    time.Duration // begin no round after so long; 0: no limit
	Labs   int           // side by side, each with servers of its own; 1 where 0
	Fault  string        // only this one; empty: all; Each
	Out    io.Writer
}

// Each strikes every fault in turn, one a round.
const Each = "each"

// Room is what one lab needs.
const (
	roomDisk   = 3 << 30
	roomMemory = 1 << 30
)

// Lacks says what the machine lacks of room for so many labs, nil where it has all.
func Lacks(labs int) error {
	var fs syscall.Statfs_t
	dir := os.TempDir()
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look for room in %s: %w", dir, err)
	}
	var missing []error
	if free, need := int64(fs.Bavail)*fs.Bsize, int64(labs)*roomDisk; free < need {
		missing = append(missing, fmt.Errorf("%s has %d MiB of room, %s need %d MiB: set TMPDIR to a folder with more", dir, free>>20, count(labs, "lab"), need>>20))
	}
	if free, need := memory(), int64(labs)*roomMemory; free > 0 && free < need {
		missing = append(missing, fmt.Errorf("%d MiB of memory are free, %s need %d MiB", free>>20, count(labs, "lab"), need>>20))
	}
	return errors.Join(missing...)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// memory is what is free, in bytes, 0 where that is not known.
func memory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for {
		var name, unit string
		var n int64
		if _, err := fmt.Fscan(f, &name, &n); err != nil {
			return 0
		}
		_, _ = fmt.Fscanln(f, &unit)
		if name == "MemAvailable:" {
			return n << 10
		}
	}
}

// Run makes rounds until there are enough, time is up or ctx ends. The error is of the run itself, not of the stream's: what
// was found is in the report. Whatever was started has ended when it returns.
func Run(ctx context.Context, e *env.Env, o Options) (*Report, error) {
	if o.Fault != "" && o.Fault != Each {
		if _, _, err := find(o.Fault); err != nil {
			return nil, err
		}
	}
	r := &Report{Seed: o.Seed, Labs: max(o.Labs, 1), Faults: map[string]int{}, out: o.Out, began: time.Now()}
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, max(o.Labs, 1))
	for i := range errs {
		wg.Go(func() { errs[i] = rounds(ctx, e, o, r, &next) })
	}
	wg.Wait()
	r.Took, r.Interrupted = time.Since(r.began), ctx.Err() != nil
	return r, errors.Join(errs...)
}

// roundsPerLab is how long a lab's servers live: what they have written is removed with them.
const roundsPerLab = 250

// mostBroken is how many labs may break one after another without a round between them.
const mostBroken = 3

// rounds is the work of one lab after another, each with servers of its own. One that breaks is replaced.
func rounds(ctx context.Context, e *env.Env, o Options, r *Report, next *atomic.Int64) error {
	broke := 0
	for ctx.Err() == nil {
		made, over, err := labRounds(ctx, e, o, r, next)
		switch {
		case over || ctx.Err() != nil:
			return nil
		case err == nil || made > 0:
			broke = 0
		}
		if err == nil {
			continue
		}
		r.replaced(err)
		if broke++; broke == mostBroken {
			return fmt.Errorf("%d labs broke one after another: %w", broke, err)
		}
	}
	return nil
}

// labRounds is one lab's work: made rounds, and whether no more are to be made.
func labRounds(ctx context.Context, e *env.Env, o Options, r *Report, next *atomic.Int64) (made int, over bool, err error) {
	l := &lab{ctx: ctx, o: o, report: r, sc: newScope(ctx, r.say)}
	seed := uint64(0)
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if text, ok := p.(broken); ok {
			err = fmt.Errorf("seed %d: %s", seed, string(text))
		} else {
			err = fmt.Errorf("seed %d: %v\n%s", seed, p, debug.Stack())
		}
	}()
	defer l.close()
	l.start(e)
	for ; ctx.Err() == nil && made < roundsPerLab; made++ {
		i := int(next.Add(1)) - 1
		if o.Rounds > 0 && i >= o.Rounds+r.broken() || o.For > 0 && time.Since(r.began) > o.For {
			return made, true, nil
		}
		seed = o.Seed + uint64(i)
		before := r.violations()
		r.begun()
		l.round(seed)
		if r.violations() > before && ctx.Err() == nil {
			r.say("a round like this one: " + one(seed, o.Fault))
			l.drop() // what is wrong now would be wrong in every round
		}
	}
	return made, false, nil
}

// one is the command that makes a seed's round.
func one(seed uint64, fault string) string {
	text := fmt.Sprintf("make chaos ROUNDS=1 SEED=%d", seed)
	if fault != "" && fault != Each {
		text += fmt.Sprintf(" FAULT=%q", fault)
	}
	return text
}

// random is what a round draws from.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// round is one burst of load with its faults, and the judgement.
func (l *lab) round(seed uint64) {
	rnd := random(seed)
	began := time.Now()
	reads := l.reads(seed)
	s := l.stream(seed, reads)
	s.rounds++
	during, rest := l.plan(rnd)
	w := startLoad(l.ctx, s.DB.URL(), rnd, &s.column)
	defer w.end() // also where the lab breaks
	l.ask(seed, reads.tables)
	for _, f := range during {
		l.awhile(rnd, 200)
		l.sample()
		l.strike(f, rnd)
	}
	w.end()
	struck := time.Since(began)
	if said := w.said.Load(); said != nil {
		l.sc.Fatal("the load makes a mistake: " + *said)
	}
	defer func() {
		if l.ctx.Err() == nil {
			l.report.rounded(int(w.transactions.Load()))
		}
	}()
	if err := l.settle(); err != nil && l.ctx.Err() == nil {
		l.report.violation(err.Error())
		return
	}
	for _, f := range rest {
		l.strike(f, rnd)
		if l.st == nil { // it was the stream's last
			break
		}
		if err := l.settle(); err != nil && l.ctx.Err() == nil {
			l.report.violation(err.Error())
			return
		}
	}
	if l.ctx.Err() != nil {
		return
	}
	list := ""
	for _, f := range append(during, rest...) {
		list += "; " + f.name
	}
	if len(reads.tables) > 0 {
		list += "; read " + strings.Join(reads.tables, ", ")
	}
	l.report.say(fmt.Sprintf("seed %d: %.1f s (%.1f of faults, %.1f until all was published), %d transactions committed, %d not%s",
		seed, time.Since(began).Seconds(), struck.Seconds(), l.settled.Seconds(), w.transactions.Load(), w.failed.Load(), list))
}

// plan chooses a round's faults: under load, and at rest after it.
func (l *lab) plan(rnd *rand.Rand) (during, rest []fault) {
	if name := l.o.Fault; name != "" {
		if name == Each {
			name = inTurn(l.struck).name
			l.struck++
		}
		list, under, _ := find(name)
		if under {
			return list, nil
		}
		return nil, list
	}
	for range 1 + rnd.IntN(3) {
		during = append(during, pick(faults, rnd))
	}
	if rnd.IntN(16) == 0 {
		rest = append(rest, pick(atRest, rnd))
	}
	return during, rest
}

func (l *lab) strike(f fault, rnd *rand.Rand) {
	if l.ctx.Err() != nil {
		return
	}
	l.report.struck(f.name)
	if err := f.strike(l, rnd); err != nil && l.ctx.Err() == nil {
		l.report.violation(f.name + ": " + err.Error())
	}
}

// settle waits for the end of all that is under way and judges it.
func (l *lab) settle() error {
	began := time.Now()
	if err := l.quiesce(); err != nil {
		return err
	}
	if err := l.readAll(); err != nil {
		return err
	}
	l.settled = time.Since(began)
	return l.judge()
}
