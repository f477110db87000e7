package connectors

import (
	"strings"
	"testing"
)

func TestPropertiesOfOtherTools(t *testing.T) {
	spec := Spec{{Name: "heartbeat.interval.ms"}, {Name: "topic.prefix"}, {Name: "database.hostname"}, {Name: "key.converter.decimal.format"}}
	for name, want := range map[string]string{
		"database.server.name":               "set topic.prefix",
		"transforms.unwrap.type":             "of which there are none",
		"errors.tolerance":                   "no change is skipped",
		"snapshot.locking.mode":              "without a lock that writers would meet",
		"producer.override.compression.type": "set compression.type",
		"producer.override.linger.ms":        "acks=all",
		"heartbeat.intervall.ms":             "did you mean heartbeat.interval.ms?",
		"database.host":                      "did you mean database.hostname?",
		"iso.type":                           "unknown property; remove it",
	} {
		_, problems := spec.Parse(map[string]string{name: "x"})
		if len(problems) != 1 || problems[0].Property != name || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v, want %q", name, problems, want)
		}
	}
	if _, problems := spec.Parse(map[string]string{"heartbeat.interval.ms": "1"}); len(problems) > 0 {
		t.Errorf("a property of this spec is taken for another tool's: %v", problems)
	}
}
