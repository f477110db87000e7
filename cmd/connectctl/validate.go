package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
)

func newValidateCommand() *cobra.Command {
	var conn connectionFlags
	cmd := &cobra.Command{
		Use:   "validate CONNECTOR",
		Short: "Check a connector against its database, Kafka and the schema registry, and list every problem at once",
		Long: `Checks every property, then connects to the database, and to Kafka and the schema registry where they are named, and checks
everything a start would need. It changes nothing. Prints every problem; exit code 1 if there is one.`,
		Args: exactly(1, "one connector file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var w *assembly.Worker
			if conn.worker != "" || conn.brokers != "" {
				var err error
				if w, err = conn.load(); err != nil {
					return err
				}
			}
			problems, err := assembly.Validate(cmd.Context(), w, args[0])
			if err != nil {
				return &exitError{exitUsage, err}
			}
			for _, p := range problems {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), p); err != nil {
					return err
				}
			}
			warnings := 0
			for _, p := range problems {
				if p.Warning {
					warnings++
				}
			}
			if n := len(problems) - warnings; n > 0 {
				return &exitError{exitFailure, fmt.Errorf("%s: %s", args[0], count(n, "problem"))}
			}
			if warnings > 0 {
				args[0] += ": " + count(warnings, "warning")
			}
			checked := "the database, Kafka and the schema registry"
			if w == nil {
				checked = "the database (give --worker FILE to check Kafka and the schema registry too)"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: no problems; checked %s\n", args[0], checked)
			return err
		},
	}
	conn.add(cmd)
	return cmd
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
