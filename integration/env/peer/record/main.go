// Command record records what Debezium's PostgreSQL connector publishes of a fixed SQL script, and
// the pgoutput messages of the same transactions, as golden data for pipeline/encode/debezium.
//
// It needs a superuser of a PostgreSQL server with wal_level=logical, a Kafka broker, Apicurio Registry and a Kafka
// Connect worker (setup-connect.sh). It makes a database, slots, topics and connectors of its own and drops all but the topics.
//
//	record -pg URL -kafka HOST:PORT -registry URL -connect URL -dir pipeline/encode/debezium/testdata
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	var r recorder
	flag.StringVar(&r.pg, "pg", "", "URL of a superuser's connection")
	flag.StringVar(&r.kafka, "kafka", "", "address of a broker")
	flag.StringVar(&r.registry, "registry", "", "URL of Apicurio, without a path")
	flag.StringVar(&r.connect, "connect", "http://127.0.0.1:28083", "URL of the Kafka Connect worker")
	flag.StringVar(&r.dir, "dir", "", "folder with setup.sql, changes.sql and cases.json; the recording goes there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		stop()
		os.Exit(1)
	}
}
