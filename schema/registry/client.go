// Package registry speaks to a schema registry: the Confluent wire format, the
// ids of schemas, and refusals that a person can act on.
//
// Nothing here belongs into a loop over records. A caller resolves the id once
// for each version of a table, keeps it beside its compiled plan, and puts it
// before every record with AppendHeader, which takes no lock. Resolve takes a
// read lock on a hit, and the network only for a schema it never saw: known
// schemas keep flowing while the registry is away.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/sr"
)

// Client asks one registry. It is safe for concurrent use, starts no goroutine
// of its own, and remembers every id it ever got: ids never change their
// schema. Close it when done.
type Client struct {
	endpoints    []endpoint
	preferred    atomic.Int32 // index of the endpoint that answered last
	http         *http.Client
	timeout      time.Duration
	autoRegister bool

	mu      sync.RWMutex
	ids     map[schemaKey]int
	texts   map[int]string
	flights map[any]*flight // requests under way: schemaKey, or an id as int
}

type schemaKey struct{ subject, text string }

// flight is one request that several callers wait for.
type flight struct {
	done chan struct{}
	id   int
	text string
	err  error
}

// New checks cfg and prepares a client. It does not use the network.
func New(cfg Config) (*Client, error) {
	hc := cfg.httpClient()
	eps, err := cfg.endpoints(hc)
	if err != nil {
		return nil, err
	}
	c := &Client{
		endpoints: eps, http: hc, timeout: cfg.RequestTimeout, autoRegister: cfg.AutoRegister,
		ids: make(map[schemaKey]int), texts: make(map[int]string), flights: make(map[any]*flight),
	}
	if c.timeout <= 0 {
		c.timeout = DefaultRequestTimeout
	}
	return c, nil
}

// Close releases idle connections. Requests under way end by their contexts.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Resolve gives the id of schemaText (Avro, JSON) in subject: from memory, else
// from the registry, which is asked for the schema and, with AutoRegister, told
// it. Callers that ask for the same schema at once share one request.
//
// Errors: IsIncompatible and IsInvalid need a person (Blocks); on any other,
// wait with backoff and call again.
func (c *Client) Resolve(ctx context.Context, subject, schemaText string) (int, error) {
	key := schemaKey{subject, schemaText}
	known := func() (*flight, bool) {
		id, ok := c.ids[key]
		return &flight{id: id}, ok
	}
	f, err := c.once(ctx, key, known, func(f *flight) {
		if f.id, f.err = c.ask(ctx, subject, schemaText); f.err != nil {
			return
		}
		c.mu.Lock()
		c.ids[key] = f.id
		c.mu.Unlock()
	})
	if err != nil {
		return 0, err
	}
	return f.id, nil
}

// SchemaByID gives the text of a schema, for those who read records.
func (c *Client) SchemaByID(ctx context.Context, id int) (string, error) {
	known := func() (*flight, bool) {
		text, ok := c.texts[id]
		return &flight{text: text}, ok
	}
	f, err := c.once(ctx, id, known, func(f *flight) {
		var s sr.Schema
		f.err = c.do(ctx, fmt.Sprintf("read schema %d", id), http.MethodGet, fmt.Sprintf("/schemas/ids/%d", id), nil, &s)
		if f.err == nil && s.Schema == "" {
			f.err = c.foreign(fmt.Sprintf("read schema %d", id))
		}
		if f.err != nil {
			return
		}
		f.text = s.Schema
		c.mu.Lock()
		c.texts[id] = s.Schema
		c.mu.Unlock()
	})
	if err != nil {
		return "", err
	}
	return f.text, nil
}

// once returns what known has, or the result of run, which one caller executes
// while the others with the same key wait. A waiter whose leader was cancelled
// takes its place.
func (c *Client) once(ctx context.Context, key any, known func() (*flight, bool), run func(*flight)) (*flight, error) {
	for {
		c.mu.RLock()
		f, ok := known()
		c.mu.RUnlock()
		if ok {
			return f, nil
		}
		c.mu.Lock()
		if f, ok = known(); ok {
			c.mu.Unlock()
			return f, nil
		}
		f, waiting := c.flights[key]
		if !waiting {
			f = &flight{done: make(chan struct{})}
			c.flights[key] = f
			c.mu.Unlock()
			c.lead(key, f, run)
			return f, f.err
		}
		c.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for schema registry: %w", ctx.Err())
		}
		var gone *cancelledError
		if f.err == nil || !asCancelled(f.err, &gone) {
			return f, f.err
		}
	}
}

