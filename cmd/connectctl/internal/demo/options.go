// Package demo shows the main job on a machine that has only Go: a shop's database, its changes in
// Kafka, a worker killed in the middle, and the proof that each committed change arrived once, in order.
//
// Order of a run: run directory → PostgreSQL → Kafka → registry → tables, publication, two slots at one
// place → worker (a child, `connectctl run`) with the shop's traffic → SIGKILL inside the large transaction
// → worker again → all published → judge. Whatever was started is stopped in the opposite order, however the
// run ends; a reaper, a second child that waits for our end, does it where we cannot.
package demo

import "io"

// Names of the hidden commands below `connectctl demo` that run as children.
const (
	PostgresChild = "child-postgres"
	ReaperChild   = "child-reaper"
)

// Options of a run.
type Options struct {
	JSON            bool   // one object on Out and nothing else there
	Keep            bool   // leave all running until a signal
	Cache           string // folder for fetched programs and runs; empty: see rundir.Cache
	PostgresArchive string // programs to take instead of the network
	PostgresURL     string // a server to use instead of an own one
	Bootstrap       string // brokers to use instead of an own one, comma-separated host:port
	RegistryURL     string // a schema registry to use instead of an own one

	Out, Err io.Writer
	Terminal bool // Out is one
	Width    int  // its columns

	passing func(place string) // a test's: called at named places, where it may panic
}

// Result is what a run found, as --json prints it.
type Result struct {
	Changes         int64   `json:"changes"`
	Transactions    int64   `json:"transactions"`
	Lost            int64   `json:"lost"`
	Duplicated      int64   `json:"duplicated"`
	OrderViolations int64   `json:"order_violations"`
	HotPositions    int64   `json:"distinct_positions_of_hot_row"`
	DedupLatest     int64   `json:"dedup_latest"`
	SlotConfirmed   string  `json:"slot_confirmed_lsn"`
	Committed       string  `json:"committed_lsn"`
	EventsPerSecond float64 `json:"events_per_second"`
	Seconds         float64 `json:"seconds"`
}
