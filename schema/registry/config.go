package registry

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// DefaultRequestTimeout bounds one HTTP request where Config names no other.
const DefaultRequestTimeout = 10 * time.Second

// Config says how to reach a registry. Its String hides every secret.
type Config struct {
	// URLs of the registry, path prefix included (Apicurio:
	// http://host:8080/apis/ccompat/v7). Each is tried in turn, the one that
	// answered last first. User and password within a URL count for that URL
	// only, and are never shown.
	URLs []string
	// Username and Password are sent as HTTP basic auth where Username is set
	// and the URL carries no user of its own.
	Username, Password string
	// BearerToken is sent as Authorization header. It excludes basic auth.
	BearerToken string
	// TLS is used for https URLs; nil means the system's certificates.
	TLS *tls.Config
	// RequestTimeout bounds one request to one URL; 0 is DefaultRequestTimeout.
	RequestTimeout time.Duration
	// UserAgent is sent with every request; empty is "tidemark".
	UserAgent string
	// AutoRegister (property auto.register.schemas) registers a schema that the
	// subject does not have. Without it schemas are only looked up.
	AutoRegister bool
}

// String shows where the registry is, without credentials.
func (c Config) String() string {
	shown := make([]string, len(c.URLs))
	for i, u := range c.URLs {
		shown[i] = redact(u)
	}
	return fmt.Sprintf("schema registry %s (auto register %t)", strings.Join(shown, ","), c.AutoRegister)
}

// GoString keeps secrets out of %#v too.
func (c Config) GoString() string { return c.String() }

// endpoint is one URL of the registry with the client that asks it.
type endpoint struct {
	shown string // URL without user information
	sr    *sr.Client
}

// redact returns raw without user information, or a placeholder where raw is
// too broken to tell what is secret.
func redact(raw string) string {
	u, err := parseURL(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	u.User = nil
	return u.String()
}

func parseURL(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error quotes its input, which may hold a password.
		return nil, errors.New("schema registry URL cannot be read: write http://host:port or https://host:port (a special character in a password must be percent-encoded)")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		u.User = nil
		return nil, fmt.Errorf("schema registry URL %q is not usable: write http://host:port or https://host:port", u)
	}
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

func (c Config) endpoints(hc *http.Client) ([]endpoint, error) {
	if len(c.URLs) == 0 {
		return nil, errors.New("no schema registry URL is set: set schema.registry.url")
	}
	if c.BearerToken != "" && c.Username != "" {
		return nil, errors.New("schema registry has both a bearer token and a user name: set one of them")
	}
	var out []endpoint
	for _, raw := range c.URLs {
		u, err := parseURL(raw)
		if err != nil {
			return nil, err
		}
		user, pass := c.Username, c.Password
		if u.User != nil {
			user = u.User.Username()
			pass, _ = u.User.Password()
			u.User = nil
		}
		opts := []sr.ClientOpt{sr.HTTPClient(hc), sr.URLs(u.String()), sr.LogLevel(sr.LogLevelNone)}
		switch {
		case c.BearerToken != "":
			opts = append(opts, sr.BearerToken(c.BearerToken))
		case user != "":
			opts = append(opts, sr.BasicAuth(user, pass))
		}
		opts = append(opts, sr.UserAgent(orDefault(c.UserAgent, "tidemark")))
		cl, err := sr.NewClient(opts...)
		if err != nil {
			return nil, fmt.Errorf("prepare schema registry client: %w", err)
		}
		out = append(out, endpoint{shown: u.String(), sr: cl})
	}
	return out, nil
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// httpClient follows redirects only where the method survives: a POST that
// becomes a GET would be answered with something else than what was asked.
func (c Config) httpClient() *http.Client {
	tr := http.DefaultTransport.(*http.Transport).Clone()
	if c.TLS != nil {
		tr.TLSClientConfig = c.TLS.Clone()
	}
	return &http.Client{
		Transport: bounded{tr},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.Method != via[0].Method || len(via) >= 10 {
				return fmt.Errorf("it redirects to %s: set that host as schema registry URL", redact(req.URL.Scheme+"://"+req.URL.Host))
			}
			return nil
		},
	}
}

// maxAnswer bounds an answer in bytes: a schema is at most a few MiB, and what has no end is no registry's.
const maxAnswer = 16 << 20

// bounded ends answers that are too long.
type bounded struct{ *http.Transport }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.Transport.RoundTrip(req)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errForeign
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
