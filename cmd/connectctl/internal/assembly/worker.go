package assembly

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/config"
	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline/kafkaconf"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// Worker is a checked worker configuration.
type Worker struct {
	Path   string
	Config connectors.Config
}

// ProblemsError is a configuration with problems, all of them.
type ProblemsError struct {
	Where    string // file
	Problems []connectors.Problem
}

func (e *ProblemsError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return e.Where + ": " + lines[0]
	}
	return fmt.Sprintf("%s has %d problems:\n  %s", e.Where, len(lines), strings.Join(lines, "\n  "))
}

// LoadWorker reads and checks a worker file.
func LoadWorker(path string) (*Worker, error) {
	return LoadWorkerOver(path, nil)
}

// LoadWorkerOver reads a worker file, if path is not empty, with some properties replaced.
func LoadWorkerOver(path string, over map[string]string) (*Worker, error) {
	raw, written := map[string]string{}, map[string]string{}
	if path != "" {
		var err error
		if raw, written, err = load(path); err != nil {
			return nil, err
		}
	} else {
		path = "the command line"
	}
	maps.Copy(raw, over)
	maps.Copy(written, over)
	cfg, problems := WorkerSpec().Parse(raw)
	if _, ok := raw["connector.class"]; ok {
		problems = []connectors.Problem{{Property: "connector.class", Message: "this is a connector's file where a worker's is wanted; the worker's file comes first, or after --worker"}}
	}
	if len(problems) > 0 {
		return nil, &ProblemsError{path, redact(problems, raw, written)}
	}
	return &Worker{Path: path, Config: cfg}, nil
}

// load reads a file and resolves its references; written is the file as it is.
func load(path string) (resolved, written map[string]string, err error) {
	if written, err = config.Load(path); err != nil {
		return nil, nil, err
	}
	if resolved, err = config.Resolve(written); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return resolved, written, nil
}

// redact puts the reference back where a problem quotes what it stands for: it may be a secret.
func redact(problems []connectors.Problem, resolved, written map[string]string) []connectors.Problem {
	for i, p := range problems {
		if value := strings.TrimSpace(resolved[p.Property]); value != "" && resolved[p.Property] != written[p.Property] {
			quoted := strconv.Quote(value)
			p.Message = strings.ReplaceAll(p.Message, quoted, written[p.Property])
			problems[i].Message = strings.ReplaceAll(strings.ReplaceAll(p.Message, quoted[1:len(quoted)-1], written[p.Property]), value, written[p.Property])
		}
	}
	return problems
}

// GroupID returns the worker's group.id.
func (w *Worker) GroupID() string { return w.Config.String("group.id") }

// KafkaOptions returns the client options for a use: kafkaconf.Producer, Consumer or Admin.
func (w *Worker) KafkaOptions(use string) ([]kgo.Opt, error) {
	return kafkaconf.FromConfig(w.Config, use)
}

// Registry returns a client of the worker's schema registry.
func (w *Worker) Registry() (*registry.Client, error) {
	return registryClient(w.Config, connectors.Config{})
}

// registryClient builds the client from the worker's properties, overridden by the connector's;
// a converter's property goes before the plain one.
func registryClient(worker, connector connectors.Config) (*registry.Client, error) {
	get := func(name string) string {
		for _, cfg := range []connectors.Config{connector, worker} {
			for _, prefix := range []string{"value.converter.", "key.converter.", ""} {
				if cfg.IsSet(prefix+name) && cfg.String(prefix+name) != "" {
					return cfg.String(prefix + name)
				}
			}
		}
		return worker.String(name)
	}
	urls := strings.FieldsFunc(get("schema.registry.url"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(urls) == 0 {
		return nil, errors.New("schema.registry.url is missing; Avro needs a schema registry: set it in the worker file, such as http://localhost:8081")
	}
	rc := registry.Config{
		URLs:         urls,
		BearerToken:  get("bearer.auth.token"),
		AutoRegister: !strings.EqualFold(get("auto.register.schemas"), "false"),
	}
	if info := get("basic.auth.user.info"); info != "" {
		user, password, ok := strings.Cut(info, ":")
		if !ok {
			return nil, errors.New("basic.auth.user.info is not user:password")
		}
		rc.Username, rc.Password = user, password
	}
	if file := get("schema.registry.ssl.truststore.location"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("schema.registry.ssl.truststore.location: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("schema.registry.ssl.truststore.location: %s holds no PEM certificate", file)
		}
		rc.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client, err := registry.New(rc)
	if err != nil {
		return nil, fmt.Errorf("schema.registry.url: %w", err)
	}
	return client, nil
}
