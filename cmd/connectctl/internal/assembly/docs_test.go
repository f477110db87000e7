package assembly

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres"
	"github.com/tidemark-cdc/tidemark/integration/docs"
	"github.com/tidemark-cdc/tidemark/pipeline/sink"
)

// The documented properties are the ones the specs have.
func TestDocumentedProperties(t *testing.T) {
	const page = "docs/connectors/postgresql.md"
	docs.Section(t, page, "postgres properties", propertyTable(postgres.Spec()))
	docs.Section(t, page, "common properties", propertyTable(append(commonSpec(), sink.CreationSpec()...)))
	docs.Section(t, "docs/connectctl.md", "worker properties", propertyTable(WorkerSpec()))
}

// propertyTable leaves out what repeats a property under a prefix: the pages say which prefixes there are.
func propertyTable(spec connectors.Spec) string {
	var b strings.Builder
	b.WriteString("| property | type | default | |\n| --- | --- | --- | --- |\n")
	seen := map[string]bool{}
	for i := len(spec) - 1; i >= 0; i-- { // of two definitions the later one is the more exact
		if seen[spec[i].Name] {
			spec = append(spec[:i:i], spec[i+1:]...)
			continue
		}
		seen[spec[i].Name] = true
	}
	for _, p := range spec {
		if prefixed(p.Name) {
			continue
		}
		value := "`" + p.Default + "`"
		switch {
		case p.Required:
			value = "**required**"
		case p.Default == "":
			value = ""
		}
		doc := p.Doc
		if len(p.Allowed) > 0 {
			doc += " One of " + allowed(p.Allowed) + "."
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, strings.ToLower(string(p.Type)), value, docs.Cell(doc))
	}
	return b.String()
}

func allowed(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = "`" + v + "`"
		if v == "" {
			quoted[i] = "empty"
		}
	}
	return strings.Join(quoted, ", ")
}

func prefixed(name string) bool {
	for _, p := range []string{"producer.", "consumer.", "admin.", "key.converter.", "value.converter."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// The worker and connector files shown in the pages load without a problem.
func TestDocumentedConfigurations(t *testing.T) {
	t.Setenv("SHOP_PASSWORD", "x")
	blocks := regexp.MustCompile("(?s)```properties\n(.*?)```")
	workers, sources := 0, 0
	worker, err := LoadWorkerOver("", map[string]string{"bootstrap.servers": "localhost:9092", "schema.registry.url": "http://localhost:8081"})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"README.md", "docs/connectors/postgresql.md", "docs/connectctl.md", "docs/operations.md"} {
		for _, m := range blocks.FindAllStringSubmatch(docs.Page(t, page), -1) {
			path := filepath.Join(t.TempDir(), "shown.properties")
			if err := os.WriteFile(path, []byte(m[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(m[1], "connector.class") {
				sources++
				_, err = LoadConnector(worker, path)
			} else {
				workers++
				_, err = LoadWorker(path)
			}
			if err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if workers < 1 || sources < 2 {
		t.Errorf("found %d worker and %d connector files", workers, sources)
	}
}
