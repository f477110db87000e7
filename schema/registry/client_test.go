package registry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/schema/registry"
	"github.com/tidemark-cdc/tidemark/schema/registry/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	v1     = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}`
	v2     = `{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","string"],"default":null}]}`
	broken = `{"type":"record","name":"R","fields":[{"name":"a","type":"string"}]}`
)

// server is an embedded registry with a door in front: gate sees each request
// and answers it itself by returning true.
type server struct {
	url  string
	hits atomic.Int32
	gate atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

func (s *server) setGate(f func(http.ResponseWriter, *http.Request) bool) { s.gate.Store(&f) }

func (s *server) fail(status int) {
	s.setGate(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true })
}

func newServer(t *testing.T) *server {
	t.Helper()
	r, err := embedded.Open(t.TempDir(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.hits.Add(1)
		if g := s.gate.Load(); g != nil && (*g)(w, req) {
			return
		}
		r.Handler().ServeHTTP(w, req)
	}))
	s.url = hs.URL
	t.Cleanup(func() {
		hs.Close()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newClient(t *testing.T, cfg registry.Config) *registry.Client {
	t.Helper()
	c, err := registry.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestResolve(t *testing.T) {
	s, ctx := newServer(t), deadline(t)
	c := newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true})
	if err := c.Check(ctx); err != nil {
		t.Fatal(err)
	}
	subject := registry.ValueSubject("p.public/odd name.t")
	first := resolve(t, c, subject, v1)
	second := resolve(t, c, subject, v2)
	other := resolve(t, c, "other-value", v1)
	if first == second || other != first {
		t.Errorf("ids %d, %d and %d: want two texts with two ids, and the same text with the same id in another subject", first, second, other)
	}
	if again := resolve(t, newClient(t, registry.Config{URLs: []string{s.url}}), subject, v1); again != first {
		t.Errorf("a client that only looks up got id %d, want %d", again, first)
	}
	for range 2 {
		text, err := c.SchemaByID(ctx, second)
		if err != nil || text != v2 {
			t.Fatalf("schema %d is %s (%v)", second, text, err)
		}
		s.fail(503) // the second round must need no network
	}
}

func resolve(t *testing.T, c *registry.Client, subject, text string) int {
	t.Helper()
	id, err := c.Resolve(deadline(t), subject, text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestUseExistingDoesNotRegister(t *testing.T) {
	s := newServer(t)
	c := newClient(t, registry.Config{URLs: []string{s.url}})
	_, err := c.Resolve(deadline(t), "s-value", v1)
	if !registry.IsNotFound(err) || registry.Blocks(err) || !strings.Contains(err.Error(), "auto.register.schemas") {
		t.Fatalf("error %v", err)
	}
	id := resolve(t, newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true}), "s-value", v1)
	if got := resolve(t, c, "s-value", v1); got != id {
		t.Errorf("id %d after somebody registered it, want %d: the failure was remembered", got, id)
	}
}

func TestIncompatible(t *testing.T) {
	s := newServer(t)
	c := newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true})
	resolve(t, c, "shop.public.a-value", v1)
	_, err := c.Resolve(deadline(t), "shop.public.a-value", broken)
	var inc *registry.IncompatibleError
	if !errors.As(err, &inc) || !registry.IsIncompatible(err) || !registry.Blocks(err) || registry.IsUnavailable(err) {
		t.Fatalf("error %v", err)
	}
	if inc.Subject != "shop.public.a-value" || inc.Level != "BACKWARD" || inc.SchemaText != broken || len(inc.Messages) != 1 {
		t.Errorf("error holds %+v", inc)
	}
	want := `schema registry refuses the new schema of subject "shop.public.a-value" at compatibility level BACKWARD: a: version 1 has int, the new schema has string (incompatible types), so data of version 1 cannot be read with the new schema; ways out: undo or adapt the change in the table, set the subject to another level (PUT /config/shop.public.a-value, for example NONE) and retry, or publish the table to a new topic`
	if err.Error() != want {
		t.Errorf("sentence\n%s\nwant\n%s", err, want)
	}
}

