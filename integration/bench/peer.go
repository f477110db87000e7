package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

const (
	peerName  = "peer"
	peerRows  = 500_000
	peerPairs = 3
	peerWarm  = 1
)

// tuned are the batch settings with which Debezium and Connect's producer are fastest; defaults are none.
var (
	defaults = map[string]string{}
	tuned    = map[string]string{
		"max.batch.size": "16384", "max.queue.size": "65536", "poll.interval.ms": "50",
		"producer.override.linger.ms": "20", "producer.override.batch.size": "1048576",
	}
)

// peerRun is one drain of all the rows, by us or by the peer.
type peerRun struct {
	rate float64
	sides
}

// peerBench drains the stream bench's rows with connectctl and with Debezium on Kafka Connect in turn: the same slot, publication,
// broker and registry, both over TCP (Debezium knows no unix socket), exactly once, Avro. Clocks start when our process is started and
// when the peer's connector is created in a worker that runs and is warm; both stop when a read_committed consumer sees the last row.
func peerBench(ctx context.Context, o options) (err error) {
	o.transport = "tcp"
	s := shapes[0]
	s.rows, s.pairs, s.warm, s.keep = peerRows, peerPairs, peerWarm, false
	s.bytes *= 4 // the peer's records hold a schema's worth of metadata, and there are two of its runs to one of ours
	d, err := loaded(ctx, o, s, peerMemory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	p, err := d.startPeer(ctx)
	if err != nil {
		return err
	}
	fmt.Println("                           " + sidesHead)
	fmt.Println("                    rows/s " + sidesHead2 + "| CPU µs a row")
	results := map[string][]peerRun{}
	contenders := []struct {
		name string
		run  func(context.Context) (peerRun, error)
	}{
		{"connectctl", d.peerOwn},
		{"debezium", func(ctx context.Context) (peerRun, error) { return p.run(ctx, defaults) }},
		{"debezium tuned", func(ctx context.Context) (peerRun, error) { return p.run(ctx, tuned) }},
	}
	for i := range d.warm + d.pairs {
		for _, c := range contenders {
			r, err := c.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			note := ""
			if i < d.warm {
				note = "  (warming, not counted)"
			} else {
				results[c.name] = append(results[c.name], r)
			}
			fmt.Printf("%-15s %10.0f %s| %12.2f%s\n", c.name, r.rate, r.cells(), r.program.cpu/float64(d.rows)*1e6, note)
		}
	}
	return d.reportPeer(results["connectctl"], results["debezium"], results["debezium tuned"])
}

// reportPeer prints the medians, and the line for machines: against the peer as it is faster.
func (d *drain) reportPeer(own, plain, fast []peerRun) error {
	rate := func(r peerRun) float64 { return r.rate }
	cpu := func(r peerRun) float64 { return r.program.cpu }
	ours, ourCPU := median(own, rate), median(own, cpu)
	fmt.Printf("\nmedian: %.0f rows/s; debezium %.0f: %.1f times, tuned %.0f: %.1f times\n", ours,
		median(plain, rate), ours/median(plain, rate), median(fast, rate), ours/median(fast, rate))
	best, settings := fast, "tuned"
	if median(plain, rate) > median(fast, rate) {
		best, settings = plain, "default"
	}
	return closing(struct {
		Bench    string  `json:"bench"`
		Rows     int     `json:"rows"`
		Rate     float64 `json:"rows_per_second"`
		Peer     float64 `json:"peer_rows_per_second"`
		Settings string  `json:"peer_settings"`
		Ratio    float64 `json:"ratio"`
		CPURatio float64 `json:"cpu_ratio"` // of CPU a row, ours of the peer's
		PeakMiB  int64   `json:"rss_mib"`
		PeerMiB  int64   `json:"peer_rss_mib"`
	}{"peer-stream", d.rows, math.Round(ours), math.Round(median(best, rate)), settings,
		round2(ours / median(best, rate)), math.Round(ourCPU/median(best, cpu)*1e4) / 1e4,
		peak(own, func(r peerRun) sides { return r.sides }), peak(best, func(r peerRun) sides { return r.sides })})
}

// peerOwn is connectctl's drain.
func (d *drain) peerOwn(ctx context.Context) (r peerRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	slot, drop, err := d.newSlot(ctx, template)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	c, err := d.connector(slot, nil)
	if err != nil {
		return r, err
	}
	m := d.meter(ctx, c.cmd.Process.Pid, slot, false)
	err = c.during(ctx, func(ctx context.Context) error { return d.lastRowSeen(ctx, ordersTopic(slot)) })
	r = peerRun{d.rateSince(c.began), m.read()}
	if err = errors.Join(err, c.terminate()); err == nil {
		_, err = d.checkTopics(ctx, slot)
	}
	return r, errors.Join(err, d.deleteTopics(context.WithoutCancel(ctx), d.topics(slot)))
}

// peer is Kafka Connect with Debezium.
type peer struct {
	*drain
	connect *env.Connect
	pid     int
}

func (d *drain) startPeer(ctx context.Context) (p *peer, err error) {
	p = &peer{drain: d}
	if p.connect, err = d.env.StartConnect(ctx, d.kafka); err != nil {
		return nil, err
	}
	p.pid, err = readPid(p.connect.PidFile())
	return p, err
}

// run is the peer's drain.
func (p *peer) run(ctx context.Context, settings map[string]string) (r peerRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	slot, drop, err := p.newSlot(ctx, template)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, drop()) }()
	m := p.meter(ctx, p.pid, slot, true)
	began := time.Now()
	err = p.connect.Create(ctx, slot, p.debezium(slot, settings))
	if err == nil {
		err = p.whileWell(ctx, slot, func(ctx context.Context) error { return p.lastRowSeen(ctx, ordersTopic(slot)) })
	}
	r = peerRun{p.rateSince(began), m.read()}
	if err == nil {
		_, err = p.checkTopics(ctx, slot)
	}
	return r, errors.Join(err, p.connect.Delete(context.WithoutCancel(ctx), slot), p.deleteTopics(context.WithoutCancel(ctx), p.topics(slot)))
}

