//go:build linux || darwin

// Package broker runs the demo's Kafka within our own process: kfake, which keeps its logs in a
// directory, with transactions, fencing and read_committed like a real broker. It is no replacement for
// one: its cleaner and its retention are switched off, because they do not heed open transactions.
package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/rundir"
)

// Broker is a running broker.
type Broker struct {
	Addr    string // host:port, loopback
	cluster *kfake.Cluster
	lock    *os.File
}

// settings: nothing is ever compacted or expired, and a transaction may take Kafka's usual maximum of 15 minutes.
var settings = map[string]string{
	"log.cleaner.backoff.ms":     "2147483647",
	"log.retention.ms":           "-1",
	"transaction.max.timeout.ms": "900000",
	"default.replication.factor": "1",
	"min.insync.replicas":        "1",
}

// Start opens the directory, which one process at a time may have, and listens on a free loopback port.
func Start(dir string) (*Broker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the embedded Kafka's folder: %w", err)
	}
	// kfake itself lets two processes write to one directory.
	lock, err := rundir.Lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("lock the embedded Kafka's folder: %w", err)
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(filepath.Join(dir, "data")), kfake.SyncWrites(),
		kfake.ClusterID("tidemark-demo"), kfake.DefaultNumPartitions(1), kfake.BrokerConfigs(settings))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the embedded Kafka: %w", err), lock.Close())
	}
	return &Broker{Addr: c.ListenAddrs()[0], cluster: c, lock: lock}, nil
}

// Close stops the broker; an open transaction stays open on disk.
func (b *Broker) Close() error {
	b.cluster.Close()
	return b.lock.Close()
}
