package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/connectors"
)

func newDescribeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "describe WORKER CONNECTOR",
		Short: "Show a connector's guarantee, what the broker's settings miss for it, its positions and its slot",
		Long:  `Reads the offsets topic, the brokers' settings and the database; it needs no running worker and changes nothing.`,
		Args:  exactly(2, "a worker file and a connector file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConnector(args[0], args[1])
			if err != nil {
				return err
			}
			facts, err := c.Describe(cmd.Context())
			if err != nil {
				return err
			}
			return printFacts(cmd.OutOrStdout(), facts, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of {name, value}")
	return cmd
}

func printFacts(out io.Writer, facts []connectors.Fact, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(facts)
	}
	width := 0
	for _, f := range facts {
		width = max(width, len(f.Name))
	}
	for _, f := range facts {
		if _, err := fmt.Fprintf(out, "%-*s  %s\n", width, f.Name, f.Value); err != nil {
			return err
		}
	}
	return nil
}
