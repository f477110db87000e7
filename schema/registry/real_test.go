package registry_test

import (
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// TestRealRegistry runs against a registry that is not ours, as
// integration/env starts one.
func TestRealRegistry(t *testing.T) {
	url := os.Getenv("TIDEMARK_TEST_REGISTRY_URL")
	if url == "" {
		t.Skip("TIDEMARK_TEST_REGISTRY_URL is not set: no real schema registry to test with")
	}
	ctx := deadline(t)
	c := newClient(t, registry.Config{URLs: []string{url}, AutoRegister: true})
	if err := c.Check(ctx); err != nil {
		t.Fatal(err)
	}
	// Texts of their own, as ids of equal texts are shared by all subjects.
	mark := "M" + rand.Text()
	own := func(text string) string { return strings.Replace(text, `"R"`, `"`+mark+`"`, 1) }
	subject := registry.ValueSubject(mark + ".public/odd.t")

	reader := newClient(t, registry.Config{URLs: []string{url}})
	if _, err := reader.Resolve(ctx, subject, own(v1)); !registry.IsNotFound(err) {
		t.Errorf("lookup of an unknown subject: %v", err)
	}
	first := resolve(t, c, subject, own(v1))
	if _, err := reader.Resolve(ctx, subject, own(v2)); !registry.IsNotFound(err) {
		t.Errorf("lookup of an unknown schema: %v", err)
	}
	put(t, url+"/config/"+strings.ReplaceAll(subject, "/", "%2F"), `{"compatibility":"BACKWARD"}`)
	if level, err := c.SubjectLevel(ctx, subject); err != nil || level != "BACKWARD" {
		t.Errorf("level %q, error %v", level, err)
	}
	second := resolve(t, c, subject, own(v2))
	if first == second {
		t.Errorf("two schemas with id %d", first)
	}
	for id, want := range map[int]string{first: own(v1), second: own(v2)} {
		if text, err := newClient(t, registry.Config{URLs: []string{url}}).SchemaByID(ctx, id); err != nil || text != want {
			t.Errorf("schema %d is %s (%v), want %s", id, text, err, want)
		}
	}
	if got := resolve(t, reader, subject, own(v1)); got != first {
		t.Errorf("looked up id %d, registered %d", got, first)
	}
	_, err := c.Resolve(ctx, subject, own(broken))
	if !registry.IsIncompatible(err) || !strings.Contains(err.Error(), "BACKWARD") || strings.Contains(err.Error(), "no reason") {
		t.Errorf("incompatible schema: %v", err)
	}
	t.Log(err)
	if _, err := c.Resolve(ctx, subject, `{"type":"recor"}`); !registry.IsInvalid(err) {
		t.Errorf("invalid schema: %v", err)
	}
	if _, err := c.SchemaByID(ctx, 2_000_000_000); !registry.IsNotFound(err) {
		t.Errorf("unknown id: %v", err)
	}
	base, _, _ := strings.Cut(url, "/apis/")
	wrong := newClient(t, registry.Config{URLs: []string{base}})
	if err := wrong.Check(ctx); err == nil || registry.Blocks(err) {
		t.Errorf("URL without its path prefix: %v", err)
	} else {
		t.Log(err)
	}
}
