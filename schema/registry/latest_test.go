package registry_test

import (
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/schema/registry"
)

func TestLatest(t *testing.T) {
	s := newServer(t)
	c, err := registry.New(registry.Config{URLs: []string{s.url}, AutoRegister: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Latest(t.Context(), "a/b"); !registry.IsNotFound(err) || !strings.Contains(err.Error(), `"a/b"`) {
		t.Error(err)
	}
	for _, text := range []string{v1, v2} {
		if _, err := c.Resolve(t.Context(), "a/b", text); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Latest(t.Context(), "a/b"); err != nil || strings.Contains(got, `"b"`) != (text == v2) {
			t.Errorf("%s %v", got, err)
		}
	}
}
