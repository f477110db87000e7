package kafkaconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "s3cr;t \\\"x"

func jaas(module string) string {
	return "org.apache.kafka.common.security." + module + ` required username="u" password="s3cr;t \\\"x" ;`
}

func TestParseJAAS(t *testing.T) {
	l, err := parseJAAS(jaas("plain.PlainLoginModule"))
	if err != nil || l.user != "u" || l.password != secret {
		t.Fatalf("got %+v, %v", l, err)
	}
	if l, err = parseJAAS("  a.ScramLoginModule   required\tusername=u\n password='x' ;"); err == nil && l.user == "" {
		t.Errorf("bare values: %+v, %v", l, err)
	}
	for _, bad := range []string{"", "x", jaas("plain.PlainLoginModule")[:80], "a.PlainLoginModule required username=\"u\";",
		"a.PlainLoginModule required password=\"hidden\";", "a.Krb5LoginModule required username=\"u\" password=\"hidden\";",
		"a.PlainLoginModule username=\"u\" password=\"hidden\";", "a.PlainLoginModule required username=\"u\" password=\"hidden"} {
		if _, err := parseJAAS(bad); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestOptionsRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(dir, "junk.pem")
	if err := os.WriteFile(junk, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, extra := range map[string]map[string]string{
		"is missing":           {"bootstrap.servers": ""},
		"host:port":            {"bootstrap.servers": "localhost"},
		"holds a login":        {"bootstrap.servers": "admin:hidden@localhost:1"},
		"from 1 to 65535":      {"bootstrap.servers": "localhost:99999"},
		"did you mean":         {"bootstrap.server": "x"},
		"SASL_PLAINTEXT":       {"security.protocol": "TLS"},
		"needs a login":        {"security.protocol": "SASL_SSL"},
		"does not go with":     {"security.protocol": "SASL_SSL", "sasl.jaas.config": jaas("scram.ScramLoginModule")},
		"Java store":           {"security.protocol": "SSL", "ssl.truststore.location": "/x/trust.jks"},
		"no such file":         {"security.protocol": "SSL", "ssl.truststore.location": filepath.Join(dir, "absent.pem")},
		"no certificate":       {"security.protocol": "SSL", "ssl.truststore.location": junk},
		"certificate chain":    {"security.protocol": "SSL", "ssl.keystore.location": junk},
		"encrypted":            {"security.protocol": "SSL", "ssl.keystore.certificate.chain": "x", "ssl.keystore.key": "ENCRYPTED"},
		"1000":                 {"request.timeout.ms": "5"},
		"sasl.mechanism":       {"sasl.mechanism": "GSSAPI"},
		"ssl.truststore.type:": {"ssl.truststore.type": "JKS"},
	} {
		props := map[string]string{"bootstrap.servers": "127.0.0.1:9092"}
		for k, v := range extra {
			props[k] = v
		}
		_, err := Options(props)
		if err == nil || connectors.ClassOf(err) != connectors.ClassRefused || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr") {
			t.Errorf("%v: got %v, want %q", extra, err, want)
		}
	}
}

func TestPrefixOverrides(t *testing.T) {
	spec := append(Spec(), PrefixedSpec(Producer, Consumer, Admin)...)
	cfg, problems := spec.Parse(map[string]string{
		"bootstrap.servers": "a:1", "client.id": "x", "producer.client.id": "p", "admin.request.timeout.ms": "1", "consumer.clientid": "q",
	})
	if len(problems) != 2 || problems[0].Property != "admin.request.timeout.ms" || !strings.Contains(problems[1].Message, "consumer.client.id") {
		t.Errorf("got %v", problems)
	}
	if p := Properties(cfg, Producer); p["client.id"] != "p" || p["bootstrap.servers"] != "a:1" {
		t.Errorf("got %v", p)
	}
	if p := Properties(cfg, ""); p["client.id"] != "x" {
		t.Errorf("got %v", p)
	}
}

// certificate returns a self-signed certificate for a host, and itself as PEM.
func certificate(t *testing.T, host string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func fake(t *testing.T, opts ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

func TestReach(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	cert, certPEM := certificate(t, "localhost")
	wrong, wrongPEM := certificate(t, "elsewhere")
	plainAddr := fake(t)
	saslAddr := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", secret), kfake.Superuser("SCRAM-SHA-256", "u", secret))
	tlsAddr := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	wrongAddr := fake(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{wrong}}))
	byName := func(addr string) string {
		_, port, _ := net.SplitHostPort(addr)
		return "localhost:" + port
	}
	reachAll(t, []reachCase{
		{"plain", "", map[string]string{"bootstrap.servers": plainAddr}},
		{"closed port", "connection refused", map[string]string{"bootstrap.servers": closed}},
		{"unknown host", "cannot find", map[string]string{"bootstrap.servers": "no-such-host.invalid:9092"}},
		{"login", "", map[string]string{"bootstrap.servers": saslAddr, "security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas("plain.PlainLoginModule")}},
		{"scram", "", map[string]string{"bootstrap.servers": saslAddr, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas("scram.ScramLoginModule")}},
		{"tls", "", map[string]string{"bootstrap.servers": byName(tlsAddr), "security.protocol": "SSL", "ssl.truststore.certificates": certPEM}},
		{"untrusted", "trusted authority", map[string]string{"bootstrap.servers": byName(tlsAddr), "security.protocol": "SSL"}},
		{"wrong host", "does not name", map[string]string{"bootstrap.servers": byName(wrongAddr), "security.protocol": "SSL", "ssl.truststore.certificates": wrongPEM}},
		{"host not checked", "", map[string]string{"bootstrap.servers": byName(wrongAddr), "security.protocol": "SSL", "ssl.truststore.certificates": wrongPEM, "ssl.endpoint.identification.algorithm": ""}},
		{"host not checked, untrusted", "trusted authority", map[string]string{"bootstrap.servers": byName(wrongAddr), "security.protocol": "SSL", "ssl.truststore.certificates": certPEM, "ssl.endpoint.identification.algorithm": ""}},
		{"plain at a TLS port", "security.protocol", map[string]string{"bootstrap.servers": tlsAddr}},
	})
}

// The fake closes the connection on a wrong login and waits on a TLS hello; a real broker answers.
func TestReachRealBroker(t *testing.T) {
	plainAddr, saslAddr := os.Getenv("TIDEMARK_TEST_KAFKA"), os.Getenv("TIDEMARK_TEST_KAFKA_SASL")
	if plainAddr == "" || saslAddr == "" {
		t.Skip("TIDEMARK_TEST_KAFKA and TIDEMARK_TEST_KAFKA_SASL (listeners of a real broker) are not set")
	}
	norights := `a.ScramLoginModule required username="norights" password="norights";`
	reachAll(t, []reachCase{
		{"wrong login", "refused the login", map[string]string{"bootstrap.servers": saslAddr, "security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": jaas("plain.PlainLoginModule")}},
		{"login", "", map[string]string{"bootstrap.servers": saslAddr, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": norights}},
		{"SASL expected", "security.protocol", map[string]string{"bootstrap.servers": saslAddr}},
		{"TLS at a plain port", "TLS", map[string]string{"bootstrap.servers": plainAddr, "security.protocol": "SSL"}},
	})
}

type reachCase struct {
	name, want string
	props      map[string]string
}

func reachAll(t *testing.T, cases []reachCase) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			tc.props["request.timeout.ms"] = "2000"
			opts, err := Options(tc.props)
			if err != nil {
				t.Fatal(err)
			}
			err = Reach(t.Context(), opts)
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cr")) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
