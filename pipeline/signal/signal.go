// Package signal takes requests to a running connector, as Debezium's signals: execute, pause, resume and stop of snapshots, and
// changes of the table set. They come over channels: a Kafka topic, a file, or a table of the database.
//
// Format: https://debezium.io/documentation/reference/stable/configuration/signalling.html
package signal

import (
	"context"
)

// The types of signals; the names are Debezium's, but for the table set, which it does not have.
const (
	TypeExecute = "execute-snapshot"
	TypeStop    = "stop-snapshot"
	TypePause   = "pause-snapshot"
	TypeResume  = "resume-snapshot"
	TypeTables  = "change-tables"
)

// Signal is one request.
type Signal struct {
	ID      string // executed once, whatever the channel and however often it comes
	Type    string
	Data    []byte // JSON object, as written
	Channel string // name of the channel
	Cursor  string // place in the channel after it: reading goes on there after a restart; empty where the channel has none
}

// Channel is a way for signals to come in.
type Channel interface {
	Name() string
	// Run reads signals from the place after cursor (empty: from the channel's own start) and delivers them, until ctx
	// ends or the channel cannot be read. What is not a signal is reported and passed.
	Run(ctx context.Context, cursor string, deliver func(Signal)) error
}

// Execute is the data of TypeExecute.
type Execute struct {
	Collections  []string    `json:"data-collections"` // regular expressions on qualified names
	Kind         string      `json:"type,omitempty"`   // "incremental" (default) or "blocking"
	Conditions   []Condition `json:"additional-conditions,omitempty"`
	SurrogateKey string      `json:"surrogate-key,omitempty"` // column to page by in place of the key
}

// Condition limits the rows of a table.
type Condition struct {
	Collection string `json:"data-collection"` // regular expression
	Filter     string `json:"filter"`          // SQL
}

// Stop is the data of TypeStop, without collections all of them.
type Stop struct {
	Collections []string `json:"data-collections,omitempty"`
	Kind        string   `json:"type,omitempty"`
}

// Tables is the data of TypeTables.
type Tables struct {
	Add    []string `json:"add,omitempty"` // qualified names
	Remove []string `json:"remove,omitempty"`
}
