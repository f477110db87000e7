package encode

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/integration/docs"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
)

// The examples of docs/formats.md are what the encoder writes.
func TestDocumentedRecords(t *testing.T) {
	const page = "docs/formats.md"
	r := newRig(t, nil)
	table := ordersTable()
	r.prepare(t, 1, nil, table)
	toast := order(1, "")
	toast[1] = schema.Value{}
	c, err := r.encode(
		connectors.Change{Op: connectors.OpCreate, Table: table, After: order(1, "Åsa")},
		connectors.Change{Op: connectors.OpUpdate, Table: table, After: toast},
		connectors.Change{Op: connectors.OpDelete, Table: table, Before: keyOnly(1)},
		connectors.Change{Op: connectors.OpCreate, Table: table, After: order(2, "Åsa"), OldKey: keyOnly(1)},
	)
	if err != nil {
		t.Fatal(err)
	}
	docs.Section(t, page, "key schema", fenced("json", indented(t, r.registry.texts[0])))
	docs.Section(t, page, "value schema", fenced("json", indented(t, r.registry.texts[1])))
	entry := c.Entries[0]
	c.Entries = nil
	docs.Section(t, page, "records", fenced("", r.dump(t, c)))
	docs.Section(t, page, "table entry", fenced("json", fmt.Sprintf("[\"shop\",%s]\n%s", entry.Partition, entry.Offset)))
}

// The examples of mangled names are what schema/avro makes of them.
func TestDocumentedNames(t *testing.T) {
	var b strings.Builder
	b.WriteString("| in the database | in Avro |\n| --- | --- |\n")
	for _, name := range []string{"customer_id", "größe", "2nd", "order-no", "a.b", "таблица", "_x41_"} {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", name, avro.Name(name))
	}
	docs.Section(t, "docs/formats.md", "names", b.String())
}

// The examples of topics are the encoder's.
func TestDocumentedTopics(t *testing.T) {
	r := newRig(t, nil)
	var b strings.Builder
	b.WriteString("| table | topic with `topic.prefix=shop` |\n| --- | --- |\n")
	for _, name := range []string{"orders", "Order Lines", "größe", "a.b"} {
		table := &schema.Table{Namespace: "public", Name: name}
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", table.QualifiedName(), r.Topic(table))
	}
	docs.Section(t, "docs/formats.md", "topics", b.String())
}

func fenced(language, text string) string {
	return "```" + language + "\n" + strings.TrimRight(text, "\n") + "\n```\n"
}

// indented lays a schema out, a field a line.
func indented(t *testing.T, text string) string {
	t.Helper()
	var s struct {
		Type, Name, Namespace string
		Fields                []json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(text, `"fields":[`)
	if !ok {
		t.Fatal("a schema without fields")
	}
	var b strings.Builder
	b.WriteString(head + `"fields":[`)
	for i, f := range s.Fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  " + string(f))
	}
	b.WriteString("\n]}")
	if strings.NewReplacer("\n  ", "", "\n", "").Replace(b.String()) != text {
		t.Fatal("laying the schema out changed it")
	}
	return b.String()
}