// whileWell runs f, and ends it when the peer's connector fails.
func (p *peer) whileWell(ctx context.Context, slot string, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-look.C:
			if err := p.connect.Failure(ctx, slot); err != nil {
				cancel()
				return errors.Join(err, <-done)
			}
		}
	}
}

// debezium is the peer's configuration, which does what ours does.
func (p *peer) debezium(slot string, settings map[string]string) map[string]string {
	c := map[string]string{
		"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "tasks.max": "1", "plugin.name": "pgoutput",
		"database.hostname": p.pg.Host(), "database.port": strconv.Itoa(p.pg.Port()), "database.user": env.Superuser, "database.password": env.SuperuserPassword,
		"database.dbname": database, "topic.prefix": slot, "slot.name": slot, "publication.name": publication, "publication.autocreate.mode": "disabled",
		"snapshot.mode": "no_data", "exactly.once.support": "required", "transaction.boundary": "poll",
		"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1",
	}
	for _, side := range []string{"key.converter", "value.converter"} {
		c[side] = "io.apicurio.registry.utils.converter.AvroConverter"
		for name, value := range map[string]string{
			"url": p.registry.ConverterURL(), "auto-register": "true", "find-latest": "true", "headers.enabled": "false", "as-confluent": "true", "use-id": "contentId",
		} {
			c[side+".apicurio.registry."+name] = value
		}
	}
	maps.Copy(c, settings)
	return c
}

// lastRowSeen waits until a read_committed consumer sees the last row. It reads no more than the end of the topic: whoever runs
// beside the connector would take the processors from it.
func (d *drain) lastRowSeen(ctx context.Context, topic string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.kafka.Bootstrap()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	// The last row is not before this offset: every row has one, and so have the marks that end transactions.
	from := int64(d.rows - 1)
	for end := int64(0); end <= from; pause(ctx) {
		if end, err = endOf(ctx, cl, topic); err != nil {
			return fmt.Errorf("wait for the last row of %s, the topic has come to %d: %w", topic, end, err)
		}
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}})
	for {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("wait for the last row of %s: %w", topic, err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			if rowID(it.Next()) == int64(d.rows) {
				return nil
			}
		}
	}
}
