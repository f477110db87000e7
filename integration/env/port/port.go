// Package port finds free TCP ports for servers that are told their port before they bind it.
package port

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// Ports below Linux's ephemeral range (32768 and up): no outgoing connection takes one between the look and the bind.
const (
	First = 20000
	Limit = 32768
)

// Free returns a port in [First, Limit) that nobody listens on at 127.0.0.1. Another process may still take it before the caller binds it.
func Free() (int, error) {
	for range 200 {
		p := First + rand.IntN(Limit-First)
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", p))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("look for a free port: %w", err)
		}
		return p, l.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d after 200 tries", First, Limit)
}
