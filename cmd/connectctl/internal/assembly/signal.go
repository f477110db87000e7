package assembly

import (
	"context"
	"log/slog"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
	"github.com/tidemark-cdc/tidemark/pipeline/signal/kafkasignal"
)

// signalTopic is where signals to the connector are written.
func (c *Connector) signalTopic() string { return c.identity().server + "-signal" }

// Signal writes a signal to the connector's topic, which is created where it is missing.
func (c *Connector) Signal(ctx context.Context, s signal.Signal) error {
	p, err := c.open(slog.New(slog.DiscardHandler), func(connectors.State) {})
	if err != nil {
		return err
	}
	defer p.close()
	if err := kafkaconf.Reach(ctx, p.produce); err != nil {
		return err
	}
	if err := kafkasignal.Ensure(ctx, p.admin, c.signalTopic(), p.replication()); err != nil {
		return err
	}
	_, err = kafkasignal.Send(ctx, p.produce, c.signalTopic(), c.identity().server, s)
	return err
}
