package sourcetest_test

import (
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/sourcetest"
	"github.com/tidemark-cdc/tidemark/offsets"
)

func TestScriptedSourcePassesItsOwnSuite(t *testing.T) {
	table := sourcetest.Table("a")
	for name, cut := range map[string]func(int) int{"whole": nil, "single changes": func(int) int { return 1 }} {
		t.Run(name, func(t *testing.T) {
			sourcetest.Accept(t, func(*testing.T) sourcetest.Harness {
				log := sourcetest.NewLog()
				return sourcetest.Harness{
					New: func(*testing.T) connectors.Source {
						s := sourcetest.New(log, "srv", table)
						s.Cut = cut
						return s
					},
					Commit: func(_ *testing.T, n int) {
						var tx sourcetest.Tx
						for i := range n {
							tx.Changes = append(tx.Changes, sourcetest.Insert(table, int64(i), "v"))
						}
						log.Append(tx)
					},
					Entries: func(b offsets.Object) []offsets.Entry {
						return []offsets.Entry{{Partition: offsets.StreamPartition("srv"), Offset: b}}
					},
				}
			})
		})
	}
}
