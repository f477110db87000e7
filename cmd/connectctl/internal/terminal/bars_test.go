package terminal

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen is a terminal that knows what Bars writes: text, line ends, carriage return, cursor up, clear to the end.
type screen struct {
	mu    sync.Mutex
	rows  []string
	row   int
	col   int
	width int
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := []rune(string(p))
	for i := 0; i < len(text); i++ {
		for len(s.rows) <= s.row {
			s.rows = append(s.rows, "")
		}
		switch r := text[i]; {
		case r == '\n':
			s.row, s.col = s.row+1, 0
		case r == '\r':
			s.col = 0
		case r == 0x1b:
			end := i + 2
			for text[end] >= '0' && text[end] <= '9' {
				end++
			}
			n, _ := strconv.Atoi(string(text[i+2 : end]))
			switch text[end] {
			case 'A':
				s.row = max(0, s.row-n)
			case 'J':
				s.rows = s.rows[:s.row+1]
				s.rows[s.row] = string([]rune(s.rows[s.row])[:s.col])
			default:
				return 0, fmt.Errorf("unknown sequence %q", string(text[i:end+1]))
			}
			i = end
		default:
			line := []rune(s.rows[s.row])
			if s.col >= s.width {
				return 0, fmt.Errorf("the line wraps: %s", string(line))
			}
			s.rows[s.row] = string(append(line[:s.col:s.col], r))
			s.col++
		}
	}
	return len(p), nil
}

func (s *screen) expect(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.rows
	for len(got) > 0 && got[len(got)-1] == "" {
		got = got[:len(got)-1]
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("the screen shows\n%s\nwant\n%s", g, w)
	}
}

// plain is a log without times.
func plain(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestBarsOnATerminal: bars are redrawn in place below the log, and vanish with their tables.
func TestBarsOnATerminal(t *testing.T) {
	s := &screen{width: 100}
	b := newBars(s, 100)
	log := plain(b)
	b.Log(log)
	log.Info("before")
	s.expect(t, "msg=before")
	rows := []Table{
		{Name: "public.orders", Rows: 450_000, Total: 1_000_000, Rate: 52_123.4, Left: 11 * time.Second, Open: true},
		{Name: "public.customers", Rows: 12, Total: -1, Rate: 3, Left: -1, Open: true},
		{Name: "public.of_an_earlier_run", Rows: 5},
	}
	b.Show("shop", false, rows)
	b.refresh()
	customers, orders := "public.customers             12 rows, 3/s", "public.orders                [==========              ]  45% 450,000 of about 1,000,000 rows, 52,1…"
	s.expect(t, "msg=before", customers, orders)
	log.Info("between")
	s.expect(t, "msg=before", "msg=between", customers, orders)
	b.width, s.width = 140, 140
	b.refresh()
	orders = strings.TrimSuffix(orders, "…") + "23/s, 11s left"
	s.expect(t, "msg=before", "msg=between", customers, orders)
	rows[1].Open = false
	rows[0].Rows = 1_200_000 // more than was estimated
	rows[0].Left = 0
	b.Show("shop", true, rows)
	b.refresh()
	s.expect(t, "msg=before", "msg=between", "public.orders                [========================] 100% 1,200,000 of about 1,000,000 rows, paused")
	rows[0].Reason = "waits for\npid\x1b7"
	b.Show("shop", false, rows)
	b.Show("other", false, []Table{{Name: "sales.a_table_with_quite_a_long_name", Total: 0, Open: true}})
	b.refresh()
	s.expect(t, "msg=before", "msg=between",
		label("other sales.a_table_with_quite_a_long_name")+" 0 rows, 0/s",
		"shop public.orders           [========================] 100% 1,200,000 of about 1,000,000 rows, waits for pid 7")
	var many []Table
	for i := range 20 {
		many = append(many, Table{Name: fmt.Sprintf("t%02d", i), Total: -1, Open: true})
	}
	b.Show("other", false, nil)
	b.Show("shop", false, many)
	b.refresh()
	if got := b.lines; len(got) != most+1 || got[most] != "and 12 more tables" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
	b.clear()
	s.expect(t, "msg=before", "msg=between")
}

// label is a name as wide as names are, cut at its left.
func label(name string) string {
	r := []rune(name)
	return "…" + string(r[len(r)-27:])
}

// TestProgressInTheLog: without a terminal there is a line every ten seconds for each table.
func TestProgressInTheLog(t *testing.T) {
	var out bytes.Buffer
	b := newBars(&out, 0)
	b.Log(plain(b))
	now := time.Unix(1000, 0)
	b.now = func() time.Time { return now }
	show := func(rows int64, open bool) {
		b.Show("shop", false, []Table{{Name: "public.a", Rows: rows, Total: 300, Rate: 10, Left: 95 * time.Second, Open: open}})
		b.refresh()
	}
	for i := range int64(25) {
		show(10*i, true)
		now = now.Add(time.Second)
	}
	show(300, false)
	show(300, false)
	want := `msg="a table is being read" connector=shop table=public.a rows=100 of=300 rate=10 left=1m35s
msg="a table is being read" connector=shop table=public.a rows=200 of=300 rate=10 left=1m35s
`
	if out.String() != want {
		t.Errorf("log\n%swant\n%s", out.String(), want)
	}
}

// TestBarsEnd: Close leaves no bar.
func TestBarsEnd(t *testing.T) {
	s := &screen{width: 200}
	b := NewBars(s, func() int { return 200 })
	b.Log(plain(b))
	b.Show("shop", false, []Table{{Name: "public.a", Total: -1, Open: true}})
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		drawn := len(b.lines) == 1
		b.mu.Unlock()
		if drawn {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no bar was drawn")
		}
	}
	b.Close()
	s.expect(t)
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 1234567: "1,234,567"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", 850 * time.Millisecond: "850ms", 12300 * time.Millisecond: "12s", 185 * time.Second: "3m05s", 130 * time.Minute: "2h10m"} {
		if got := Span(d); got != want {
			t.Errorf("%v is %s", d, got)
		}
	}
}
