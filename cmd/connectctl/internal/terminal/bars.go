// Package terminal shows how far tables have been read: as bars on a terminal, else in the log.
package terminal

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Table is how far one table has been read.
type Table struct {
	Name   string // qualified
	Rows   int64  // published
	Total  int64  // estimate of all; -1: unknown
	Rate   float64
	Left   time.Duration // -1: unknown
	Open   bool          // there is something left to read
	Reason string        // why it waits
}

const (
	drawEvery = 200 * time.Millisecond
	logEvery  = 10 * time.Second
	most      = 8 // bars shown at once
)

// Bars shows the tables of any number of connectors. On a terminal it is also the writer of the log, whose lines appear above
// the bars.
type Bars struct {
	out   io.Writer
	width int // of the terminal; 0: there is none
	log   *slog.Logger
	now   func() time.Time
	// columns asks for the width anew; nil: it does not change.
	columns func() int

	mu     sync.Mutex
	tables map[string][]Table // by connector
	paused map[string]bool
	said   map[string]time.Time // when a table that is open was last told of
	lines  []string             // on the screen

	stop chan struct{}
	done chan struct{}
}

// NewBars returns bars on a terminal that is as wide as columns says at any time; nil: there is none, and progress goes to the
// log instead. Close ends them.
func NewBars(out io.Writer, columns func() int) *Bars {
	b := newBars(out, 0)
	if b.columns = columns; columns != nil {
		b.width = columns()
	}
	go b.run()
	return b
}

func newBars(out io.Writer, width int) *Bars {
	return &Bars{out: out, width: width, now: time.Now, log: slog.New(slog.DiscardHandler), tables: map[string][]Table{}, paused: map[string]bool{},
		said: map[string]time.Time{}, stop: make(chan struct{}), done: make(chan struct{})}
}

// Log sets where progress goes where there is no terminal.
func (b *Bars) Log(log *slog.Logger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = log
}

// Show takes over how far a connector's tables have come. It does not wait for the terminal's output.
func (b *Bars) Show(connector string, paused bool, tables []Table) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tables[connector], b.paused[connector] = tables, paused
}

func (b *Bars) run() {
	defer close(b.done)
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.refresh()
		case <-b.stop:
			b.clear()
			return
		}
	}
}

// Close removes the bars.
func (b *Bars) Close() {
	close(b.stop)
	<-b.done
}

// Write writes lines above the bars.
func (b *Bars) Write(p []byte) (int, error) {
	if b.width == 0 {
		return b.out.Write(p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.draw(string(p), b.lines); err != nil {
		return 0, err
	}
	return len(p), nil
}

// refresh draws the bars anew and logs what is due.
func (b *Bars) refresh() {
	var due [][]any
	b.mu.Lock()
	var lines []string
	now, log := b.now(), b.log
	if b.columns != nil && len(b.said) > 0 {
		b.width = max(b.columns(), 20)
	}
	for _, connector := range slices.Sorted(maps.Keys(b.tables)) {
		tables := slices.Clone(b.tables[connector])
		slices.SortFunc(tables, func(x, y Table) int { return strings.Compare(x.Name, y.Name) })
		for _, t := range tables {
			key := connector + "\x00" + t.Name
			if !t.Open {
				delete(b.said, key)
				continue
			}
			if b.said[key].IsZero() {
				b.said[key] = now
			}
			if b.width > 0 {
				lines = append(lines, b.bar(b.label(connector, t.Name), t, b.paused[connector]))
			} else if now.Sub(b.said[key]) >= logEvery {
				b.said[key] = now
				due = append(due, progress(connector, t, b.paused[connector]))
			}
		}
	}
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most:most], fmt.Sprintf("and %d more tables", more))
	}
	if b.width > 0 && !slices.Equal(lines, b.lines) {
		_ = b.draw("", lines)
	}
	b.mu.Unlock()
	for _, args := range due {
		log.Info("a table is being read", args...)
	}
}

func progress(connector string, t Table, paused bool) []any {
	args := []any{"connector", connector, "table", t.Name, "rows", t.Rows}
	if t.Total >= 0 {
		args = append(args, "of", t.Total)
	}
	args = append(args, "rate", int64(t.Rate))
	if t.Left >= 0 && t.Total >= 0 {
		args = append(args, "left", Span(t.Left))
	}
	switch {
	case paused:
		args = append(args, "reason", "paused")
	case t.Reason != "":
		args = append(args, "reason", t.Reason)
	}
	return args
}

func (b *Bars) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.width > 0 {
		_ = b.draw("", nil)
	}
}

// draw replaces what is on the screen by text and the lines, in one write.
func (b *Bars) draw(text string, lines []string) error {
	var s strings.Builder
	if n := len(b.lines); n > 0 {
		fmt.Fprintf(&s, "\x1b[%dA\r\x1b[J", n)
	}
	s.WriteString(text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		s.WriteByte('\n')
	}
	for _, l := range lines {
		s.WriteString(l)
		s.WriteByte('\n')
	}
	b.lines = lines
	_, err := io.WriteString(b.out, s.String())
	return err
}

func (b *Bars) label(connector, table string) string {
	if len(b.tables) > 1 {
		return connector + " " + table
	}
	return table
}

// bar is one line: name, bar, share, rows, rate, time left.
func (b *Bars) bar(name string, t Table, paused bool) string {
	const names, filled = 28, 24
	if r := []rune(name); len(r) > names {
		name = "…" + string(r[len(r)-names+1:])
	}
	text := fmt.Sprintf("%-*s", names, name)
	if t.Total > 0 {
		share := min(1, float64(t.Rows)/float64(t.Total))
		n := int(share * filled)
		text += fmt.Sprintf(" [%s%s] %3d%% %s of about %s rows", strings.Repeat("=", n), strings.Repeat(" ", filled-n), int(share*100), Thousands(t.Rows), Thousands(t.Total))
	} else {
		text += " " + Thousands(t.Rows) + " rows"
	}
	switch {
	case paused:
		text += ", paused"
	case t.Reason != "":
		text += ", " + t.Reason
	default:
		text += fmt.Sprintf(", %s/s", Thousands(int64(t.Rate)))
		if t.Left >= 0 && t.Total > 0 {
			text += ", " + Span(t.Left) + " left"
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if r := []rune(text); len(r) >= b.width { // a wrapped line would be two
		text = string(r[:max(0, b.width-2)]) + "…"
	}
	return text
}

// Span is a duration for people: 850ms, 12s, 3m05s, 2h10m.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// Thousands is a number with commas: 1,234,567.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
