package kafkaconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// metadataMinAge is how often the client may look up leaders. Its own default of 5 s turns a
// moved leader into seconds of standstill.
const metadataMinAge = 100 * time.Millisecond

// FromConfig returns the client options of a checked configuration, see Properties and Options.
func FromConfig(cfg connectors.Config, prefix string) ([]kgo.Opt, error) {
	return Options(Properties(cfg, prefix))
}

// Options returns the client options of a set of properties of this package's Spec; what is
// missing has its default. Files are read here. Errors are of class refused.
func Options(props map[string]string) ([]kgo.Opt, error) {
	cfg, problems := Spec().Parse(props)
	if len(problems) > 0 {
		return nil, connectors.Refuse(errors.New(problems[0].String()))
	}
	first, most := cfg.Millis("retry.backoff.ms"), cfg.Millis("retry.backoff.max.ms")
	opts := []kgo.Opt{
		kgo.SeedBrokers(cfg.List("bootstrap.servers")...),
		kgo.ClientID(cfg.String("client.id")),
		kgo.SoftwareNameAndVersion("tidemark", "1"),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MetadataMaxAge(cfg.Millis("metadata.max.age.ms")),
		kgo.RequestTimeoutOverhead(cfg.Millis("request.timeout.ms")),
		kgo.ConnIdleTimeout(cfg.Millis("connections.max.idle.ms")),
		kgo.DialTimeout(cfg.Millis("socket.connection.setup.timeout.ms")),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(most, first<<min(max(tries-1, 0), 16))
		}),
	}
	protocol := strings.ToUpper(cfg.String("security.protocol"))
	if strings.HasPrefix(protocol, "SASL_") {
		opt, err := saslOption(cfg)
		if err != nil {
			return nil, connectors.Refuse(err)
		}
		opts = append(opts, opt)
	}
	if strings.HasSuffix(protocol, "SSL") {
		t, err := tlsConfig(cfg)
		if err != nil {
			return nil, connectors.Refuse(err)
		}
		opts = append(opts, kgo.DialTLSConfig(t))
	}
	return opts, nil
}

func saslOption(cfg connectors.Config) (kgo.Opt, error) {
	if !cfg.IsSet("sasl.jaas.config") {
		return nil, fmt.Errorf("sasl.jaas.config is missing; security.protocol=%s needs a login", cfg.String("security.protocol"))
	}
	l, err := parseJAAS(cfg.String("sasl.jaas.config"))
	if err != nil {
		return nil, fmt.Errorf("sasl.jaas.config: %w", err)
	}
	mechanism := strings.ToUpper(cfg.String("sasl.mechanism"))
	if scramLogin := strings.HasSuffix(l.module, "ScramLoginModule"); scramLogin == (mechanism == "PLAIN") {
		return nil, fmt.Errorf("sasl.jaas.config: %s does not go with sasl.mechanism=%s", l.module, mechanism)
	}
	switch mechanism {
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Auth{User: l.user, Pass: l.password}.AsSha256Mechanism()), nil
	case "SCRAM-SHA-512":
		return kgo.SASL(scram.Auth{User: l.user, Pass: l.password}.AsSha512Mechanism()), nil
	}
	return kgo.SASL(plain.Auth{User: l.user, Pass: l.password}.AsMechanism()), nil
}

func tlsConfig(cfg connectors.Config) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	trusted, where, err := pemOf(cfg, "ssl.truststore.location", "ssl.truststore.certificates")
	if err != nil {
		return nil, err
	}
	if len(trusted) > 0 {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(trusted) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", where)
		}
	}
	if err := addClientCertificate(t, cfg); err != nil {
		return nil, err
	}
	if cfg.IsSet("ssl.endpoint.identification.algorithm") && cfg.String("ssl.endpoint.identification.algorithm") == "" {
		trustAnyHost(t)
	}
	return t, nil
}

func addClientCertificate(t *tls.Config, cfg connectors.Config) error {
	chain, where, err := pemOf(cfg, "ssl.keystore.location", "ssl.keystore.certificate.chain")
	if err != nil || len(chain) == 0 {
		return err
	}
	key := chain
	if cfg.IsSet("ssl.keystore.key") {
		key, where = []byte(cfg.String("ssl.keystore.key")), "ssl.keystore.key"
	}
	if strings.Contains(string(key), "ENCRYPTED") {
		return fmt.Errorf("%s holds an encrypted private key, which is not supported; decrypt it with openssl pkcs8", where)
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("%s: %w; it needs a private key and its certificate chain in PEM", where, err)
	}
	t.Certificates = []tls.Certificate{cert}
	return nil
}

func pemOf(cfg connectors.Config, file, text string) (pem []byte, where string, err error) {
	if cfg.IsSet(text) && cfg.String(text) != "" {
		return []byte(cfg.String(text)), text, nil
	}
	if path := cfg.String(file); path != "" {
		pem, err = os.ReadFile(path)
		if err != nil {
			return nil, file, fmt.Errorf("%s: %w", file, err)
		}
		return pem, file + " " + path, nil
	}
	return nil, "", nil
}

// trustAnyHost still checks the chain, and leaves out only the host's name, as the Java client does.
func trustAnyHost(t *tls.Config) {
	roots := t.RootCAs
	t.InsecureSkipVerify = true
	t.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the broker sent no certificate")
		}
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}
