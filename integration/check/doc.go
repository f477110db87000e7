// Package check judges a stream from outside: what consumers read from Kafka against what the database's log and tables
// say. Headers are parsed here, values decoded with github.com/twmb/avro, the log with github.com/jackc/pglogrepl, from a
// second slot: none of it with the product's code. Only the validators are shared, pipeline/verify, which has tests that
// break a history in every way they are to object to.
package check
