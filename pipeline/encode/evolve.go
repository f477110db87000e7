package encode

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
	"github.com/tidemark-cdc/tidemark/schema/avro"
	"github.com/tidemark-cdc/tidemark/schema/registry"
)

// resolveValue gives the id of a table's new value schema. Where the generation has published with another one, types may
// change only as Avro promotes them, whatever the subject's level: a level of NONE is no leave to publish values that
// readers of the schema before would take for others. What is compared is the schema published last, as stored with
// the records, so that a start decides as the process before it would have.
//
// before is the text of the value schema last used in this start, empty at the first use.
func (e *Encoder) resolveValue(ctx context.Context, t *schema.Table, topic, before, text string) (int, error) {
	subject := registry.ValueSubject(topic)
	before, err := e.valueBefore(ctx, e.stored[t.QualifiedName()], before)
	if err != nil {
		return 0, err
	}
	changes, refused := compareSchemas(before, text)
	if len(refused) > 0 {
		return 0, connectors.Block(fmt.Errorf("table %s: %s, and Avro does not promote that; ways out: exclude the column (%s) and start again, which goes on at this place; exclude the table (table.exclude.list); or begin a new generation (connectctl offsets reset WORKER CONNECTOR) with the subject %s at level NONE or the table in another topic (topic.naming.overrides)",
			t.QualifiedName(), describeChanges(refused), excludePattern(t, refused[0].Column), subject))
	}
	id, err := e.resolve(ctx, subject, text)
	if err != nil && len(changes) > 0 && connectors.ClassOf(err) == connectors.ClassBlock {
		return 0, connectors.Block(fmt.Errorf("table %s: %s: %w", t.QualifiedName(), describeChanges(changes), err))
	}
	return id, err
}

// valueBefore is the text of the value schema the generation has last used for the table, empty where there is none
// or it is no longer to be had.
func (e *Encoder) valueBefore(ctx context.Context, stored offsets.TableState, before string) (string, error) {
	if before != "" || stored.ValueSchemaID == 0 || stored.Generation != e.generation {
		return before, nil
	}
	text, err := e.cfg.Registry.SchemaByID(ctx, int(stored.ValueSchemaID))
	switch {
	case err == nil:
		return text, nil
	case registry.IsNotFound(err):
		return "", nil // a registry made anew: it knows no version that could be broken
	}
	return "", fmt.Errorf("read the schema that table %s was published with: %w", stored.Name, err)
}

// excludePattern is the member of column.exclude.list for a column.
func excludePattern(t *schema.Table, column string) string {
	return "column.exclude.list=" + strings.ReplaceAll(t.QualifiedName()+"."+column, ".", `\.`)
}

func describeChanges(changes []schema.Change) string {
	texts := make([]string, len(changes))
	for i, c := range changes {
		texts[i] = c.String()
	}
	return strings.Join(texts, "; ")
}

// columnProperty is on every field of a flat value that is a column, and on no metadata field.
const columnProperty = "tidemark.type"

// node is a parsed Avro schema: a name, an object, or the branches of a union.
type node = any

// comparison walks two schemas of one subject.
type comparison struct {
	was, is          map[string]node // named types
	changes, refused []schema.Change
}

// compareSchemas returns what changed between two value schemas and which of that are changes of type that Avro does not promote. Texts that
// are no schemas have no changes: the registry has taken the one, and judges the other.
func compareSchemas(before, after string) (changes, refused []schema.Change) {
	if before == "" || before == after {
		return nil, nil
	}
	var was, is node
	if json.Unmarshal([]byte(before), &was) != nil || json.Unmarshal([]byte(after), &is) != nil {
		return nil, nil
	}
	c := comparison{was: map[string]node{}, is: map[string]node{}}
	collect(was, c.was)
	collect(is, c.is)
	c.record(was, is)
	return c.changes, c.refused
}

// collect finds the named types, by short and by full name.
func collect(n node, into map[string]node) {
	switch n := n.(type) {
	case []any:
		for _, b := range n {
			collect(b, into)
		}
	case map[string]any:
		if name, ok := n["name"].(string); ok && n["fields"] != nil {
			into[name] = n
			if space, ok := n["namespace"].(string); ok {
				into[space+"."+name] = n
			}
		}
		for _, f := range fields(n) {
			collect(f["type"], into)
		}
		for _, member := range []string{"type", "items", "values"} {
			if inner, ok := n[member]; ok {
				collect(inner, into)
			}
		}
	}
}

func fields(n node) []map[string]any {
	object, _ := n.(map[string]any)
	list, _ := object["fields"].([]any)
	var out []map[string]any
	for _, f := range list {
		if f, ok := f.(map[string]any); ok {
			out = append(out, f)
		}
	}
	return out
}

// record compares the fields of two records; those of a record inside, as an envelope has, are columns too.
func (c *comparison) record(was, is node) bool {
	ok := true
	after := fields(is)
	for _, f := range fields(was) {
		name, _ := f["name"].(string)
		i := slices.IndexFunc(after, func(g map[string]any) bool { return g["name"] == name })
		if i < 0 {
			c.add(schema.Change{Kind: schema.ColumnDropped, Column: columnName(f), Old: typeName(f)}, false)
			continue
		}
		if (f[columnProperty] == nil) != (after[i][columnProperty] == nil) {
			// The name went from a metadata field to a column, or back (metadata.field.prefix): readers see a
			// field of another meaning, which only the registry's level may allow.
			c.add(schema.Change{Kind: schema.ColumnAdded, Column: columnName(after[i]), New: typeName(after[i])}, false)
			continue
		}
		promoted := c.promotes(f["type"], after[i]["type"])
		ok = ok && promoted
		if c.holdsRecord(f["type"]) && c.holdsRecord(after[i]["type"]) {
			continue // its fields are told
		}
		if !promoted || avroName(f["type"]) != avroName(after[i]["type"]) {
			c.add(schema.Change{Kind: schema.TypeChanged, Column: columnName(f), Old: typeName(f), New: typeName(after[i])}, !promoted)
		}
	}
	for _, g := range after {
		if !slices.ContainsFunc(fields(was), func(f map[string]any) bool { return f["name"] == g["name"] }) {
			c.add(schema.Change{Kind: schema.ColumnAdded, Column: columnName(g), New: typeName(g)}, false)
		}
	}
	return ok
}

