package pipeline

import (
	"fmt"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/integration/docs"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// The examples of docs/formats.md are what begins a generation and what a boundary is recorded as.
func TestDocumentedEntries(t *testing.T) {
	const page = "docs/formats.md"
	cfg := &Config{Server: "shop", Connector: "shop", Group: "tidemark", GenerationsTopic: "shop.__generations"}
	activation := cfg.activation(offsets.Generation{Number: 1, Start: `{"lsn":"0/15D6A30"}`})
	position := catalog.Position{
		SystemID: "7439158203746251904", Timeline: 1, Pos: `{"lsn":"0/15D7C18"}`, PosLSN: 0x15D7C18,
		BoundaryLSN: 0x15D7C48, AckedLSN: 0x15D6A30, HighestXID: 752,
	}
	for name, e := range map[string]offsets.Entry{
		"stream entry":     cfg.streamEntry(position.Object("tidemark", "shop")),
		"generation entry": activation.Entries[0],
	} {
		docs.Section(t, page, name, fmt.Sprintf("```json\n%s\n%s\n```\n", offsets.AppendKey(nil, cfg.Connector, e.Partition), e.Offset))
	}
	r := activation.Records[0]
	docs.Section(t, page, "activation record", fmt.Sprintf("```json\n%s\n%s\n```\n", r.Key, r.Value))
}
