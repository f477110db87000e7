package postgres

import (
	"errors"
	"testing"
	"time"
)

// A server is silent when a question has been open for the time while the reader waited all along and nothing came.
func TestSilence(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		reading bool
		open    func(second int) bool
		heard   func(second int) bool
		want    int // second at which it is told, -1: never
	}{
		"answered":         {true, func(s int) bool { return s < 10 }, nil, -1},
		"never answered":   {true, func(int) bool { return true }, nil, 30},
		"asked later":      {true, func(s int) bool { return s >= 20 }, nil, 50},
		"data comes":       {true, func(int) bool { return true }, func(s int) bool { return s%20 == 15 }, -1},
		"reader held back": {false, func(int) bool { return true }, nil, -1},
	} {
		t.Run(name, func(t *testing.T) {
			var q silence
			q.reading.Store(c.reading)
			told := -1
			for s := range 100 {
				now := start.Add(time.Duration(s) * time.Second)
				if c.heard != nil && c.heard(s) {
					q.heard.Store(now.UnixNano())
				}
				if silent, changed := q.look(now, c.open(s)); silent && changed {
					told = s
				}
			}
			if told != c.want {
				t.Errorf("told at %d, want %d", told, c.want)
			}
			if told >= 0 {
				q.reading.Store(false)
				if silent, changed := q.look(start.Add(100*time.Second), true); !silent || changed {
					t.Error("a reader that looks elsewhere ended it")
				}
				if silent, changed := q.look(start.Add(101*time.Second), false); silent || !changed {
					t.Error("the answer was not told")
				}
			}
		})
	}
}

func TestSilenceCountsOnlyBytes(t *testing.T) {
	var q silence
	if err := q.wait(func() error { return errors.New("deadline") }); err == nil || q.heard.Load() != 0 || q.reading.Load() {
		t.Error("a read without bytes counts")
	}
	if err := q.wait(func() error { return nil }); err != nil || q.heard.Load() == 0 {
		t.Error("bytes do not count")
	}
}
