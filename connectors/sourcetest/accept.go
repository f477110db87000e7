package sourcetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// Harness connects the acceptance suite with a real source.
type Harness struct {
	// New returns a source that was not opened. It is called again for every reopening.
	New func(t *testing.T) connectors.Source
	// Commit makes the database commit one transaction with n row changes of captured tables.
	Commit func(t *testing.T, n int)
	// Entries returns what would be stored once boundary is published; nil: nothing is stored yet.
	Entries func(boundary offsets.Object) []offsets.Entry
	// Timeout bounds the wait for each batch; default 20 s.
	Timeout time.Duration
}

// Accept runs the suite: what the pipeline relies on, whatever the engine. setup is called for
// every test and gives it a stream of its own, of which nothing is stored or acknowledged.
func Accept(t *testing.T, setup func(t *testing.T) Harness) {
	tests := []struct {
		name string
		run  func(*Harness, *testing.T)
	}{
		{"resume repeats positions", (*Harness).resume},
		{"resume skips what is stored", (*Harness).skip},
		{"ordinals count from zero", (*Harness).ordinals},
		{"acknowledge while Next waits", (*Harness).ackWhileWaiting},
		{"cancel ends Next", (*Harness).cancel},
		{"close ends Next", (*Harness).close},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := setup(t)
			if h.Timeout == 0 {
				h.Timeout = 20 * time.Second
			}
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			test.run(&h, t)
		})
	}
}

// tx is a transaction as read.
type tx struct {
	pos      string
	changes  []string
	boundary offsets.Object
}

// opened opens a source after boundary and closes it with the test.
func (h *Harness) opened(t *testing.T, boundary offsets.Object) (connectors.Source, offsets.Object) {
	t.Helper()
	s := h.New(t)
	var stored []offsets.Entry
	if boundary != nil {
		stored = h.Entries(boundary)
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.Timeout)
	defer cancel()
	o, err := s.Open(ctx, stored)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s, o.Boundary
}

func (h *Harness) closeSource(t *testing.T, s connectors.Source) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), h.Timeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// read reads n transactions with changes.
func (h *Harness) read(t *testing.T, s connectors.Source, n int) []tx {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), h.Timeout)
	defer cancel()
	var out []tx
	var cur tx
	for len(out) < n {
		b, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("next, after %d of %d transactions: %v", len(out), n, err)
		}
		if cur.pos != "" && b.Tx.Pos != cur.pos {
			t.Fatalf("transaction %s begins before %s has ended", b.Tx.Pos, cur.pos)
		}
		for _, c := range b.Changes {
			cur.changes = append(cur.changes, fmt.Sprintf("%c %s %d", c.Op, c.Table.QualifiedName(), c.Seq))
			if c.Op != connectors.OpDelete && c.After == nil || c.Op == connectors.OpDelete && c.Before == nil {
				t.Fatalf("change %d of %s has no row to take its key from", c.Seq, b.Tx.Pos)
			}
		}
		if len(b.Changes) > 0 {
			cur.pos = b.Tx.Pos
		}
		if !b.Last {
			continue
		}
		if b.Boundary == nil {
			t.Fatalf("the end of transaction %s has no boundary", b.Tx.Pos)
		}
		if len(cur.changes) > 0 {
			cur.boundary = append(offsets.Object(nil), b.Boundary...)
			out = append(out, cur)
		}
		cur = tx{}
	}
	return out
}

func (h *Harness) resume(t *testing.T) {
	s, start := h.opened(t, nil)
	for n := 1; n <= 3; n++ {
		h.Commit(t, n)
	}
	first := h.read(t, s, 3)
	h.closeSource(t, s)
	s, _ = h.opened(t, start)
	defer h.closeSource(t, s)
	if again := h.read(t, s, 3); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("read again from the same boundary:\n%v\nfirst:\n%v", again, first)
	}
}

func (h *Harness) skip(t *testing.T) {
	s, _ := h.opened(t, nil)
	for n := 1; n <= 3; n++ {
		h.Commit(t, n)
	}
	all := h.read(t, s, 3)
	h.closeSource(t, s)
	s, _ = h.opened(t, all[0].boundary)
	defer h.closeSource(t, s)
	if rest := h.read(t, s, 2); fmt.Sprint(rest) != fmt.Sprint(all[1:]) {
		t.Errorf("after the first transaction's boundary:\n%v\nwant:\n%v", rest, all[1:])
	}
}

func (h *Harness) ordinals(t *testing.T) {
	s, _ := h.opened(t, nil)
	defer h.closeSource(t, s)
	h.Commit(t, 1000)
	got := h.read(t, s, 1)[0]
	if len(got.changes) != 1000 {
		t.Fatalf("%d changes, want 1000", len(got.changes))
	}
	last := int64(-1)
	for i, c := range got.changes {
		var op, table string
		var seq int64
		if _, err := fmt.Sscan(c, &op, &table, &seq); err != nil {
			t.Fatal(err)
		}
		if seq <= last || i == 0 && seq != 0 {
			t.Fatalf("change %d has ordinal %d after %d", i, seq, last)
		}
		last = seq
	}
}

// waiting starts a Next that has nothing to return but boundaries, and gives its error.
func waiting(ctx context.Context, s connectors.Source) <-chan error {
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := s.Next(ctx); err != nil {
				done <- err
				return
			}
		}
	}()
	return done
}

func (h *Harness) ended(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(h.Timeout):
		t.Fatal("Next did not return")
		return nil
	}
}

func (h *Harness) ackWhileWaiting(t *testing.T) {
	s, _ := h.opened(t, nil)
	h.Commit(t, 1)
	boundary := h.read(t, s, 1)[0].boundary
	done := waiting(context.Background(), s)
	if err := s.Ack(context.Background(), boundary); err != nil {
		t.Errorf("acknowledge: %v", err)
	}
	h.closeSource(t, s)
	_ = h.ended(t, done)
}

func (h *Harness) cancel(t *testing.T) {
	s, _ := h.opened(t, nil)
	defer h.closeSource(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	done := waiting(ctx, s)
	cancel()
	if err := h.ended(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("Next returned %v, want context.Canceled in its chain", err)
	}
}

func (h *Harness) close(t *testing.T) {
	s, _ := h.opened(t, nil)
	done := waiting(context.Background(), s)
	h.closeSource(t, s)
	if err := h.ended(t, done); err == nil {
		t.Error("Next returned no error after Close")
	}
}
