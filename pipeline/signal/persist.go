package signal

import (
	"context"
	"log/slog"
	"time"
)

// Persist returns the channel as one that never gives up: what keeps it from being read is logged once, and it is tried again
// after a pause that grows, from where the last delivered signal left it.
func Persist(ch Channel, log *slog.Logger) Channel {
	return &persistent{Channel: ch, log: log, first: time.Second, longest: time.Minute}
}

type persistent struct {
	Channel
	log            *slog.Logger
	first, longest time.Duration
}

func (p *persistent) Run(ctx context.Context, cursor string, deliver func(Signal)) error {
	pause, said := p.first, ""
	for {
		began := time.Now()
		err := p.Channel.Run(ctx, cursor, func(s Signal) {
			if s.Cursor != "" {
				cursor = s.Cursor
			}
			deliver(s)
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > p.longest {
			pause, said = p.first, ""
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			p.log.Warn("signals cannot be read; this is tried again, and the stream goes on", "channel", p.Name(), "reason", said)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, p.longest)
	}
}
