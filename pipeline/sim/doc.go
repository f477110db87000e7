// Package sim is a simulation, in tests alone: the pipeline as it ships, with its producer, its offsets store and its
// encoder, against the embedded broker kfake, in a bubble of testing/synctest. Sources, faults and the network are drawn from a
// seed; the clock is the bubble's, so that timeouts, fencing and pauses of minutes take no time. It finds what needs many tries of
// orders and moments; what needs a real broker or a real database is for integration/chaos.
//
// What a seed repeats: the source's transactions, the limits, and what happens to the n-th request of a kind of the n-th worker.
// What it does not: the order in which goroutines run between two waits, and Go's choice among ready channels. A
// failing seed is run again a few times, with GOMAXPROCS=1 if it hides.
//
// What kfake does differently, and so is not judged here: markers are written at once with the commit (a real coordinator answers
// before), nothing is replicated, and compaction is off because it does not heed open transactions. It takes a fenced producer's
// produce for the begin of a transaction of the one that fenced it before it refuses it, and gives a new epoch to a fenced
// producer that asks by its old one: the network here answers both as a real broker does. Where a leader moves, it
// may send a consumer back to the beginning; the judge skips what it has seen.
package sim
