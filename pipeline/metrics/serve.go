package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// CheckListener checks one member of metrics.listeners: http://host:port.
func CheckListener(text string) error {
	_, err := listener(text)
	return err
}

// listener returns the address to listen at.
func listener(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return "", fmt.Errorf("%q is not a listener such as http://127.0.0.1:9404", text)
	}
	if u.Scheme != "http" {
		return "", fmt.Errorf("%q is not http://; put a proxy before it where it must be encrypted", text)
	}
	return u.Host, nil
}

// Handler answers /metrics.
func (r *Registry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r.reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "tidemark: see /metrics")
	})
	return mux
}

// Server serves the metrics until it is closed.
type Server struct {
	Addresses []string // where it listens, host:port
	servers   []*http.Server
	ended     chan struct{}
}

// Serve listens at all of the listeners, or at none.
func (r *Registry) Serve(listeners []string) (*Server, error) {
	var open []net.Listener
	for _, text := range listeners {
		address, err := listener(text)
		if err == nil {
			var l net.Listener
			if l, err = net.Listen("tcp", address); err == nil {
				open = append(open, l)
				continue
			}
			err = fmt.Errorf("cannot listen at %s: %w", address, cause(err))
		}
		for _, l := range open {
			_ = l.Close()
		}
		return nil, fmt.Errorf("metrics.listeners: %w", err)
	}
	s := &Server{ended: make(chan struct{}, len(open))}
	for _, l := range open {
		server := &http.Server{Handler: r.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		s.servers, s.Addresses = append(s.servers, server), append(s.Addresses, l.Addr().String())
		go func() {
			_ = server.Serve(l) // ErrServerClosed
			s.ended <- struct{}{}
		}()
	}
	return s, nil
}

// cause leaves out what net repeats: the address.
func cause(err error) error {
	if op := new(net.OpError); errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// Close stops listening and waits for answers under way, for at most a second.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, server := range s.servers {
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
	}
	for range s.servers {
		<-s.ended
	}
}
