// Package chaos tries to break a stream: a seeded random load against real PostgreSQL and real Kafka while faults strike the
// ordinary connectctl worker, its connections and its servers. After every round, load and faults at rest, everything that a
// consumer has read is judged by pipeline/verify's validators and compared with the database's log and tables; all along it is
// sampled that the slot is never ahead of the committed offset.
//
// A round follows from its seed: round i of a run with seed S is round 0 of a run with seed S+i. Concurrency is not replayed, so a
// seed makes the same load and the same faults, not the same interleaving.
package chaos
