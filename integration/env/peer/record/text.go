package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

func marshal(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // strings and numbers always marshal
	}
	return strings.TrimSpace(b.String())
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
