// Package consumers has other people's consumers read Tidemark's topics: confluent-kafka with its Avro deserializer,
// Kafka's Java consumer with Apicurio's deserializer and with Avro alone, a Kafka Streams KTable, and DuckDB with the view
// that connectctl writes. Each prints what it read as JSON; the tests compare that with PostgreSQL's tables.
package consumers
