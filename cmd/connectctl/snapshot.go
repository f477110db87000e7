package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

func newSnapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Have rows of tables read and published while the stream runs",
		Long: `Writes signals to the connector's signal topic, as Debezium's: the worker need not run here, and where it does not run at all the signal
is executed at its next start.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSnapshotStartCommand(), newSnapshotStatusCommand(),
		newSnapshotSignalCommand(signal.TypePause, "pause", "Stop reading for now, of all tables; the stream goes on"),
		newSnapshotSignalCommand(signal.TypeResume, "resume", "Go on reading where it was paused"),
		newSnapshotSignalCommand(signal.TypeStop, "stop", "End snapshots; what was published of them stays"))
	return cmd
}

// request is a signal to be sent.
type request struct {
	tables []string
	where  string
	key    string
	id     string
	wait   bool
}

const waitFlag = "wait until it is done and show how far it is"

func newSnapshotStartCommand() *cobra.Command {
	var r request
	cmd := &cobra.Command{
		Use:   "start WORKER CONNECTOR",
		Short: "Have rows of captured tables published as operation r",
		Long: `Prints the id of the request. Each table is read in chunks of its key while the stream runs, a table without a key as a whole. Give
--table once for each table, as schema.table or a regular expression on the whole name. --where is SQL for every one of them.`,
		Args: exactly(2, "a worker file and a connector file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(r.tables) == 0 {
				return usageError("say which tables: --table schema.table, or --table '.*' for all that are captured")
			}
			if cmd.Flags().Changed("where") && strings.TrimSpace(r.where) == "" {
				return usageError("--where is empty; leave it out to have all rows read")
			}
			return r.send(cmd, args, signal.TypeExecute)
		},
	}
	cmd.Flags().StringArrayVar(&r.tables, "table", nil, "table to be read, schema.table or a regular expression; may be given more than once")
	cmd.Flags().StringVar(&r.where, "where", "", "SQL condition that rows must fulfil")
	cmd.Flags().StringVar(&r.key, "surrogate-key", "", "column to read in the order of, instead of the key")
	r.flags(cmd)
	return cmd
}

func newSnapshotSignalCommand(typ, verb, short string) *cobra.Command {
	var r request
	cmd := &cobra.Command{
		Use:   verb + " WORKER CONNECTOR",
		Short: short,
		Args:  exactly(2, "a worker file and a connector file"),
		RunE:  func(cmd *cobra.Command, args []string) error { return r.send(cmd, args, typ) },
	}
	if typ == signal.TypeStop {
		cmd.Flags().StringArrayVar(&r.tables, "table", nil, "table whose snapshot ends, schema.table or a regular expression; may be given more than once; without it all")
	}
	r.flags(cmd)
	return cmd
}

func (r *request) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.id, "id", "", "id of the request, which is executed once; a new one where absent")
	cmd.Flags().BoolVar(&r.wait, "wait", false, waitFlag)
}

// send checks the request, writes the signal, prints its id, and waits where that is wanted.
func (r *request) send(cmd *cobra.Command, args []string, typ string) error {
	ctx := cmd.Context()
	c, err := loadConnector(args[0], args[1])
	if err != nil {
		return err
	}
	if r.id == "" {
		r.id = rand.Text()
	}
	s, err := r.signal(typ)
	if err != nil {
		return usageError("%w", err)
	}
	if err := c.CheckSignalTopic(); err != nil {
		return &exitError{exitUsage, err}
	}
	if err := r.check(ctx, cmd.ErrOrStderr(), c, typ); err != nil {
		return err
	}
	if err := c.Signal(ctx, s); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(cmd.OutOrStdout(), r.id); err != nil {
		return err
	}
	note := cmd.ErrOrStderr()
	if who, err := c.InUse(ctx); err == nil && who == "" {
		_, _ = fmt.Fprintf(note, "connector %s does not run; what topic %s has is executed at its next start\n", c.Name(), c.SignalTopic())
	}
	if !r.wait {
		return nil
	}
	return waitFor(ctx, note, c, r.id)
}

// signal makes the signal, and checks it as the worker will.
func (r *request) signal(typ string) (signal.Signal, error) {
	var data any
	switch typ {
	case signal.TypeExecute:
		e := signal.Execute{Collections: r.tables, Kind: signal.KindIncremental, SurrogateKey: r.key}
		if r.where != "" {
			e.Conditions = []signal.Condition{{Collection: ".*", Filter: r.where}}
		}
		data = e
	case signal.TypeStop:
		data = signal.Stop{Collections: r.tables, Kind: signal.KindIncremental}
	default:
		data = struct{}{}
	}
	text, err := json.Marshal(data)
	if err != nil {
		return signal.Signal{}, err
	}
	_, err = signal.Parse(r.id, typ, text)
	return signal.Signal{ID: r.id, Type: typ, Data: text}, err
}

// check refuses an id that was executed, and tables of which it is known that they are not captured.
func (r *request) check(ctx context.Context, note io.Writer, c *assembly.Connector, typ string) error {
	entries, err := c.Stored(ctx)
	if err != nil {
		return err
	}
	stored, err := c.Snapshots(entries)
	if err != nil {
		return err
	}
	if slices.Contains(stored.Executed, r.id) {
		return usageError("id %q was executed before, and no id is executed twice; give another --id, or none", r.id)
	}
	if typ != signal.TypeExecute {
		return nil
	}
	missing, captured, err := c.TablesNamed(ctx, entries, r.tables)
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(note, "cannot tell whether %s is captured: %v\n", strings.Join(missing, ", "), err)
	case len(missing) > 0:
		return usageError("no captured table is named %s%s", strings.Join(missing, ", "), similar(missing[0], captured))
	}
	return nil
}

// similar tells of captured tables whose names are like a name.
func similar(name string, captured []string) string {
	_, table, ok := strings.Cut(strings.ToLower(name), ".")
	if !ok {
		table = strings.ToLower(name)
	}
	var near []string
	for _, c := range captured {
		_, other, _ := strings.Cut(strings.ToLower(c), ".")
		if table != "" && (strings.Contains(other, table) || strings.Contains(table, other)) {
			near = append(near, c)
		}
	}
	switch {
	case len(near) > 0:
		return "; there is " + strings.Join(near[:min(3, len(near))], ", ")
	case len(captured) == 0:
		return "; none is captured"
	}
	return fmt.Sprintf("; there are %s", strings.Join(captured[:min(5, len(captured))], ", "))
}