func (c *comparison) holdsRecord(n node) bool {
	return slices.ContainsFunc(branches(n), func(b node) bool {
		was, _ := c.plain(b, c.was)
		is, _ := c.plain(b, c.is)
		return kindOf(was) == "record" || kindOf(is) == "record"
	})
}

func (c *comparison) add(change schema.Change, refused bool) {
	if !slices.Contains(c.changes, change) {
		c.changes = append(c.changes, change)
		if refused {
			c.refused = append(c.refused, change)
		}
	}
}

// promotes reports whether a reader with the second type reads what was written with the first.
func (c *comparison) promotes(was, is node) bool {
	target := branches(is)
	for _, w := range branches(was) {
		if !slices.ContainsFunc(target, func(i node) bool { return c.promotesBranch(w, i) }) {
			return false
		}
	}
	return true
}

func branches(n node) []any {
	if b, ok := n.([]any); ok {
		return b
	}
	return []any{n}
}

func (c *comparison) promotesBranch(was, is node) bool {
	w, wl := c.plain(was, c.was)
	i, il := c.plain(is, c.is)
	wn, in := kindOf(w), kindOf(i)
	switch {
	case wn == "record" && in == "record":
		return c.record(w, i)
	case wn == "array" && in == "array":
		return c.promotes(member(w, "items"), member(i, "items"))
	case wn == "map" && in == "map":
		return c.promotes(member(w, "values"), member(i, "values"))
	case wl != il && (wn != "string" || in != "string"): // a uuid is its text
		return false
	case wl == "decimal" && (member(w, "precision") != member(i, "precision") || member(w, "scale") != member(i, "scale")):
		return false
	case wn == in:
		return wn != "fixed" && wn != "enum" || avroName(w) == avroName(i)
	}
	return wl == "" && il == "" && slices.Contains(promotions(wn), in)
}

// promotions are the types a reader may have instead.
//
// Format: https://avro.apache.org/docs/1.12.0/specification/#schema-resolution
func promotions(kind string) []string {
	switch kind {
	case "int":
		return []string{"long", "float", "double"}
	case "long":
		return []string{"float", "double"}
	case "float":
		return []string{"double"}
	case "string":
		return []string{"bytes"}
	case "bytes":
		return []string{"string"}
	}
	return nil
}

// plain follows names and objects that only wrap a type, and returns the type and its logical type.
func (c *comparison) plain(n node, named map[string]node) (node, string) {
	for range 8 {
		switch t := n.(type) {
		case string:
			definition, ok := named[t]
			if !ok {
				return t, ""
			}
			n = definition
			continue
		case map[string]any:
			logical, _ := t["logicalType"].(string)
			if logical == "" {
				logical, _ = t["connect.name"].(string) // as Connect's converters write it
			}
			if inner, ok := t["type"].(map[string]any); ok {
				n = inner
				continue
			}
			if kindOf(t) == "record" {
				return t, ""
			}
			return t, logical
		}
		break
	}
	return n, ""
}

func kindOf(n node) string {
	switch t := n.(type) {
	case string:
		return t
	case map[string]any:
		kind, _ := t["type"].(string)
		return kind
	}
	return ""
}

func member(n node, name string) node {
	object, _ := n.(map[string]any)
	return object[name]
}

// columnName is the database's name of a field's column.
func columnName(f map[string]any) string {
	if name, ok := f["tidemark.column"].(string); ok {
		return name
	}
	name, _ := f["name"].(string)
	return avro.Original(name)
}

// typeName is the database's name of a field's type, Avro's where the schema does not tell it.
func typeName(f map[string]any) string {
	if name, ok := f[columnProperty].(string); ok {
		return name
	}
	return avroName(f["type"])
}

// avroName is a type without the null that makes it optional, compact.
func avroName(n node) string {
	if b, ok := n.([]any); ok {
		rest := slices.DeleteFunc(slices.Clone(b), func(x any) bool { return x == "null" })
		if len(rest) == 1 {
			n = rest[0]
		}
	}
	switch t := n.(type) {
	case string:
		return t
	case map[string]any:
		digits := ""
		if t["precision"] != nil {
			scale := t["scale"]
			if scale == nil {
				scale = 0
			}
			digits = fmt.Sprintf("(%v,%v)", t["precision"], scale)
		}
		if name, ok := t["connect.name"].(string); ok && t["fields"] == nil { // as org.apache.kafka.connect.data.Decimal
			return name[strings.LastIndexByte(name, '.')+1:] + digits
		}
		if logical, ok := t["logicalType"].(string); ok {
			return logical + digits
		}
		if name, ok := t["name"].(string); ok && t["fields"] != nil {
			return name
		}
	}
	text, err := json.Marshal(n)
	if err != nil {
		return "unknown"
	}
	return string(text)
}