func (c *Client) lead(key any, f *flight, run func(*flight)) {
	defer func() {
		c.mu.Lock()
		delete(c.flights, key)
		c.mu.Unlock()
		close(f.done)
	}()
	run(f)
}

// ask looks the schema up and registers it where that is allowed. Looking up
// first needs no right to write, and leaves the registry's log alone.
func (c *Client) ask(ctx context.Context, subject, text string) (int, error) {
	body := sr.Schema{Schema: text, Type: sr.TypeAvro}
	path := "/subjects/" + url.PathEscape(subject)
	var found sr.SubjectSchema
	what := fmt.Sprintf("look up schema of subject %q", subject)
	err := c.do(ctx, what, http.MethodPost, path, body, &found)
	if err == nil && found.ID <= 0 {
		return 0, c.foreign(what)
	}
	if err == nil {
		return found.ID, nil
	}
	var answer *Error
	if !errors.As(err, &answer) || !IsNotFound(err) {
		return 0, err
	}
	if !c.autoRegister {
		e := *answer
		e.sentence = fmt.Sprintf("schema registry %s does not have this schema of subject %q, and auto.register.schemas is false: register it, or set auto.register.schemas to true", e.Endpoint, subject)
		return 0, &e
	}
	var made struct {
		ID int `json:"id"`
	}
	what = fmt.Sprintf("register schema of subject %q", subject)
	err = c.do(ctx, what, http.MethodPost, path+"/versions", body, &made)
	if isKind(err, kindIncompatible) && errors.As(err, &answer) {
		return 0, c.explain(ctx, subject, body, answer)
	}
	if err == nil && made.ID <= 0 {
		err = c.foreign(what)
	}
	if err != nil {
		return 0, err
	}
	return made.ID, nil
}

// explain collects the reasons of a refusal. What cannot be had is left out:
// the refusal itself stands.
func (c *Client) explain(ctx context.Context, subject string, body sr.Schema, refusal *Error) error {
	out := &IncompatibleError{Subject: subject, SchemaText: body.Schema}
	if level, err := c.SubjectLevel(ctx, subject); err == nil {
		out.Level = level
	}
	verbose := sr.WithParams(ctx, sr.Verbose)
	for _, suffix := range []string{"", "/latest"} {
		var answer struct {
			Messages []string `json:"messages"`
		}
		path := "/compatibility/subjects/" + url.PathEscape(subject) + "/versions" + suffix
		if err := c.do(verbose, "check compatibility", http.MethodPost, path, body, &answer); err == nil && len(answer.Messages) > 0 {
			out.Messages = answer.Messages
			return out
		}
	}
	// Apicurio gives its reasons only here, behind the name of a Java class.
	if said := strings.TrimPrefix(refusal.Message, "io.apicurio.registry.rules.violation.RuleViolationException: "); said != "" {
		out.Messages = []string{said}
	}
	return out
}

// SubjectLevel gives the compatibility level in force for subject (BACKWARD,
// FULL_TRANSITIVE, NONE …): its own, else the registry's. An empty subject asks
// for the registry's.
func (c *Client) SubjectLevel(ctx context.Context, subject string) (string, error) {
	var answer struct {
		Level string `json:"compatibilityLevel"`
	}
	if subject != "" {
		what := fmt.Sprintf("read compatibility level of subject %q", subject)
		err := c.do(sr.WithParams(ctx, sr.DefaultToGlobal), what, http.MethodGet, "/config/"+url.PathEscape(subject), nil, &answer)
		if err == nil || !IsNotFound(err) {
			return answer.Level, err
		}
		// Not every registry knows defaultToGlobal.
	}
	err := c.do(ctx, "read compatibility level", http.MethodGet, "/config", nil, &answer)
	return answer.Level, err
}

// Check reports whether the registry answers and takes our credentials.
func (c *Client) Check(ctx context.Context) error {
	var subjects []string
	// Registries that do not know the limit answer with all subjects.
	return c.do(sr.WithParams(ctx, sr.Limit(1)), "check the schema registry", http.MethodGet, "/subjects", nil, &subjects)
}
