package env

import (
	"context"
	"fmt"
	"testing"
)

// Registry is a schema registry with Confluent's API, in memory; its default compatibility is BACKWARD.
type Registry struct{ server }

// Registry is the run's shared registry, started on first use.
func (e *Env) Registry(t testing.TB) *Registry {
	t.Helper()
	r, err := e.OpenRegistry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// OpenRegistry is Registry outside a test.
func (e *Env) OpenRegistry(ctx context.Context) (*Registry, error) {
	r := e.registry(false)
	if err := e.shared(ctx, "registry", &r.server, func() error { return r.start(ctx) }); err != nil {
		return nil, fmt.Errorf("schema registry: %w", err)
	}
	return r, nil
}

// NewRegistry starts a registry for one test alone. It forgets everything when it stops. Tests of an unreachable one put a proxy before the shared one.
func (e *Env) NewRegistry(t testing.TB) *Registry {
	t.Helper()
	r := e.registry(true)
	r.startPrivate(t, r.Stop)
	return r
}

func (e *Env) registry(private bool) *Registry {
	return &Registry{e.newServer("registry", kind{"setup-registry.sh", []string{"PORT", "MPORT"}}, private)}
}

const registryPath = "/apis/ccompat/v7"

// URL is the API's root, without a slash at the end.
func (r *Registry) URL() string { return "http://" + r.Addr() + registryPath }

// CoreURL is the root of Apicurio's own API, which its deserializers speak.
func (r *Registry) CoreURL() string { return "http://" + r.Addr() + "/apis/registry/v3" }

// Addr is the registry's host:port, a proxy's target.
func (r *Registry) Addr() string { return r.addr(0) }

// URLAt is URL through a proxy that listens on addr.
func (r *Registry) URLAt(addr string) string { return "http://" + addr + registryPath }

// Stop ends a private registry in order.
func (r *Registry) Stop(ctx context.Context) error { return r.stop(ctx) }

// Kill ends a private registry with SIGKILL.
func (r *Registry) Kill(ctx context.Context) error { return r.kill(ctx, "pid") }
