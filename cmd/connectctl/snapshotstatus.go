package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/assembly"
	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/terminal"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/snapshot"
)

func newSnapshotStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status WORKER CONNECTOR",
		Short: "Show how far tables have been read",
		Long:  `Shows each table's newest snapshot as it is stored with the offsets; no worker is needed. Rates are means since the snapshot of the table began.`,
		Args:  exactly(2, "a worker file and a connector file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := loadConnector(args[0], args[1])
			if err != nil {
				return err
			}
			s, err := snapshots(cmd.Context(), c)
			if err != nil {
				return err
			}
			measure(s.Tables, time.Now())
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(statusOf(c.Name(), s))
			}
			return printSnapshots(cmd.OutOrStdout(), s)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func snapshots(ctx context.Context, c *assembly.Connector) (snapshot.Stored, error) {
	stored, err := c.Stored(ctx)
	if err != nil {
		return snapshot.Stored{}, err
	}
	return c.Snapshots(stored)
}

// measure sorts the tables and works out rates and time left.
func measure(tables []snapshot.TableStatus, now time.Time) {
	slices.SortFunc(tables, func(a, b snapshot.TableStatus) int { return strings.Compare(a.Table, b.Table) })
	for i := range tables {
		t := &tables[i]
		end := t.Ended
		if end.IsZero() {
			end = now
		}
		if took := end.Sub(t.Began).Seconds(); took > 0 && !t.Began.IsZero() {
			t.Rate = float64(t.Rows) / took
		}
		switch {
		case !isOpen(t.State):
			t.Left = 0
		case t.Total >= 0 && t.Rate > 0:
			t.Left = time.Duration(float64(max(0, t.Total-t.Rows)) / t.Rate * float64(time.Second))
		}
	}
}

