// Package config reads worker and connector files: Java properties, JSON or YAML, flat maps of
// strings as Kafka Connect takes them, and resolves ${env:NAME} and ${file:path} references.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/magiconair/properties"
	"go.yaml.in/yaml/v3"
)

// Load reads one configuration file. The ending decides the format: .json, .yaml or .yml, anything
// else is a properties file. A JSON or YAML document {"name": …, "config": {…}}, as Connect's REST
// interface takes it, is read as its config with the name in it. Scalars become strings; nested values are refused.
func Load(path string) (map[string]string, error) {
	data, err := read(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %s", path, cause(err))
	}
	return parse(path, data)
}

// parse reads a file's content.
func parse(path string, data []byte) (map[string]string, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json":
		return loadJSON(path, data)
	case ".yaml", ".yml":
		return loadYAML(path, data)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(data)
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return p.Map(), nil
}

// maxFile bounds a file of configuration: what is larger is another kind of file, or has no end.
const maxFile = 1 << 20

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d MiB, which no configuration is", maxFile>>20)
	}
	return data, err
}

func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func loadJSON(path string, data []byte) (map[string]string, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("read configuration %s: not a JSON object: %s", path, jsonProblem(data, err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read configuration %s: more than one JSON value; keep one connector per file", path)
	}
	return flatten(path, doc)
}

// jsonProblem adds the line to a syntax error.
func jsonProblem(data []byte, err error) string {
	var se *json.SyntaxError
	if errors.As(err, &se) {
		line := 1 + bytes.Count(data[:min(int(se.Offset), len(data))], []byte("\n"))
		return fmt.Sprintf("line %d: %v", line, err)
	}
	return err.Error()
}

func loadYAML(path string, data []byte) (map[string]string, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("read configuration %s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read configuration %s: not a YAML mapping", path)
	}
	doc, err := yamlMap(root.Content[0])
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return flatten(path, doc)
}

// yamlMap keeps scalars as they are written: 010 stays "010", and on stays "on".
func yamlMap(n *yaml.Node) (map[string]any, error) {
	doc := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		if _, twice := doc[key]; twice {
			return nil, fmt.Errorf("line %d: %s is given twice", n.Content[i].Line, key)
		}
		switch value.Kind {
		case yaml.ScalarNode:
			doc[key] = value.Value
			if value.Tag == "!!null" {
				doc[key] = nil
			}
		case yaml.MappingNode:
			m, err := yamlMap(value)
			if err != nil {
				return nil, err
			}
			doc[key] = m
		default:
			doc[key] = value.Value
			return nil, fmt.Errorf("line %d: %s must be a single value, not a list", value.Line, key)
		}
	}
	return doc, nil
}

func flatten(path string, doc map[string]any) (map[string]string, error) {
	if inner, ok := doc["config"].(map[string]any); ok {
		if name, ok := doc["name"].(string); ok {
			if have, ok := inner["name"].(string); ok && have != name {
				return nil, fmt.Errorf("read configuration %s: name is %q outside and %q inside config; keep one", path, name, have)
			}
			inner["name"] = name
		}
		doc = inner
	}
	out := make(map[string]string, len(doc))
	for k, v := range doc {
		switch v := v.(type) {
		case string:
			out[k] = v
		case json.Number:
			out[k] = v.String()
		case bool:
			out[k] = fmt.Sprint(v)
		case nil:
		default:
			return nil, fmt.Errorf("read configuration %s: %s must be a single value, not an object or a list", path, k)
		}
	}
	return out, nil
}
