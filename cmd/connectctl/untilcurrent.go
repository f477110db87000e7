package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/connectors"
)

// ends says where a run ends by itself, and prints what it did then.
type ends struct {
	current bool // at a marker
	summary string
	mu      sync.Mutex
	out     io.Writer
}

func (e *ends) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.current, "until-current", false, "end once everything is published that was committed when the run began")
	cmd.Flags().StringVar(&e.summary, "summary", "text", "with --until-current: text or json, one line for each connector, to standard output")
}

func (e *ends) check(cmd *cobra.Command) error {
	e.out, e.summary = cmd.OutOrStdout(), strings.ToLower(e.summary)
	if e.summary != "text" && e.summary != "json" {
		return usageError("--summary %q is not one of text, json", e.summary)
	}
	if cmd.Flags().Changed("summary") && !e.current {
		return usageError("--summary is printed at the end of a bounded run; add --until-current")
	}
	return nil
}

// run runs a connector. A table that was not read to its end fails a run that ends by itself, though the stream is current.
func (e *ends) run(ctx context.Context, c *assembly.Connector, log *slog.Logger, report connectors.Reporter, hooks ...any) error {
	run := c.RunTables
	switch {
	case e.current:
		run = c.RunUntilCurrent
	case !c.ReadsTablesOnly():
		return c.Run(ctx, log, report, hooks...)
	}
	s, err := run(ctx, log, report, hooks...)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if e.current {
		if err := e.print(s); err != nil {
			return err
		}
	}
	if s.Failed > 0 {
		return fmt.Errorf("%d tables were not read to their end; connectctl tables list tells which and why", s.Failed)
	}
	return nil
}

func (e *ends) print(s assembly.Summary) error {
	line := s.String()
	if e.summary == "json" {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		line = string(text)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := fmt.Fprintln(e.out, line)
	return err
}
