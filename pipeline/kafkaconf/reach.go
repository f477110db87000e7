package kafkaconf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// reachTimeout bounds a check where the caller sets no deadline.
const reachTimeout = 15 * time.Second

// Reach connects to a broker and logs in. An error is one sentence that tells an unreachable
// broker, a refused login and a TLS mismatch apart; it may pass (class wait) unless the options
// themselves are wrong.
func Reach(ctx context.Context, opts []kgo.Opt) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	cl, err := kgo.NewClient(append(opts[:len(opts):len(opts)], kgo.RequestRetries(0), kgo.RetryTimeout(reachTimeout))...)
	if err != nil {
		return connectors.Refuse(fmt.Errorf("kafka client: %w", err))
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		seeds, _ := cl.OptValue(kgo.SeedBrokers).([]string)
		return Explain(err, strings.Join(seeds, ","))
	}
	return nil
}

// Explain turns an error of connecting to the brokers at addr into a sentence; others are returned as they are.
func Explain(err error, addr string) error {
	var header tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var eof *kgo.ErrFirstReadEOF
	var dns *net.DNSError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("kafka at %s refused the login; check user, password and mechanism (sasl.jaas.config, sasl.mechanism)", addr)
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Errorf("kafka at %s does not offer that SASL mechanism; check sasl.mechanism", addr)
	case errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("kafka at %s expects another security.protocol: with or without SASL", addr)
	case errors.As(err, &header):
		return fmt.Errorf("kafka at %s does not speak TLS there; check security.protocol and the port", addr)
	case errors.As(err, &authority):
		return fmt.Errorf("the certificate of Kafka at %s is not signed by a trusted authority; check ssl.truststore.location", addr)
	case errors.As(err, &host):
		return fmt.Errorf("the certificate of Kafka at %s does not name that host; use the name in the certificate, or set ssl.endpoint.identification.algorithm to empty", addr)
	case errors.As(err, &invalid):
		return fmt.Errorf("the certificate of Kafka at %s is not valid: %w", addr, invalid)
	case errors.As(err, &dns):
		return fmt.Errorf("cannot find Kafka's host %s; check bootstrap.servers", dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("cannot reach Kafka at %s: connection refused; check bootstrap.servers and that the broker runs", addr)
	case errors.As(err, &eof), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("kafka at %s closes the connection at once; security.protocol does not match that port (TLS or SASL expected)", addr)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("cannot reach Kafka at %s: no answer in time; check bootstrap.servers, the network and security.protocol", addr)
	}
	return fmt.Errorf("cannot reach Kafka at %s: %w", addr, err)
}
