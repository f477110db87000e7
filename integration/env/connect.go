package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// Connect is a Kafka Connect worker, distributed, with exactly-once support, Debezium's connectors and an Avro converter: a
// peer to compare with.
type Connect struct{ server }

var errNotFound = errors.New("not found")

// StartConnect starts a worker of its own at a broker; it ends with the run.
func (e *Env) StartConnect(ctx context.Context, k *Kafka) (*Connect, error) {
	c := &Connect{e.newServer("connect", kind{"setup-connect.sh", []string{"CONPORT"}}, true,
		"KPORT="+strconv.Itoa(k.Ports[kafkaPlain]), "GROUP="+Unique("connect-"))}
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("Kafka Connect: %w", err)
	}
	return c, nil
}

// URL is the REST API's root, without a slash at the end.
func (c *Connect) URL() string { return "http://" + c.addr(0) }

// PidFile holds the worker's process id.
func (c *Connect) PidFile() string { return filepath.Join(c.Dir, "pid") }

// ConverterURL is the root of the API that Apicurio's converter of version 2 speaks.
func (r *Registry) ConverterURL() string { return "http://" + r.Addr() + "/apis/registry/v2" }

// Create makes a connector.
func (c *Connect) Create(ctx context.Context, name string, config map[string]string) error {
	_, err := c.request(ctx, http.MethodPost, "/connectors", map[string]any{"name": name, "config": config})
	return err
}

// Delete ends a connector.
func (c *Connect) Delete(ctx context.Context, name string) error {
	_, err := c.request(ctx, http.MethodDelete, "/connectors/"+name, nil)
	return err
}

// Failure is why a connector or its task has failed; nil where it has not, or its state is not known yet.
func (c *Connect) Failure(ctx context.Context, name string) error {
	b, err := c.request(ctx, http.MethodGet, "/connectors/"+name+"/status", nil)
	if errors.Is(err, errNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	type state struct{ State, Trace string }
	var s struct {
		Connector state
		Tasks     []state
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	for _, part := range append(s.Tasks, s.Connector) {
		if part.State == "FAILED" {
			return fmt.Errorf("connector %s has failed: %s", name, part.Trace)
		}
	}
	return nil
}

func (c *Connect) request(ctx context.Context, method, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL()+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s %s: %w: %s", method, path, errNotFound, text)
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return text, nil
}
