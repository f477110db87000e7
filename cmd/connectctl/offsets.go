package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/offsets"
)

func newOffsetsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "offsets",
		Short: "Look at, set or reset the stored offsets of a connector",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newOffsetsGetCommand(), newOffsetsSetCommand(), newOffsetsResetCommand())
	return cmd
}

// loadConnector reads a worker and one connector.
func loadConnector(worker, connector string) (*assembly.Connector, error) {
	w, err := assembly.LoadWorker(worker)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	c, err := assembly.LoadConnector(w, connector)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return c, nil
}

func newOffsetsGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get WORKER CONNECTOR",
		Short: "Print the stored offsets as Connect's REST interface shows them",
		Args:  exactly(2, "a worker file and a connector file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConnector(args[0], args[1])
			if err != nil {
				return err
			}
			entries, err := c.Stored(cmd.Context())
			if err != nil {
				return err
			}
			return printEntries(cmd.OutOrStdout(), entries)
		},
	}
}

// printEntries prints {"offsets":[{"partition":{…},"offset":{…}}]}, an entry a line.
func printEntries(out io.Writer, entries []offsets.Entry) error {
	b := []byte(`{"offsets":[`)
	for i, e := range assembly.SortEntries(entries) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n"+`{"partition":`...)
		b = e.Partition.AppendJSON(b)
		b = append(b, `,"offset":`...)
		b = e.Offset.AppendJSON(b)
		b = append(b, '}')
	}
	_, err := out.Write(append(b, "\n]}\n"...))
	return err
}

// stopped refuses a connector whose slot is in use, unless forced.
func stopped(ctx context.Context, c *assembly.Connector, force bool) error {
	if force {
		return nil
	}
	who, err := c.InUse(ctx)
	if err != nil {
		return fmt.Errorf("cannot tell whether connector %s is stopped: %w; with --force it is fenced without asking the database", c.Name(), err)
	}
	if who != "" {
		return fmt.Errorf("connector %s is running (%s): stop it first", c.Name(), who)
	}
	return nil
}

func newOffsetsSetCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "set WORKER CONNECTOR OFFSET",
		Short: "Set the stream's offset of a stopped connector; begins a new generation",
		Long: `OFFSET is the stream's offset as JSON, such as '{"boundary_lsn":"3D/485795A0"}': streaming starts with the first transaction
that ends after it. The slot must still hold that position. Setting an offset begins a new generation: positions before and after it do
not compare, and consumers are told by an activation record.`,
		Args: exactly(3, "a worker file, a connector file and an offset"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConnector(args[0], args[1])
			if err != nil {
				return err
			}
			o, err := parseOffset(args[2])
			if err != nil {
				return err
			}
			start, canonical, err := c.CheckOffset(o)
			if err != nil {
				return usageError("offset: %w", err)
			}
			if err := stopped(cmd.Context(), c, force); err != nil {
				return err
			}
			if !force {
				if err := c.CheckReach(cmd.Context(), canonical); err != nil {
					return fmt.Errorf("offset of connector %s: %w", c.Name(), err)
				}
			}
			gen, err := c.SetOffset(cmd.Context(), canonical, start)
			if err != nil {
				return classError(err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), setMessage(c.Name(), start, gen))
			return err
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "fence a worker that may still run, without asking the database")
	return cmd
}

func setMessage(name, start string, generation int64) string {
	if generation == 0 {
		return fmt.Sprintf("connector %s starts at %s; its next start begins a generation", name, start)
	}
	return fmt.Sprintf("connector %s starts at %s, in generation %d", name, start, generation)
}

// parseOffset takes the offset itself, or what offsets get prints with one stream entry.
func parseOffset(arg string) (offsets.Object, error) {
	var rest struct {
		Offsets []struct{ Partition, Offset json.RawMessage } `json:"offsets"`
	}
	if json.Unmarshal([]byte(arg), &rest) == nil && len(rest.Offsets) > 0 {
		if len(rest.Offsets) != 1 {
			return nil, usageError("give the offset of the stream alone: its partition is {\"server\":…}")
		}
		arg = string(rest.Offsets[0].Offset)
	}
	o, err := offsets.ParseObject([]byte(arg))
	if err != nil {
		return nil, usageError("offset: %w", err)
	}
	if o == nil {
		return nil, usageError("offset: null removes nothing here; use connectctl offsets reset WORKER CONNECTOR")
	}
	return o, nil
}

func newOffsetsResetCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "reset WORKER CONNECTOR",
		Short: "Remove the stored offsets of a stopped connector; its next start begins a new generation",
		Long: `Removes the stream's boundary and the state of its tables; the generation's number is kept, and the next start raises it.
That start begins at the slot's confirmed position, or where a new slot is created. Changes between are not published.`,
		Args: exactly(2, "a worker file and a connector file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConnector(args[0], args[1])
			if err != nil {
				return err
			}
			if err := stopped(cmd.Context(), c, force); err != nil {
				return err
			}
			removed, err := c.ResetOffsets(cmd.Context())
			if errors.Is(err, context.Canceled) {
				return err
			}
			if err != nil {
				return classError(err)
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "removed %d offsets of connector %s:\n", len(removed), c.Name()); err != nil {
				return err
			}
			return printEntries(cmd.OutOrStdout(), removed)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "fence a worker that may still run, without asking the database")
	return cmd
}
