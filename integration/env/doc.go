// Package env starts the real servers tests and benchmarks run against: PostgreSQL 14 to 18, Apache Kafka and a schema
// registry, natively, on loopback, on free ports, in a folder of their own below the temporary folder.
//
// A test package joins with three lines:
//
//	var servers *env.Env
//
//	func TestMain(m *testing.M) { env.Main(m, &servers) }
//
// and asks for what it needs, which starts on first use: servers.Postgres(t, 18), servers.Kafka(t), servers.Registry(t).
// `envctl run -- go test ./...` (cmd/envctl) lets the test binaries of one run share their servers; without it each has its own.
// A test that stops or kills a server takes a private one: NewPostgres, NewKafka, NewRegistry.
//
// The scripts of this folder hold what a server is and how it is configured; this package chooses ports, remembers
// what runs and cleans up. However its process ends, a reaper (sweep.sh) sees its end of a pipe close, stops the
// servers by pid and removes the folder; a run whose reaper was killed too is swept by the next one. PostgreSQL refuses
// to run as root: for root, servers run as nobody, and artifacts are cached in /var/cache/tidemark/env, which nobody may
// read, else in tidemark/env below the user's cache folder; TIDEMARK_CACHE overrides both.
package env
