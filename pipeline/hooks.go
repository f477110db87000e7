package pipeline

import (
	"time"

	"github.com/tidemark-cdc/tidemark/offsets"
)

// Committed describes one committed Kafka transaction.
type Committed struct {
	Records      int           // without offset entries
	Bytes        int           // keys, values and header values
	Transactions int           // source transactions with records in it
	Duration     time.Duration // first write to the end of the commit
	SourceTime   int64         // commit time of the newest source transaction in it, microseconds since the Unix epoch; 0 where it has none
}

// CommitHook is told of every committed Kafka transaction. It must not block.
type CommitHook interface {
	TransactionCommitted(Committed)
}

// AckHook is told of every boundary acknowledged to the source. It must not block.
type AckHook interface {
	BoundaryAcknowledged(offsets.Object)
}

func (c *Config) committed(s Committed) {
	for _, h := range c.Hooks {
		if h, ok := h.(CommitHook); ok {
			h.TransactionCommitted(s)
		}
	}
}

func (c *Config) acknowledged(b offsets.Object) {
	for _, h := range c.Hooks {
		if h, ok := h.(AckHook); ok {
			h.BoundaryAcknowledged(b)
		}
	}
}
