package signal

import (
	"context"
	"log/slog"
	"sync"
)

// The names of the channels, as signal.enabled.channels takes them.
const (
	ChannelKafka  = "kafka"
	ChannelFile   = "file"
	ChannelSource = "source"
)

// FromRow makes a signal of a row of the signal table and checks it.
func FromRow(id, typ, data string) (Signal, error) {
	_, err := Parse(id, typ, []byte(data))
	return Signal{ID: id, Type: typ, Data: []byte(data), Channel: ChannelSource}, err
}

// Rows is the channel of the signal table. It has no cursor of its own: its rows come with the stream, so that they are
// delivered again exactly where the stream is read again.
type Rows struct {
	log *slog.Logger

	mu      sync.Mutex
	deliver func(Signal)
	early   []Signal // inserted while nobody ran the channel
}

// NewRows returns the channel.
func NewRows(log *slog.Logger) *Rows { return &Rows{log: log} }

// Name returns the channel's name.
func (r *Rows) Name() string { return ChannelSource }

// Run makes Insert deliver, until ctx ends.
func (r *Rows) Run(ctx context.Context, _ string, deliver func(Signal)) error {
	r.mu.Lock()
	for _, s := range r.early {
		deliver(s)
	}
	r.early, r.deliver = nil, deliver
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.deliver = nil
	r.mu.Unlock()
	return ctx.Err()
}

// Insert takes a row: it is delivered before Insert returns, so that what it asks for can be stored with the boundary of its
// transaction. What is not a signal is reported and passed.
func (r *Rows) Insert(id, typ, data string) {
	s, err := FromRow(id, typ, data)
	if err != nil {
		r.log.Warn("a row of the signal table is not a signal and was passed", "id", id, "reason", err.Error())
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deliver == nil {
		r.early = append(r.early, s)
		return
	}
	r.deliver(s)
}
