package connectors

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
)

// PropertyType is the type of a configuration property, as Kafka Connect names them.
type PropertyType string

// The property types. Durations are TypeLong in milliseconds and end in ".ms", as in Kafka.
const (
	TypeString   PropertyType = "STRING"
	TypeInt      PropertyType = "INT"
	TypeLong     PropertyType = "LONG"
	TypeBoolean  PropertyType = "BOOLEAN"
	TypeList     PropertyType = "LIST"
	TypePassword PropertyType = "PASSWORD"
	TypeClass    PropertyType = "CLASS"
)

// Property defines one configuration property.
type Property struct {
	Name     string // a name that ends in ".*" stands for every name with that prefix
	Type     PropertyType
	Default  string
	Required bool
	Allowed  []string                 // if set, the only values, compared case-insensitively
	Check    func(value string) error // if set, called on a present value; its error becomes the problem's message
	Doc      string                   // one or two sentences, with units
}

// Spec is the set of properties a component takes.
type Spec []Property

// Problem is one thing wrong with a configuration: what, where, what to do.
type Problem struct {
	Property string // empty where it is not about one property
	Message  string
	Warning  bool // worth knowing, but nothing is refused for it
}

func (p Problem) String() string {
	text := p.Message
	if p.Property != "" {
		text = p.Property + ": " + text
	}
	if p.Warning {
		text = "warning: " + text
	}
	return text
}

// Config is a checked flat configuration with defaults applied.
type Config struct {
	values map[string]string
	set    map[string]bool
}

// Parse checks raw against the spec and returns the configuration and every problem, sorted by property.
func (s Spec) Parse(raw map[string]string) (Config, []Problem) {
	cfg := Config{values: make(map[string]string, len(s)), set: make(map[string]bool, len(raw))}
	var problems []Problem
	for _, p := range s {
		v, ok := raw[p.Name]
		if !ok || (strings.TrimSpace(v) == "" && p.Required) {
			if p.Required {
				problems = append(problems, Problem{Property: p.Name, Message: "is missing; " + p.Doc})
			}
			if !strings.HasSuffix(p.Name, ".*") {
				cfg.values[p.Name] = p.Default
			}
			continue
		}
		cfg.values[p.Name], cfg.set[p.Name] = strings.TrimSpace(v), true
		if err := p.check(cfg.values[p.Name]); err != nil {
			problems = append(problems, Problem{Property: p.Name, Message: err.Error()})
		}
	}
	for name, v := range raw {
		if cfg.set[name] || s.knows(name) {
			if !cfg.set[name] {
				cfg.values[name], cfg.set[name] = strings.TrimSpace(v), true
			}
			continue
		}
		problems = append(problems, Problem{Property: name, Message: s.unknown(name)})
	}
	sort.SliceStable(problems, func(i, j int) bool { return problems[i].Property < problems[j].Property })
	return cfg, problems
}

func (s Spec) knows(name string) bool {
	for _, p := range s {
		if p.Name == name || (strings.HasSuffix(p.Name, ".*") && strings.HasPrefix(name, strings.TrimSuffix(p.Name, "*"))) {
			return true
		}
	}
	return false
}

func (s Spec) unknown(name string) string {
	if says := elsewhere(name); says != "" {
		return says
	}
	best, distance := "", len(name)/3+1
	for _, p := range s {
		if len(name)-len(p.Name) >= distance {
			continue // so far off that comparing would only take time
		}
		if d := editDistance(name, p.Name); d < distance {
			best, distance = p.Name, d
		}
	}
	if best == "" {
		return "unknown property; remove it"
	}
	return fmt.Sprintf("unknown property; did you mean %s?", best)
}

func (p Property) check(v string) error {
	if len(p.Allowed) > 0 {
		ok := false
		for _, a := range p.Allowed {
			ok = ok || strings.EqualFold(a, v)
		}
		if !ok {
			return fmt.Errorf("%q is not one of %s", v, strings.Join(p.Allowed, ", "))
		}
	}
	switch p.Type {
	case TypeInt, TypeLong:
		if _, err := strconv.ParseInt(v, 10, 64); err != nil {
			return fmt.Errorf("%q is not a whole number", v)
		}
	case TypeBoolean:
		if !strings.EqualFold(v, "true") && !strings.EqualFold(v, "false") {
			return fmt.Errorf("%q is not true or false", v)
		}
	}
	if p.Check != nil {
		return p.Check(v)
	}
	return nil
}

// String returns the value of a property, its default if it was not set.
func (c Config) String(name string) string { return c.values[name] }

// IsSet reports whether the property was given.
func (c Config) IsSet(name string) bool { return c.set[name] }

// Int returns an integer property; 0 where it is not a number (Parse has reported that).
func (c Config) Int(name string) int64 {
	n, _ := strconv.ParseInt(c.values[name], 10, 64)
	return n
}

// Bool returns a boolean property.
func (c Config) Bool(name string) bool { return strings.EqualFold(c.values[name], "true") }

// Millis returns a property in milliseconds as a duration.
func (c Config) Millis(name string) time.Duration {
	return time.Duration(c.Int(name)) * time.Millisecond
}

// List returns a comma-separated property, trimmed, without empty members.
func (c Config) List(name string) []string {
	var out []string
	for _, v := range strings.Split(c.values[name], ",") {
		if v = strings.TrimSpace(v); v != "" {
			out = append(out, v)
		}
	}
	return out
}

// WithPrefix returns every property that starts with prefix, keyed by the rest of its name.
func (c Config) WithPrefix(prefix string) map[string]string {
	out := map[string]string{}
	for k, v := range c.values {
		if strings.HasPrefix(k, prefix) {
			out[strings.TrimPrefix(k, prefix)] = v
		}
	}
	return out
}

// editDistance is the Levenshtein distance of two property names.
func editDistance(a, b string) int {
	prev := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		last := prev[0]
		prev[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			last, prev[j] = prev[j], min(prev[j]+1, prev[j-1]+1, last+cost)
		}
	}
	return prev[len(b)]
}
