package watch

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Screen writes lines for people. On a terminal its last line is a status that is redrawn in place; else
// every status is a line of its own. It is safe for concurrent use.
type Screen struct {
	mu     sync.Mutex
	out    io.Writer
	tty    bool
	width  int
	status string
	start  time.Time
}

// NewScreen returns a screen of so many columns; width matters on a terminal only.
func NewScreen(out io.Writer, tty bool, width int) *Screen {
	return &Screen{out: out, tty: tty, width: max(width, 40), start: time.Now()}
}

// Say writes one line with the seconds since the start before it.
func (s *Screen) Say(format string, args ...any) {
	s.line(fmt.Sprintf("%5.1fs  ", time.Since(s.start).Seconds()) + fmt.Sprintf(format, args...))
}

// Plain writes lines as they are.
func (s *Screen) Plain(text string) { s.line(text) }

func (s *Screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tty && s.status != "" {
		_, _ = fmt.Fprintf(s.out, "\r\x1b[K%s\n%s", text, s.status)
		return
	}
	_, _ = fmt.Fprintln(s.out, text)
}

// Status shows the state of things now; "" ends the status line.
func (s *Screen) Status(text string) {
	if !s.tty {
		if text != "" {
			s.Say("%s", text)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := []rune(text); len(r) >= s.width {
		text = string(r[:s.width-1])
	}
	s.status = text
	_, _ = fmt.Fprintf(s.out, "\r\x1b[K%s", text)
}

// Shorten cuts a decoded record to what fits a line.
func (s *Screen) Shorten(text string) string {
	limit := max(s.width-12, 40)
	text = strings.ReplaceAll(text, "\n", " ")
	if r := []rune(text); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return text
}
