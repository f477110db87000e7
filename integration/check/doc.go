// Package check judges a stream from outside: what consumers read from Kafka against what the database's log and tables
// say. It shares no code with the product: positions are parsed here, values decoded with github.com/twmb/avro, the
// log with github.com/jackc/pglogrepl, from a second slot.
package check
