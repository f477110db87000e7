package encode

import (
	"fmt"
	"strings"

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
	if topic == e.MessageTopic() {
		return fmt.Errorf("topic %s of table %s is the one of the stream's logical messages; give the table another one in topic.naming.overrides", topic, name)
	}
	if topic == GenerationsTopic(e.cfg.Prefix) {
		return fmt.Errorf("topic %s of table %s is the one of the stream's generations; give the table another one in topic.naming.overrides", topic, name)
	}
	if e.cfg.Transactions && topic == e.TransactionTopic() {
		return fmt.Errorf("topic %s of table %s is the one of the stream's transactions; give the table another one in topic.naming.overrides, or set topic.transaction", topic, name)
	}
	other, ok := e.topics[collision(topic)]
	switch {
	case !ok || other.table == name:
		return nil
	case other.topic == topic:
		return fmt.Errorf("tables %s and %s would share the topic %s; give one of them another in topic.naming.overrides (%s:<topic>)", other.table, name, topic, name)
	}
	return fmt.Errorf("tables %s and %s would have the topics %s and %s, which differ only in '.' and '_' and are one to Kafka; give one of them another in topic.naming.overrides (%s:<topic>)", other.table, name, other.topic, topic, name)
}

// taken is a topic and the table it belongs to.
type taken struct{ topic, table string }

func (e *Encoder) take(topic string, t *schema.Table) {
	e.topics[collision(topic)] = taken{topic, t.QualifiedName()}
}

// collision is what two topics may not have in common: Kafka's metrics write '.' as '_'.
func collision(topic string) string { return strings.ReplaceAll(topic, ".", "_") }

// CheckNames returns every reason, of names alone, why these tables cannot be published; it asks no
// server. The encoder must not be in use.
func (e *Encoder) CheckNames(tables []*schema.Table) (problems []error) {
	e.topics = map[string]taken{}
	for _, t := range tables {
		if err := e.checkNames(t); err != nil {
			problems = append(problems, err)
		}
		e.take(e.Topic(t), t)
	}
	return problems
}

// CheckUnavailable returns why compaction may lose values of a table, empty where it cannot: an update that left a large value alone is
// published without it, and the record that has it is compacted away.
func CheckUnavailable(t *schema.Table, topic, policy string) string {
	var columns []string
	for i := range t.Columns {
		if t.Columns[i].External && !t.IsKey(i) {
			columns = append(columns, t.Columns[i].Name)
		}
	}
	if t.Identity == "full" || len(t.Key) == 0 || len(columns) == 0 || !strings.Contains(policy, "compact") {
		return ""
	}
	return fmt.Sprintf("topic %s of table %s is compacted, and an update that leaves a large value alone is published without it (columns %s, named in __unavailable): the record that has the value is compacted away; run ALTER TABLE %s REPLICA IDENTITY FULL, set unavailable.value.handling=reselect, or cleanup.policy=delete on the topic",
		topic, t.QualifiedName(), strings.Join(columns, ", "), t.QualifiedName())
}

// CheckKeyless returns why a topic with a cleanup.policy cannot take a table's records, nil where it can.
func CheckKeyless(t *schema.Table, topic, policy string) error {
	if len(t.Key) > 0 || !strings.Contains(policy, "compact") {
		return nil
	}
	return fmt.Errorf("table %s has no key, and its topic %s is compacted: its records have no key to be kept by; set cleanup.policy=delete on the topic, or give the table a key (primary key, replica identity or message.key.columns)", t.QualifiedName(), topic)
}
