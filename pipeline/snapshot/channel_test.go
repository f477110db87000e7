package snapshot

import (
	"context"
	"strconv"
	"sync"

	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

// channel is a way for signals to come in that keeps all of them.
type channel struct {
	mu      sync.Mutex
	list    []signal.Signal
	changed chan struct{}
}

func newChannel() *channel { return &channel{changed: make(chan struct{})} }

func (c *channel) Name() string { return "fake" }

func (c *channel) send(id, kind, data string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, signal.Signal{ID: id, Type: kind, Data: []byte(data), Channel: "fake", Cursor: strconv.Itoa(len(c.list) + 1)})
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *channel) Run(ctx context.Context, cursor string, deliver func(signal.Signal)) error {
	n, _ := strconv.Atoi(cursor)
	for {
		c.mu.Lock()
		list, changed := c.list, c.changed
		c.mu.Unlock()
		for ; n < len(list); n++ {
			deliver(list[n])
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// received tells that a signal came in and was not taken yet.
func (s *Source) received(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.signals) > 0 && s.signals[len(s.signals)-1].ID == id
}