func printSnapshots(out io.Writer, s snapshot.Stored) error {
	var b strings.Builder
	if len(s.Tables) == 0 {
		b.WriteString("no table was read\n")
	} else {
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "TABLE\tSTATE\tROWS\tTOTAL\t%\tRATE\tLEFT\tREASON")
		for _, t := range s.Tables {
			_, _ = fmt.Fprintln(w, strings.Join(cells(t, s.Paused), "\t"))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if s.Paused {
		b.WriteString("paused: connectctl snapshot resume goes on\n")
	}
	if len(s.Queued) > 0 {
		fmt.Fprintf(&b, "waiting: %s\n", strings.Join(s.Queued, ", "))
	}
	for _, r := range s.Results {
		if r.Error != "" {
			fmt.Fprintf(&b, "request %s: %s\n", r.ID, r.Error)
		}
	}
	for _, line := range strings.SplitAfter(b.String(), "\n") {
		if line == "" {
			continue
		}
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func cells(t snapshot.TableStatus, paused bool) []string {
	total, share, rate, left := "-", "-", "-", "-"
	if t.Total >= 0 {
		total = "~" + terminal.Thousands(t.Total)
	}
	switch {
	case t.State == offsets.SnapshotDone:
		share = "100"
	case t.Total > 0:
		share = fmt.Sprint(min(100, 100*t.Rows/t.Total))
	}
	state := t.State
	if paused && isOpen(state) {
		state = "paused"
	} else if t.Rate > 0 {
		rate = terminal.Thousands(int64(t.Rate)) + "/s"
		if isOpen(state) && t.Left >= 0 && t.Total >= 0 {
			left = terminal.Span(t.Left)
		}
	}
	return []string{t.Table, state, terminal.Thousands(t.Rows), total, share, rate, left, t.Reason}
}

// tableJSON is a table of the status as JSON.
type tableJSON struct {
	Table  string   `json:"table"`
	State  string   `json:"state"`
	ID     string   `json:"id"`
	Kind   string   `json:"kind"`
	Rows   int64    `json:"rows"`
	Total  *int64   `json:"total"` // null: unknown
	Rate   float64  `json:"rate"`
	Left   *float64 `json:"left_seconds"`
	Began  int64    `json:"began_ms"`
	Ended  *int64   `json:"ended_ms"`
	Reason string   `json:"reason,omitempty"`
}

type statusJSON struct {
	Connector string             `json:"connector"`
	Paused    bool               `json:"paused"`
	Tables    []tableJSON        `json:"tables"`
	Waiting   []string           `json:"waiting"`
	Results   []snapshot.Outcome `json:"results"`
}

func statusOf(name string, s snapshot.Stored) statusJSON {
	out := statusJSON{Connector: name, Paused: s.Paused, Tables: []tableJSON{}, Waiting: append([]string{}, s.Queued...), Results: append([]snapshot.Outcome{}, s.Results...)}
	for _, t := range s.Tables {
		j := tableJSON{Table: t.Table, State: t.State, ID: t.ID, Kind: t.Kind, Rows: t.Rows, Rate: t.Rate, Began: t.Began.UnixMilli(), Reason: t.Reason}
		if t.Total >= 0 {
			j.Total = &t.Total
		}
		if isOpen(t.State) && t.Left >= 0 && t.Total >= 0 {
			left := t.Left.Seconds()
			j.Left = &left
		}
		if !t.Ended.IsZero() {
			ended := t.Ended.UnixMilli()
			j.Ended = &ended
		}
		out.Tables = append(out.Tables, j)
	}
	return out
}

// waitFor waits until a request was worked off, and shows how far it is. The error says what of it failed.
func waitFor(ctx context.Context, out io.Writer, c *assembly.Connector, id string) error {
	bars := newBars("text")
	defer bars.Close()
	var failed error // of the last look
	ran := false
	for look := 0; ; look++ {
		if look%lookAtSlot == 0 {
			ran = tellStopped(ctx, bars, c, ran)
		}
		s, err := snapshots(ctx, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && failed == nil:
			_, _ = fmt.Fprintln(bars, err.Error())
		case err == nil:
			mine := slices.DeleteFunc(slices.Clone(s.Tables), func(t snapshot.TableStatus) bool { return t.ID != id })
			measure(mine, time.Now())
			bars.Show(c.Name(), s.Paused, barsOf(mine))
			if over(s, mine, id) {
				bars.Show(c.Name(), s.Paused, nil)
				return result(bars, s, mine, id)
			}
		}
		failed = err
		select {
		case <-time.After(pollStored):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lookAtSlot is after how many looks at the offsets whether the connector runs is asked, which takes a connection to the database.
const lookAtSlot = 10

// tellStopped tells whether the connector runs, and says so where it did and does not any more: what is awaited waits for its next start.
func tellStopped(ctx context.Context, out io.Writer, c *assembly.Connector, ran bool) bool {
	who, err := c.InUse(ctx)
	if err != nil {
		return ran
	}
	if ran && who == "" {
		_, _ = fmt.Fprintf(out, "connector %s does not run any more; its log says why, and the request goes on at its next start\n", c.Name())
	}
	return who != ""
}

// over tells that a request was taken and nothing of it is left to do.
func over(s snapshot.Stored, mine []snapshot.TableStatus, id string) bool {
	return slices.Contains(s.Executed, id) && !slices.Contains(s.Queued, id) &&
		!slices.ContainsFunc(mine, func(t snapshot.TableStatus) bool { return isOpen(t.State) })
}

// result prints what became of each table; what failed is the error.
func result(out io.Writer, s snapshot.Stored, mine []snapshot.TableStatus, id string) error {
	var wrong []error
	for _, t := range mine {
		if t.State == offsets.SnapshotDone {
			_, _ = fmt.Fprintf(out, "%s: %s rows in %s\n", t.Table, terminal.Thousands(t.Rows), terminal.Span(t.Ended.Sub(t.Began)))
			continue
		}
		wrong = append(wrong, fmt.Errorf("%s %s after %s rows: %s", t.Table, t.State, terminal.Thousands(t.Rows), t.Reason))
	}
	for _, r := range s.Results {
		if r.ID == id && r.Error != "" {
			wrong = append(wrong, errors.New(r.Error))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	text := make([]string, len(wrong))
	for i, err := range wrong {
		text[i] = err.Error()
	}
	return fmt.Errorf("request %s: %s", id, strings.Join(text, "; "))
}
