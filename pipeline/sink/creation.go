package sink

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
)

const creationPrefix = "topic.creation."

// group is one of Connect's topic creation groups (KIP-158).
type group struct {
	name        string
	include     *regexp.Regexp // nil: every topic
	exclude     *regexp.Regexp // nil: none
	replication int16          // -1: broker's default
	partitions  int32          // -1: broker's default
	configs     map[string]*string
}

// Creation says how missing topics are created. The zero value creates none.
type Creation struct {
	groups []group // in order; the default group is last
}

// Enabled reports whether topics are created at all.
func (c Creation) Enabled() bool { return len(c.groups) > 0 }

// CreationSpec returns the properties of topic creation.
func CreationSpec() connectors.Spec {
	return connectors.Spec{
		{Name: "topic.creation.enable", Type: connectors.TypeBoolean, Default: "true", Doc: "Whether missing topics are created as topic.creation.* says; false: they must exist."},
		{Name: "topic.creation.groups", Type: connectors.TypeList, Doc: "Names of groups of topics, in order; the first whose include matches and whose exclude does not applies, else default."},
		{Name: "topic.creation.*", Type: connectors.TypeString, Doc: "topic.creation.<group>.include, .exclude (regular expressions, separated by commas, of whole topic names), .partitions, .replication.factor and any topic setting; default.partitions and default.replication.factor are needed for topics to be created."},
	}
}

// ParseCreation reads Connect's topic.creation.* properties, as KIP-158 defines them: groups are
// tried in order and default last; a group's partitions and replication factor fall back to the
// default group's, its other topic settings do not.
func ParseCreation(cfg connectors.Config) (Creation, []connectors.Problem) {
	props := cfg.WithPrefix(creationPrefix)
	delete(props, "*")
	names := cfg.List(creationPrefix + "groups")
	if cfg.IsSet(creationPrefix+"enable") && !cfg.Bool(creationPrefix+"enable") {
		return Creation{}, nil
	}
	delete(props, "enable")
	delete(props, "groups")
	if len(props) == 0 && len(names) == 0 {
		return Creation{}, nil
	}
	p := creationParser{props: props, used: map[string]bool{}}
	fallback := p.group("default", group{replication: -1, partitions: -1}, true)
	var c Creation
	seen := map[string]bool{}
	for _, name := range names {
		switch {
		case name == "default":
			p.problem("groups", "must not name the group default, which always comes last")
		case seen[name]:
			p.problem("groups", fmt.Sprintf("names %s twice", name))
		default:
			seen[name] = true
			c.groups = append(c.groups, p.group(name, fallback, false))
		}
	}
	c.groups = append(c.groups, fallback)
	for name := range props {
		if !p.used[name] {
			p.problem(name, "belongs to no group named in topic.creation.groups")
		}
	}
	return c, p.problems
}

type creationParser struct {
	props    map[string]string
	used     map[string]bool
	problems []connectors.Problem
}

func (p *creationParser) problem(name, message string) {
	p.problems = append(p.problems, connectors.Problem{Property: creationPrefix + name, Message: message})
}

func (p *creationParser) group(name string, fallback group, isDefault bool) group {
	g := group{name: name, configs: map[string]*string{}}
	g.replication = int16(p.count(name+".replication.factor", int64(fallback.replication), 1<<15-1, isDefault))
	g.partitions = int32(p.count(name+".partitions", int64(fallback.partitions), 1<<31-1, isDefault))
	for key, value := range p.props {
		setting, ok := strings.CutPrefix(key, name+".")
		if !ok {
			continue
		}
		p.used[key] = true
		switch setting {
		case "replication.factor", "partitions":
		case "include", "exclude":
			if isDefault {
				p.problem(key, "is not allowed; the group default takes every topic that no other group takes")
			} else if setting == "include" {
				g.include = p.pattern(key, value)
			} else {
				g.exclude = p.pattern(key, value)
			}
		default:
			g.configs[setting] = &value
		}
	}
	if !isDefault && p.props[name+".include"] == "" {
		p.problem(name+".include", "is missing; give the regular expressions of the topics of this group")
	}
	return g
}

func (p *creationParser) count(key string, fallback, most int64, required bool) int64 {
	v, ok := p.props[key]
	if !ok {
		if required {
			p.problem(key, "is missing; give a number, or -1 for the broker's default")
		}
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n > most || n != -1 && n < 1 {
		p.problem(key, fmt.Sprintf("%q is not a positive number, nor -1 for the broker's default", v))
		return fallback
	}
	return n
}

// pattern compiles a list of expressions as Connect does: joined, and matched against whole names.
func (p *creationParser) pattern(key, list string) *regexp.Regexp {
	var parts []string
	for _, part := range strings.Split(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	re, err := regexp.Compile("^(?:" + strings.Join(parts, "|") + ")$")
	if err != nil {
		p.problem(key, fmt.Sprintf("is not a list of regular expressions: %v", err))
		return nil
	}
	return re
}

// of returns the group that a topic belongs to.
func (c Creation) of(topic string) group {
	for _, g := range c.groups[:len(c.groups)-1] {
		if g.include != nil && g.include.MatchString(topic) && (g.exclude == nil || !g.exclude.MatchString(topic)) {
			return g
		}
	}
	return c.groups[len(c.groups)-1]
}
