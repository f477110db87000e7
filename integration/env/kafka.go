package env

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env/proxy"
)

// Users of Kafka's SASL listener (PLAIN and SCRAM-SHA-256); their passwords are their names. AdminUser may do everything, NoRightsUser nothing.
const (
	AdminUser    = "admin"
	NoRightsUser = "norights"
)

// Kafka is one broker. It creates no topic by itself and ends transactions after 60 s at most.
type Kafka struct{ server }

// Positions of Kafka's ports in its script's variables.
const (
	kafkaPlain = iota
	kafkaSASL
	kafkaProxied
	kafkaAdvertised
	kafkaController
)

// KafkaOptions of a private broker.
type KafkaOptions struct {
	Settings map[string]string // lines of server.properties on top, by name
	// MaxFileMiB is the largest file the broker may write, from 16; 0 for no limit. A segment that would become larger takes the log
	// directory offline, and the broker stops: as on a full disk.
	MaxFileMiB int
}

// Kafka is the run's shared broker, started on first use.
func (e *Env) Kafka(t testing.TB) *Kafka {
	t.Helper()
	k, err := e.OpenKafka(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// OpenKafka is Kafka outside a test.
func (e *Env) OpenKafka(ctx context.Context) (*Kafka, error) {
	k := e.kafka(false, KafkaOptions{})
	if err := e.shared(ctx, "kafka", &k.server, func() error { return k.start(ctx) }); err != nil {
		return nil, fmt.Errorf("Kafka: %w", err)
	}
	return k, nil
}

// NewKafka starts a broker for one test alone; the test may stop, kill and restart it, and it is gone when the test ends.
func (e *Env) NewKafka(t testing.TB, o KafkaOptions) *Kafka {
	t.Helper()
	k := e.kafka(true, o)
	k.startPrivate(t, k.Stop)
	return k
}

func (e *Env) kafka(private bool, o KafkaOptions) *Kafka {
	extra := ""
	for _, name := range slices.Sorted(maps.Keys(o.Settings)) {
		extra += name + "=" + o.Settings[name] + "\n"
	}
	ports := []string{"PORT", "SASL_PORT", "PROXY_PORT", "ADVERTISED_PORT", "CPORT"}
	jit := "KJIT="
	if private { // short-lived: a quick start counts for more than throughput
		jit += "-XX:TieredStopAtLevel=1"
	}
	return &Kafka{e.newServer("kafka", kind{"setup-kafka.sh", ports}, private, "EXTRA="+extra, jit, fileLimit(o.MaxFileMiB))}
}

func fileLimit(mib int) string { return fmt.Sprintf("FSIZE=%d", mib) }

// MakeRoom takes a private broker's file limit away, from its next start on.
func (k *Kafka) MakeRoom() {
	k.vars = slices.DeleteFunc(k.vars, func(v string) bool { return strings.HasPrefix(v, "FSIZE=") })
}

// Bootstrap is the plaintext listener's host:port; whoever connects there may do everything.
func (k *Kafka) Bootstrap() string { return k.addr(kafkaPlain) }

// SASLBootstrap is the SASL_PLAINTEXT listener's host:port.
func (k *Kafka) SASLBootstrap() string { return k.addr(kafkaSASL) }

// ProxyBootstrap is where the fault proxy listens while a test holds it; the broker sends clients of it back to it.
func (k *Kafka) ProxyBootstrap() string { return k.addr(kafkaAdvertised) }

// Proxy starts the fault proxy at ProxyBootstrap, for this test alone: it waits while another test of the run holds it.
// It is closed when the test ends.
func (k *Kafka) Proxy(t testing.TB) *proxy.Proxy {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	unlock, err := lockFile(ctx, filepath.Join(k.Dir, "proxy.lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	p, err := proxy.New(k.ProxyBootstrap(), k.addr(kafkaProxied))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Stop ends a private broker in order.
func (k *Kafka) Stop(ctx context.Context) error { return k.stop(ctx) }

// Kill ends a private broker with SIGKILL.
func (k *Kafka) Kill(ctx context.Context) error { return k.kill(ctx, "pid") }
