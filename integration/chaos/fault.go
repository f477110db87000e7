package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// fault is one thing that may go wrong. strike makes it happen under load and undoes it; its error is what the worker did
// wrong about it. How the stream gets on is not its matter.
type fault struct {
	name   string
	weight int
	strike func(*lab, *rand.Rand) error
}

// faults strike while the load runs.
var faults = []fault{
	{"worker killed at any time", 8, killed},
	{"worker killed in an open Kafka transaction", 5, killedInTransaction},
	{"worker killed as rows appear", 5, killedAsRowsAppear},
	{"worker killed before the slot's acknowledgement", 5, killedBeforeAck},
	{"worker killed while it starts", 6, killedWhileStarting},
	{"worker killed while it stops", 4, killedWhileStopping},
	{"worker stopped in order", 4, stopped},
	{"worker paused, another takes over, the first comes back", 4, zombie},
	{"worker paused for longer than the transaction timeout", 1, sleeper},
	{"two workers", 4, twoWorkers},
	{"database: connections reset", 5, func(l *lab, _ *rand.Rand) error { l.pgProxy.Reset(); return nil }},
	{"database: network cut", 4, func(l *lab, r *rand.Rand) error { return cut(l, l.pgProxy, r) }},
	{"database: network delayed", 4, func(l *lab, r *rand.Rand) error { return delayed(l, l.pgProxy, r) }},
	{"database: half-open connections", 4, func(l *lab, r *rand.Rand) error { return halfOpen(l, l.pgProxy, r) }},
	{"database: slow network", 3, func(l *lab, r *rand.Rand) error { return slow(l, l.pgProxy, r) }},
	{"Kafka: connections reset", 5, func(l *lab, _ *rand.Rand) error { l.kafkaProxy.Reset(); return nil }},
	{"Kafka: network cut", 4, func(l *lab, r *rand.Rand) error { return cut(l, l.kafkaProxy, r) }},
	{"Kafka: network delayed", 4, func(l *lab, r *rand.Rand) error { return delayed(l, l.kafkaProxy, r) }},
	{"Kafka: half-open connections", 4, func(l *lab, r *rand.Rand) error { return halfOpen(l, l.kafkaProxy, r) }},
	{"Kafka: slow network", 3, func(l *lab, r *rand.Rand) error { return slow(l, l.kafkaProxy, r) }},
	{"registry down", 4, func(l *lab, r *rand.Rand) error { return cut(l, l.registryProxy, r) }},
	{"broker restarted", 1, brokerRestarted},
	{"broker killed", 2, brokerKilled},
	{"database restarted, fast", 2, databaseRestarted},
	{"database restarted, immediate", 1, databaseAborted},
	{"database crashed", 2, databaseCrashed},
	{"walsender terminated", 5, walsenderTerminated},
	{"all sessions terminated", 2, sessionsTerminated},
}

// atRest are faults of an idle stream: what they expect needs an end that is known.
var atRest = []fault{
	{"max.message.bytes exceeded", 2, tooLarge},
	{"no room for the broker", 1, noRoom},
	{"slot advanced behind our back", 1, slotAdvanced},
	{"slot dropped behind our back", 1, slotDropped},
}

func pick(list []fault, r *rand.Rand) fault {
	sum := 0
	for _, f := range list {
		sum += f.weight
	}
	n := r.IntN(sum)
	for _, f := range list {
		if n -= f.weight; n < 0 {
			return f
		}
	}
	return list[0]
}

// inTurn is the i-th of all faults, over and over.
func inTurn(i int) fault {
	all := append(append([]fault(nil), faults...), atRest...)
	return all[i%len(all)]
}

func find(name string) (found []fault, during bool, err error) {
	for _, f := range faults {
		if f.name == name {
			return []fault{f}, true, nil
		}
	}
	for _, f := range atRest {
		if f.name == name {
			return []fault{f}, false, nil
		}
	}
	return nil, false, fmt.Errorf("no fault %q; there are: %s", name, names())
}

func names() (all string) {
	for _, f := range append(append([]fault(nil), faults...), atRest...) {
		all += "\n  " + f.name
	}
	return all
}

// some is a random time up to so many milliseconds.
func some(r *rand.Rand, ms int) time.Duration { return time.Duration(r.IntN(ms)) * time.Millisecond }

// awhile waits for a random time up to so many milliseconds.
func (l *lab) awhile(r *rand.Rand, ms int) { pause(l.ctx, some(r, ms)) }
