package encode

import (
	"fmt"

	"github.com/tidemark-cdc/tidemark/schema"
)

// Topic returns a table's topic: its override, or <prefix>.<schema>.<table> with every character
// that Kafka forbids as one underscore.
func (e *Encoder) Topic(t *schema.Table) string {
	name := t.QualifiedName()
	if topic, ok := e.cfg.Overrides[name]; ok {
		return topic
	}
	out := make([]byte, 0, len(e.cfg.Prefix)+1+len(name))
	out = append(append(out, e.cfg.Prefix...), '.')
	for _, r := range name {
		if r < 0x80 && topicChar(byte(r)) {
			out = append(out, byte(r))
		} else {
			out = append(out, '_')
		}
	}
	return string(out)
}

// GenerationsTopic is the topic of a stream's activation records.
func GenerationsTopic(prefix string) string { return prefix + ".__generations" }

func topicChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// checkTopic returns why a table cannot have its topic: too long, or taken by another table.
func (e *Encoder) checkTopic(t *schema.Table, topic string) error {
	name := t.QualifiedName()
	if len(topic) > maxTopic {
		return fmt.Errorf("topic %s of table %s has %d characters, Kafka takes %d; give it another one in topic.naming.overrides", topic, name, len(topic), maxTopic)
	}
	if topic == GenerationsTopic(e.cfg.Prefix) {
		return fmt.Errorf("topic %s of table %s is the one of the stream's generations; give the table another one in topic.naming.overrides", topic, name)
	}
	if other, ok := e.topics[topic]; ok && other != name {
		return fmt.Errorf("tables %s and %s would share the topic %s; give one of them another in topic.naming.overrides (%s:<topic>)", other, name, topic, name)
	}
	return nil
}
