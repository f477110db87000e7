// Package kafkaconf turns the properties of the Java clients (bootstrap.servers,
// security.protocol, sasl.jaas.config, ssl.* …) into options of the Kafka client. As in Kafka
// Connect, a property with the prefix producer., consumer. or admin. overrides the plain one for
// that use. Passwords never appear in an error.
package kafkaconf

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// The prefixes of Kafka Connect.
const (
	Producer = "producer."
	Consumer = "consumer."
	Admin    = "admin."
)

// Spec returns the connection properties.
func Spec() connectors.Spec {
	return connectors.Spec{
		{Name: "bootstrap.servers", Type: connectors.TypeList, Required: true, Check: checkServers, Doc: "Kafka brokers to ask first, as host:port, separated by commas."},
		{Name: "client.id", Type: connectors.TypeString, Default: "tidemark", Doc: "Name of this client in the broker's logs and quotas."},
		{Name: "security.protocol", Type: connectors.TypeString, Default: "PLAINTEXT", Allowed: []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, Doc: "How to talk to the brokers."},
		{Name: "sasl.mechanism", Type: connectors.TypeString, Default: "PLAIN", Allowed: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, Doc: "SASL mechanism, with SASL_PLAINTEXT and SASL_SSL."},
		{Name: "sasl.jaas.config", Type: connectors.TypePassword, Check: checkJAAS, Doc: `Login as the Java client takes it: org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";`},
		{Name: "ssl.truststore.location", Type: connectors.TypeString, Check: checkPEMName, Doc: "PEM file of the certificates to trust; the system's where absent."},
		{Name: "ssl.truststore.certificates", Type: connectors.TypePassword, Doc: "The certificates to trust, as PEM text, instead of a file."},
		{Name: "ssl.truststore.type", Type: connectors.TypeString, Default: "PEM", Allowed: []string{"PEM"}, Doc: "Only PEM; convert a JKS or PKCS12 store with keytool and openssl."},
		{Name: "ssl.keystore.location", Type: connectors.TypeString, Check: checkPEMName, Doc: "PEM file with the client's private key (not encrypted) and certificate chain."},
		{Name: "ssl.keystore.certificate.chain", Type: connectors.TypePassword, Doc: "The client's certificate chain, as PEM text, with ssl.keystore.key."},
		{Name: "ssl.keystore.key", Type: connectors.TypePassword, Doc: "The client's private key, not encrypted, as PEM text."},
		{Name: "ssl.keystore.type", Type: connectors.TypeString, Default: "PEM", Allowed: []string{"PEM"}, Doc: "Only PEM."},
		{Name: "ssl.endpoint.identification.algorithm", Type: connectors.TypeString, Default: "https", Allowed: []string{"https", ""}, Doc: "https checks that the broker's certificate names its host; empty does not."},
		{Name: "request.timeout.ms", Type: connectors.TypeLong, Default: "30000", Check: between(1000, 15*60*1000), Doc: "How long to wait for the answer to a request, in milliseconds."},
		{Name: "socket.connection.setup.timeout.ms", Type: connectors.TypeLong, Default: "10000", Check: between(100, 15*60*1000), Doc: "How long to wait for a connection, in milliseconds."},
		{Name: "connections.max.idle.ms", Type: connectors.TypeLong, Default: "540000", Check: between(1000, 24*60*60*1000), Doc: "Idle connections are closed after this many milliseconds."},
		{Name: "metadata.max.age.ms", Type: connectors.TypeLong, Default: "300000", Check: between(1000, 24*60*60*1000), Doc: "Topics are looked up again after this many milliseconds."},
		{Name: "retry.backoff.ms", Type: connectors.TypeLong, Default: "100", Check: between(1, 60*1000), Doc: "First wait before a request is sent again, in milliseconds; it doubles up to retry.backoff.max.ms."},
		{Name: "retry.backoff.max.ms", Type: connectors.TypeLong, Default: "1000", Check: between(1, 60*1000), Doc: "Longest wait before a request is sent again, in milliseconds."},
	}
}

// PrefixedSpec returns the connection properties again under each prefix, none required and
// without defaults: what is not set there is taken from the plain property.
func PrefixedSpec(prefixes ...string) connectors.Spec {
	var out connectors.Spec
	for _, prefix := range prefixes {
		for _, p := range Spec() {
			p.Doc = fmt.Sprintf("Overrides %s for the %s.", p.Name, strings.TrimSuffix(prefix, "."))
			p.Name, p.Required, p.Default = prefix+p.Name, false, ""
			out = append(out, p)
		}
	}
	return out
}

// Properties returns the connection properties of a configuration, those with the prefix
// overriding the plain ones; the prefix may be empty. Only what was set is in it.
func Properties(cfg connectors.Config, prefix string) map[string]string {
	props := map[string]string{}
	for _, p := range Spec() {
		if cfg.IsSet(p.Name) {
			props[p.Name] = cfg.String(p.Name)
		}
		if prefix != "" && cfg.IsSet(prefix+p.Name) {
			props[p.Name] = cfg.String(prefix + p.Name)
		}
	}
	return props
}

func checkServers(v string) error {
	n := 0
	for _, s := range strings.Split(v, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		n++
		if strings.Contains(s, "@") { // not repeated: it may hold a password
			return errors.New("holds a login; give brokers as host:port, and the login in sasl.jaas.config")
		}
		host, port, err := net.SplitHostPort(s)
		if err != nil || host == "" {
			return fmt.Errorf("%q is not host:port", s)
		}
		if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
			return fmt.Errorf("%q has no port from 1 to 65535", s)
		}
	}
	if n == 0 {
		return errors.New("names no broker; give at least one as host:port")
	}
	return nil
}

func checkPEMName(v string) error {
	for _, suffix := range []string{".jks", ".p12", ".pfx", ".keystore", ".truststore"} {
		if strings.HasSuffix(strings.ToLower(v), suffix) {
			return fmt.Errorf("%s looks like a Java store; only PEM files are read (convert it with keytool and openssl pkcs12)", v)
		}
	}
	return nil
}

func checkJAAS(v string) error {
	_, err := parseJAAS(v)
	return err
}

func between(low, high int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%s is not between %d and %d", v, low, high)
		}
		return nil
	}
}
