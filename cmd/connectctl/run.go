package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/terminal"
	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/pipeline/metrics"
)

func newRunCommand() *cobra.Command {
	var logFormat string
	var end ends
	cmd := &cobra.Command{
		Use:   "run WORKER CONNECTOR...",
		Short: "Run connectors in this process",
		Long: `Runs the connectors until a signal ends it or every one of them has stopped. A signal commits what is complete, acknowledges it
and ends with 128 plus the signal's number. A connector that blocks, is refused or is fenced stops with one sentence and does not
start again; others go on. The exit code is that of the first one that stopped: 3 blocked, 4 fenced, 5 refused.

With --until-current each connector ends once it has published everything that was committed in its database when the run began, and has
read the tables whose reading was begun; what is committed later is for the next run. Each then prints one line to standard output, and the exit code is 0.`,
		Args: atLeast(2, "a worker file and one or more connector files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			bars := newBars(logFormat)
			defer bars.Close()
			handler, err := logHandler(logFormat, bars)
			if err != nil {
				return err
			}
			if err := end.check(cmd); err != nil {
				return err
			}
			w, err := assembly.LoadWorker(args[0])
			if err != nil {
				return &exitError{exitUsage, err}
			}
			all, err := loadAll(w, args[1:])
			if err != nil {
				return &exitError{exitUsage, err}
			}
			log := slog.New(handler)
			bars.Log(log)
			log.Info("connectctl", "version", version)
			counts := metrics.New()
			server, err := counts.Serve(w.Config.List("metrics.listeners"))
			if err != nil {
				return err
			}
			defer server.Close()
			return runAll(cmd.Context(), log, counts, bars, all, &end)
		},
	}
	cmd.Flags().StringVar(&logFormat, "log-format", "text", "text or json, to standard error")
	end.flags(cmd)
	return cmd
}

func logHandler(format string, to io.Writer) (slog.Handler, error) {
	switch strings.ToLower(format) {
	case "text":
		return slog.NewTextHandler(to, nil), nil
	case "json":
		return slog.NewJSONHandler(to, nil), nil
	}
	return nil, usageError("--log-format %q is not one of text, json", format)
}

// loadAll loads the connectors and refuses two that would fence or overwrite each other.
func loadAll(w *assembly.Worker, paths []string) ([]*assembly.Connector, error) {
	var all []*assembly.Connector
	var problems []error
	taken := map[string]string{} // path by property and value
	for _, path := range paths {
		c, err := assembly.LoadConnector(w, path)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, property := range []string{"name", "topic.prefix", "slot.name"} {
			value := c.Exclusive()[property]
			if other, ok := taken[property+"="+value]; ok {
				problems = append(problems, fmt.Errorf("%s and %s have the same %s (%s); give each connector its own", other, path, property, value))
				break
			}
			taken[property+"="+value] = path
		}
		all = append(all, c)
	}
	return all, errors.Join(problems...)
}

// runAll runs the connectors side by side and returns the first error.
func runAll(ctx context.Context, log *slog.Logger, counts *metrics.Registry, bars *terminal.Bars, all []*assembly.Connector, end *ends) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, c := range all {
		wg.Go(func() {
			clog := log.With("connector", c.Name())
			count := counts.Connector(c.Name())
			say := stateLog(ctx, clog)
			err := end.run(ctx, c, clog, func(s connectors.State) { count.State(s); say(s) }, count, newReading(c.Name(), bars, count))
			if err == nil {
				return
			}
			err = classError(fmt.Errorf("connector %s: %w", c.Name(), err))
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			} else {
				_, _ = fmt.Fprintf(bars, "connectctl: %v\n", err)
			}
		})
	}
	wg.Wait()
	if first == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return first
}

// stateLog logs each change of a connector's state once.
func stateLog(ctx context.Context, log *slog.Logger) connectors.Reporter {
	var mu sync.Mutex
	var last connectors.State
	return func(s connectors.State) {
		mu.Lock()
		defer mu.Unlock()
		if s == last {
			return
		}
		last = s
		cause := context.Cause(ctx)
		switch {
		case s.Name == "STOPPED" && s.Reason == "" && cause != nil:
			log.Info("state", "state", s.Name, "reason", cause.Error())
		case s.Reason == "":
			log.Info("state", "state", s.Name)
		case s.Name == "STARTING" || s.Name == "RUNNING":
			log.Info("state", "state", s.Name, "reason", s.Reason)
		default:
			log.Warn("state", "state", s.Name, "reason", s.Reason)
		}
	}
}
