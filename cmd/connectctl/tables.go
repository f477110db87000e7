package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

func newTablesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tables",
		Short: "List, add or remove the tables of a connector",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTablesListCommand(), newTablesChangeCommand("add", "Add tables to a connector while it runs",
		`Asks the connector to add the tables to its set. It has the publication carry them, waits for the transactions that were open before
that, and changes the set at a place in its log: from there on their changes are published, on every replay. Then the rows that they
have are read beside the stream. A connector that does not run takes the change up at its next start.`,
		func(names []string) signal.Tables { return signal.Tables{Add: names} }),
		newTablesChangeCommand("remove", "Remove tables from a connector while it runs",
			`Asks the connector to remove the tables from its set, which it does at a place in its log: what is changed in them after it is not
published, on any replay. What was published stays in their topics. A connector that does not run takes the change up at its next start.`,
			func(names []string) signal.Tables { return signal.Tables{Remove: names} }))
	return cmd
}

func newTablesListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list WORKER CONNECTOR",
		Short: "Show a connector's tables: key, topic, publication, and how far they have been read",
		Long:  `Reads the offsets topic and the database; it needs no running worker and changes nothing.`,
		Args:  exactly(2, "a worker file and a connector file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConnector(args[0], args[1])
			if err != nil {
				return err
			}
			stored, err := c.Stored(cmd.Context())
			if err != nil {
				return err
			}
			set, err := c.TableSet(stored)
			if err != nil {
				return classError(err)
			}
			tables, err := c.CapturedTables(cmd.Context(), stored)
			if err != nil {
				return classError(err)
			}
			return printTables(cmd.OutOrStdout(), set, tables)
		},
	}
}

func printTables(out io.Writer, set assembly.TableSet, tables []assembly.CapturedTable) error {
	from := "the configured lists"
	for _, part := range []struct {
		how   string
		names []string
	}{{", with ", set.Added}, {", without ", set.Removed}} {
		if len(part.names) > 0 {
			from += part.how + strings.Join(part.names, ", ")
		}
	}
	if _, err := fmt.Fprintf(out, "version %d: %s\n", set.Version, from); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TABLE\tKEY\tTOPIC\tPUBLICATION\tROWS READ")
	for _, t := range tables {
		key, in := strings.Join(t.Key, ","), "yes"
		if key == "" {
			key = "none"
		}
		if t.Problem != "" {
			key = "unusable"
		}
		if !t.Published {
			in = "no"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Table.QualifiedName(), key, t.Topic, in, progress(&t.Snapshot))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, t := range tables {
		if t.Problem == "" {
			continue
		}
		if _, err := fmt.Fprintln(out, t.Problem); err != nil {
			return err
		}
	}
	return nil
}

// progress is how far a table has been read.
func progress(p *offsets.Progress) string {
	if p.State == "" {
		return "never"
	}
	text := fmt.Sprintf("%s, %d", p.State, p.Rows)
	if p.Open() && p.Total >= 0 {
		text += fmt.Sprintf(" of about %d", p.Total)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

func newTablesChangeCommand(verb, short, long string, data func(names []string) signal.Tables) *cobra.Command {
	var names []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   verb + " WORKER CONNECTOR --table SCHEMA.TABLE",
		Short: short,
		Long:  long,
		Args:  exactly(2, "a worker file and a connector file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(names) == 0 {
				return usageError("--table names no table; it is given as schema.table, once for each")
			}
			for i, name := range names {
				if at := strings.IndexByte(name, '.'); at <= 0 || at == len(name)-1 {
					return usageError("--table %q is not of the form schema.table", name)
				}
				if slices.Contains(names[:i], name) {
					return usageError("--table %s is given twice", name)
				}
			}
			c, err := loadConnector(args[0], args[1])
			if err != nil {
				return err
			}
			return changeTables(cmd.Context(), cmd.OutOrStdout(), c, data(names), timeout)
		},
	}
	cmd.Flags().StringArrayVar(&names, "table", nil, "schema.table, as the database writes it; may be given several times")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the connector")
	return cmd
}

// changeTables sends the request and waits for what becomes of it.
func changeTables(ctx context.Context, out io.Writer, c *assembly.Connector, want signal.Tables, timeout time.Duration) error {
	if err := c.CheckSignalTopic(); err != nil {
		return &exitError{exitUsage, err}
	}
	stored, err := c.Stored(ctx)
	if err != nil {
		return err
	}
	before, err := c.TableSet(stored)
	if err != nil {
		return classError(err)
	}
	running, unknown := c.InUse(ctx)
	data, err := json.Marshal(want)
	if err != nil {
		return err
	}
	id := "tables-" + rand.Text()
	if err := c.Signal(ctx, signal.Signal{ID: id, Type: signal.TypeTables, Data: data}); err != nil {
		return err
	}
	if running == "" && unknown == nil {
		_, err := fmt.Fprintf(out, "connector %s does not run; its next start takes the change up (%s)\n", c.Name(), id)
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	set, err := awaitTables(waiting, c, id, want, before.Version)
	switch {
	case err != nil && ctx.Err() == nil && waiting.Err() != nil:
		return fmt.Errorf("connector %s has not changed its tables within %s; the request stands (%s), and the connector's log says what it waits for", c.Name(), timeout, id)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(out, "connector %s: table set version %d: %s\n", c.Name(), set.Version, changed(want))
	return err
}

// pollStored is how often the stored offsets are read while something is awaited.
const pollStored = 300 * time.Millisecond

// awaitTables waits until the change counts in the stored offsets, or failed.
func awaitTables(ctx context.Context, c *assembly.Connector, id string, want signal.Tables, before int64) (set assembly.TableSet, err error) {
	for {
		stored, err := c.Stored(ctx)
		if err != nil {
			return set, err
		}
		if set, err = c.TableSet(stored); err != nil {
			return set, err
		}
		if set.Version > before && fulfils(set, want) {
			return set, nil // even where a start after a crash found it done already
		}
		outcome, found, err := c.Outcome(stored, id)
		switch {
		case err != nil:
			return set, err
		case found && outcome.Error != "":
			return set, fmt.Errorf("connector %s did not change its tables: %s", c.Name(), outcome.Error)
		}
		select {
		case <-time.After(pollStored):
		case <-ctx.Done():
			return set, ctx.Err()
		}
	}
}

func fulfils(set assembly.TableSet, want signal.Tables) bool {
	for _, name := range want.Add {
		if !slices.Contains(set.Added, name) {
			return false
		}
	}
	for _, name := range want.Remove {
		if !slices.Contains(set.Removed, name) {
			return false
		}
	}
	return true
}

func changed(t signal.Tables) string {
	var parts []string
	if len(t.Add) > 0 {
		parts = append(parts, "added "+strings.Join(t.Add, ", ")+"; rows that are there are read beside the stream")
	}
	if len(t.Remove) > 0 {
		parts = append(parts, "removed "+strings.Join(t.Remove, ", "))
	}
	return strings.Join(parts, "; ")
}