// Apicurio 3 names no reasons at the compatibility endpoint, only in the refusal.
func TestIncompatibleApicurio(t *testing.T) {
	s := newServer(t)
	s.setGate(func(w http.ResponseWriter, req *http.Request) bool {
		switch p := req.URL.Path; {
		case strings.HasPrefix(p, "/compatibility/"):
			_, _ = w.Write([]byte(`{"is_compatible":false}`))
		case strings.HasSuffix(p, "/versions"):
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"message":"io.apicurio.registry.rules.violation.RuleViolationException: Incompatible artifact: s [AVRO], list of diff types: [reader type: STRING not compatible with writer type: INT at /fields/0/type]","error_code":409}`))
		default:
			return false
		}
		return true
	})
	_, err := newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true}).Resolve(deadline(t), "s", broken)
	if !registry.IsIncompatible(err) || !strings.Contains(err.Error(), "BACKWARD: Incompatible artifact: s [AVRO], list of diff types: [reader type: STRING not") {
		t.Errorf("error %v", err)
	}
}

func TestRefusalOutlivesLostReasons(t *testing.T) {
	s := newServer(t)
	c := newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true})
	resolve(t, c, "s", v1)
	s.setGate(func(w http.ResponseWriter, req *http.Request) bool {
		lost := !strings.HasPrefix(req.URL.Path, "/subjects/")
		if lost {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return lost
	})
	_, err := c.Resolve(deadline(t), "s", broken)
	if !registry.IsIncompatible(err) || !strings.Contains(err.Error(), "version 1 has int") {
		t.Errorf("error %v", err)
	}
}

func TestInvalid(t *testing.T) {
	s := newServer(t)
	_, err := newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true}).Resolve(deadline(t), "s", `{"type":"recor"}`)
	if !registry.IsInvalid(err) || !registry.Blocks(err) {
		t.Errorf("error %v", err)
	}
}

func TestSubjectLevel(t *testing.T) {
	s, ctx := newServer(t), deadline(t)
	c := newClient(t, registry.Config{URLs: []string{s.url}})
	put(t, s.url+"/config/s", `{"compatibility":"FULL_TRANSITIVE"}`)
	for subject, want := range map[string]string{"s": "FULL_TRANSITIVE", "unknown": "BACKWARD", "": "BACKWARD"} {
		if got, err := c.SubjectLevel(ctx, subject); err != nil || got != want {
			t.Errorf("level of %q is %q (%v), want %s", subject, got, err, want)
		}
	}
}

func put(t *testing.T, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(deadline(t), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("PUT %s: %s", url, res.Status)
	}
}

func TestOneRequestForManyCallers(t *testing.T) {
	s := newServer(t)
	c := newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true})
	open := make(chan struct{})
	s.setGate(func(http.ResponseWriter, *http.Request) bool { <-open; return false })
	var wg sync.WaitGroup
	ids := make([]int, 32)
	for i := range ids {
		wg.Go(func() { ids[i], _ = c.Resolve(deadline(t), "s", v1) })
	}
	eventually(t, func() bool { return s.hits.Load() == 1 })
	close(open)
	wg.Wait()
	for _, id := range ids {
		if id == 0 || id != ids[0] {
			t.Fatalf("ids %v", ids)
		}
	}
	if n := s.hits.Load(); n != 2 {
		t.Errorf("%d requests, want one lookup and one registration", n)
	}
}

func TestWaiterOutlivesCancelledLeader(t *testing.T) {
	s := newServer(t)
	c := newClient(t, registry.Config{URLs: []string{s.url}, AutoRegister: true})
	leader, cancel := context.WithCancel(t.Context())
	s.setGate(func(_ http.ResponseWriter, req *http.Request) bool {
		if s.hits.Load() == 1 {
			<-leader.Done()
			return true
		}
		return false
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if _, err := c.Resolve(leader, "s", v1); !errors.Is(err, context.Canceled) || registry.IsUnavailable(err) || registry.Blocks(err) {
			t.Errorf("cancelled caller got %v", err)
		}
	})
	eventually(t, func() bool { return s.hits.Load() == 1 })
	wg.Go(func() {
		if id, err := c.Resolve(deadline(t), "s", v1); err != nil || id == 0 {
			t.Errorf("waiter got id %d, error %v", id, err)
		}
	})
	cancel()
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("condition not met within 10s")
		}
	}
}
