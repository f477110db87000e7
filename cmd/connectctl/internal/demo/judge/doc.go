// Package judge decides whether a stream is the database's log: each committed change once, in order.
//
// It believes neither the pipeline nor its counters. What must be there comes from a second slot of the
// database, made where the stream's slot was; what is there comes from a consumer that reads with
// read_committed. A change is known by (commit position, ordinal), counted here anew from pgoutput by the
// rules of the stream contract, and must be found with its table and its operation.
package judge
