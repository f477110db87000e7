package chaos

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// Exit codes of connectctl run.
const (
	codeBlocked    = 3
	codeFenced     = 4
	codeRefused    = 5
	codeTerminated = 128 + int(syscall.SIGTERM)
)

const soon = 30 * time.Second

// again kills the worker and starts another.
func (l *lab) again() {
	l.st.w.Kill()
	l.pgProxy.Reset()
	l.st.w = l.st.Start()
}

// running waits until the worker streams, however often it has to try; false where it ended or did not get there.
func (l *lab) running() bool {
	w := l.st.w
	return l.eventually(soon, func() bool { return w.Ended() || w.State().Name == "RUNNING" }) && !w.Ended()
}

func killed(l *lab, r *rand.Rand) error {
	l.awhile(r, 300)
	l.again()
	return nil
}

// killedInTransaction: the broker holds records of a Kafka transaction that is not committed. Where none is met, it is killed all the same.
func killedInTransaction(l *lab, r *rand.Rand) error {
	l.running()
	l.sql(fmt.Sprintf("INSERT INTO bulk SELECT g, repeat('o', 100) FROM generate_series(%d, %d) g ON CONFLICT (id) DO UPDATE SET v = 'p'", 5000, 8000+r.IntN(4000)))
	_, topics, err := l.topics(l.ctx)
	if err != nil {
		return nil //nolint:nilerr // the broker is away: another fault's doing
	}
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline) && l.visible(l.ctx, topics) && l.ctx.Err() == nil; {
	}
	l.again()
	return nil
}

// killedAsRowsAppear: a consumer sees the first rows of a transaction; their offset must be there with them.
func killedAsRowsAppear(l *lab, r *rand.Rand) error {
	l.running()
	topic := l.st.Name + ".public.hot"
	before := l.st.CommittedEnd(topic)
	l.sql("UPDATE hot SET n = n + 1")
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline) && l.st.CommittedEnd(topic) == before && l.ctx.Err() == nil; {
	}
	l.again()
	return nil
}

// killedBeforeAck: Kafka has committed what the slot has not been told.
func killedBeforeAck(l *lab, r *rand.Rand) error {
	l.running()
	l.pgProxy.Pause(proxy.Up)
	l.sql("UPDATE hot SET n = n + 1", "UPDATE keyed SET n = n + 1 WHERE id < 20")
	l.awhile(r, 250)
	l.st.w.Kill()
	l.pgProxy.Reset()
	l.pgProxy.Resume()
	l.st.w = l.st.Start()
	return nil
}

func killedWhileStarting(l *lab, r *rand.Rand) error {
	for range 1 + r.IntN(3) {
		l.again()
		l.awhile(r, 400)
	}
	l.again()
	return nil
}

func killedWhileStopping(l *lab, r *rand.Rand) error {
	if !l.running() {
		return nil
	}
	l.st.w.Signal(syscall.SIGTERM)
	l.awhile(r, 40)
	l.again()
	return nil
}

func stopped(l *lab, _ *rand.Rand) error {
	if !l.running() {
		return nil
	}
	w := l.st.w
	w.Signal(syscall.SIGTERM)
	code, ended := l.ended(w, soon)
	l.st.w = l.st.Start()
	if !ended {
		return fmt.Errorf("the worker still runs 30 s after SIGTERM, in state %v", w.State())
	}
	if code != codeTerminated {
		return fmt.Errorf("stopped with SIGTERM, the worker ended with code %d: %s", code, w.Message())
	}
	return nil
}

// ended waits for a worker's end; one that does not end is killed.
func (l *lab) ended(w *harness.Worker, within time.Duration) (code int, ok bool) {
	if ok = l.eventually(within, w.Ended); !ok {
		w.Kill()
	}
	return w.Wait(soon), ok
}

func zombie(l *lab, r *rand.Rand) error {
	if !l.running() {
		return nil
	}
	old := l.st.w
	old.Signal(syscall.SIGSTOP)
	next := l.st.Start()
	l.awhile(r, 1200)
	old.Signal(syscall.SIGCONT)
	return l.oneOf(old, next)
}

func twoWorkers(l *lab, r *rand.Rand) error {
	if !l.running() {
		return nil
	}
	old := l.st.w
	l.awhile(r, 100)
	return l.oneOf(old, l.st.Start())
}

// oneOf waits until one of two workers has lost, and goes on with the other. A worker that was about to settle a commit of
// unknown outcome may fence the newer one: one of both must lose, and say so.
func (l *lab) oneOf(a, b *harness.Worker) error {
	wrote := time.Now()
	one := l.eventually(soon, func() bool {
		if time.Since(wrote) > time.Second { // an idle worker learns of another by its next commit: the load may have come to its end
			l.sql("SELECT pg_logical_emit_message(true, 'e2e', 'who')")
			wrote = time.Now()
		}
		return a.Ended() || b.Ended()
	})
	winner, loser := b, a
	if b.Ended() && !a.Ended() {
		winner, loser = a, b
	}
	l.st.w = winner
	if !one {
		if l.ctx.Err() != nil {
			return nil
		}
		a.Kill()
		return fmt.Errorf("two workers of one connector still run after 30 s, in states %v and %v", a.State(), b.State())
	}
	if code := loser.Wait(soon); code != codeFenced {
		return fmt.Errorf("of two workers one ended with code %d, want %d: %s", code, codeFenced, loser.Message())
	}
	if a.Ended() && b.Ended() {
		return fmt.Errorf("of two workers both ended: %s; %s", a.Message(), b.Message())
	}
	return nil
}

// sleeper is a worker that the broker has given up: its transaction has timed out, nobody else has taken over.
func sleeper(l *lab, r *rand.Rand) error {
	l.st.w.Kill()
	l.pgProxy.Reset()
	l.st.Configure(map[string]string{"transaction.timeout.ms": "1500"})
	defer l.st.Configure(nil)
	l.st.w = l.st.Start()
	w := l.st.w
	if !l.running() {
		return nil
	}
	l.sql("INSERT INTO bulk SELECT g, repeat('z', 100) FROM generate_series(5000, 12000) g ON CONFLICT (id) DO UPDATE SET v = 'z'")
	l.awhile(r, 150)
	w.Signal(syscall.SIGSTOP)
	pause(l.ctx, 2500*time.Millisecond)
	w.Signal(syscall.SIGCONT)
	l.sql("UPDATE hot SET n = n + 1")
	l.eventually(2*time.Second, w.Ended)
	if w.Ended() {
		if code := w.Wait(soon); code != codeBlocked && code != codeFenced {
			return fmt.Errorf("after a transaction that timed out the worker ended with code %d: %s", code, w.Message())
		}
	}
	l.again()
	return nil
}
