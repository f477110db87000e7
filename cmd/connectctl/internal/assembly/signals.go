package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
	"github.com/tidemark-cdc/tidemark/pipeline/signal/kafkasignal"
	"github.com/tidemark-cdc/tidemark/pipeline/snapshot"
)

// signalSpec is the properties of signals, named as Debezium's.
func signalSpec() connectors.Spec {
	return connectors.Spec{
		{Name: "signal.enabled.channels", Type: connectors.TypeList, Default: signal.ChannelKafka, Check: channels, Doc: "Where signals come from: kafka, file and source, separated by commas; empty for nowhere."},
		{Name: "signal.kafka.topic", Type: connectors.TypeString, Check: topicName, Doc: "Topic of the channel kafka, of one partition; <topic.prefix>-signal where absent. Signals have topic.prefix as their key."},
		{Name: "signal.file", Type: connectors.TypeString, Doc: "File of the channel file, a signal a line."},
		{Name: "signal.data.collection", Type: connectors.TypeString, Doc: "Table of the channel source, as schema.table; it must be captured. Its first columns are id, type and data."},
		{Name: "signal.poll.interval.ms", Type: connectors.TypeLong, Default: "5000", Check: between(10, 3_600_000), Doc: "How often the file is looked at, in milliseconds."},
	}
}

func channels(v string) error {
	known := []string{signal.ChannelKafka, signal.ChannelFile, signal.ChannelSource}
	for _, c := range strings.Split(v, ",") {
		if c = strings.ToLower(strings.TrimSpace(c)); c != "" && !slices.Contains(known, c) {
			return fmt.Errorf("%q is not one of %s", c, strings.Join(known, ", "))
		}
	}
	return nil
}

// hasChannel tells whether signals come over a channel.
func hasChannel(cfg connectors.Config, name string) bool {
	return slices.ContainsFunc(cfg.List("signal.enabled.channels"), func(c string) bool { return strings.EqualFold(c, name) })
}

// checkSignals finds what an enabled channel lacks.
func checkSignals(cfg connectors.Config) (problems []connectors.Problem) {
	for _, need := range []struct{ channel, property, what string }{
		{signal.ChannelFile, "signal.file", "name the file"},
		{signal.ChannelSource, "signal.data.collection", "name the table, as schema.table"},
	} {
		if hasChannel(cfg, need.channel) && cfg.String(need.property) == "" {
			problems = append(problems, connectors.Problem{Property: need.property, Message: fmt.Sprintf("is missing, but signal.enabled.channels has %s; %s", need.channel, need.what)})
		}
	}
	return problems
}

// SignalTopic is where signals to the connector are written.
func (c *Connector) SignalTopic() string {
	if t := c.Config.String("signal.kafka.topic"); t != "" {
		return t
	}
	return c.Config.String("topic.prefix") + "-signal"
}

// signals adds the connector's channels to what is configured of its snapshots.
func (p *parts) signals(of *snapshot.Config) {
	cfg, log := p.c.Config, p.log
	if hasChannel(cfg, signal.ChannelKafka) {
		of.Channels = append(of.Channels, signal.Persist(kafkasignal.New(kafkasignal.Config{
			Opts: p.consume, Admin: p.admin, Topic: p.c.SignalTopic(), Key: cfg.String("topic.prefix"),
			Create: p.c.worker.Config.Bool("topic.creation.enable"), Replication: p.replication(), Log: log,
		}), log))
	}
	if hasChannel(cfg, signal.ChannelFile) {
		of.Channels = append(of.Channels, signal.Persist(signal.NewFile(cfg.String("signal.file"), cfg.Millis("signal.poll.interval.ms"), log), log))
	}
	if hasChannel(cfg, signal.ChannelSource) {
		of.SignalTable = cfg.String("signal.data.collection")
	}
}

// CheckSignalTopic refuses a connector that takes no signals from Kafka.
func (c *Connector) CheckSignalTopic() error {
	if !hasChannel(c.Config, signal.ChannelKafka) {
		return fmt.Errorf("%s: signal.enabled.channels is %q, so that connector %s takes no signals from Kafka; add kafka to it, or use one of these channels",
			c.Path, c.Config.String("signal.enabled.channels"), c.Name())
	}
	return nil
}

// Signal writes a signal to the connector's topic, which is created where it is missing. A connector that takes none from Kafka is refused.
func (c *Connector) Signal(ctx context.Context, s signal.Signal) error {
	p, err := c.open(slog.New(slog.DiscardHandler), func(connectors.State) {})
	if err != nil {
		return err
	}
	defer p.close()
	if err := kafkaconf.Reach(ctx, p.produce); err != nil {
		return err
	}
	if c.worker.Config.Bool("topic.creation.enable") {
		if err := kafkasignal.Ensure(ctx, p.admin, c.SignalTopic(), p.replication()); err != nil {
			return err
		}
	}
	_, err = kafkasignal.Send(ctx, p.produce, c.SignalTopic(), c.Config.String("topic.prefix"), s)
	return err
}

// Snapshots reads what is stored of the connector's snapshots.
func (c *Connector) Snapshots(stored []offsets.Entry) (snapshot.Stored, error) {
	return snapshot.ReadStored(c.Config.String("topic.prefix"), stored)
}

// TablesNamed tells which of the patterns match no captured table, and what the captured ones are. What is stored is asked first,
// and the database where that does not do.
func (c *Connector) TablesNamed(ctx context.Context, stored []offsets.Entry, patterns []string) (missing, captured []string, err error) {
	for _, e := range stored {
		name, _ := e.Partition.Text("table")
		if name != "" && e.Offset != nil && e.Partition.Equal(offsets.TablePartition(c.Config.String("topic.prefix"), name)) {
			captured = append(captured, name)
		}
	}
	if missing, err = unmatched(patterns, captured); err != nil || len(missing) == 0 {
		return missing, captured, err
	}
	if c.engine.captured == nil {
		return missing, captured, fmt.Errorf("connectors of class %s cannot tell", c.engine.name)
	}
	tables, err := c.engine.captured(ctx, c.Config, c.Config.String("topic.prefix"), stored)
	if err != nil {
		return missing, captured, err
	}
	captured = nil
	for _, t := range tables {
		captured = append(captured, t.Table.QualifiedName())
	}
	slices.Sort(captured)
	missing, err = unmatched(patterns, captured)
	return missing, captured, err
}

func unmatched(patterns, names []string) (out []string, err error) {
	for _, p := range patterns {
		re, err := signal.CompileNames([]string{p})
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(names, re.Match) {
			out = append(out, p)
		}
	}
	return out, nil
}
