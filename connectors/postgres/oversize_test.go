package postgres

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// A message larger than the limit blocks with table and size, before memory is taken for it; one of a table that is not
// captured passes by. Case 60.
func TestOversizedMessages(t *testing.T) {
	huge := strings.Repeat("secret", 1<<20)
	for name, tc := range map[string]struct {
		write func(s *script)
		want  string
	}{
		"insert":      {func(s *script) { s.insert(1, "1", "1", huge) }, "table public.a: a change (insert) has 6291"},
		"both images": {func(s *script) { s.update(2, 'O', []string{"1", "1", huge}, "1", "2", huge) }, "table public.f: a change (update) has 12582"},
		"message": {func(s *script) {
			s.wal(append([]byte("M\x01\x00\x00\x00\x00\x00\x00\x00\x07app\x00\x00\x60\x00\x00"), huge...))
		}, "a logical message has 6291"},
		"hidden key": {func(s *script) { s.update(4, 'K', []string{"1", null}, "1", huge) }, "table public.hidden: a change (update)"},
		"hidden": {func(s *script) {
			s.insert(4, "1", huge)
			s.update(4, 0, nil, "1", huge)
			s.update(5, 'O', []string{"1", huge}, "1", "2")
			s.delete(5, 'O', "1", huge)
		}, ""},
		"other, first": {func(s *script) { s.message('N', []byte("S"+huge)) }, "a message of the log has 6291"},
	} {
		s := &script{}
		s.begin(0x100, 7)
		describeWorld(s)
		s.insert(1, "1", "1", "x")
		tc.write(s)
		s.insert(1, "2", "1", "x")
		s.commit()
		r := newRig(t, &s.buf, 0, world(), hide, Options{})
		r.wire.limit = 1 << 20
		got, err := r.drain(true)
		if len(r.wire.buf) > 2<<20 {
			t.Errorf("%s: the buffer grew to %d bytes", name, len(r.wire.buf))
		}
		if tc.want == "" {
			want := []string{`{"lsn":"0/100"} 0 c public.a v1 after(1,1,x)`, `{"lsn":"0/100"} 5 c public.a v1 after(2,1,x)`, "boundary 0/130"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), propMaxMessage) || connectors.ClassOf(err) != connectors.ClassBlock || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v (%s), want …%s…", name, err, connectors.ClassOf(err), tc.want)
		}
		if len(got) > 0 {
			t.Errorf("%s: handed out %v", name, got)
		}
	}
}

// What was published before a restart passes by whole; a message has no table to exclude.
func TestOversizedLogicalMessage(t *testing.T) {
	s := &script{}
	s.begin(0x100, 7)
	describeWorld(s)
	s.wal(append([]byte("M\x01\x00\x00\x00\x00\x00\x00\x00\x07app\x00\x00\x60\x00\x00"), strings.Repeat("secret", 1<<20)...))
	s.commit()
	for after, blocks := range map[uint64]bool{0x130: false, 0: true} {
		r := newRig(t, bytes.NewBuffer(s.buf.Bytes()), after, world(), hide, Options{})
		r.wire.limit = 1 << 20
		got, err := r.drain(true)
		if len(got) > 0 || blocks != (connectors.ClassOf(err) == connectors.ClassBlock) || blocks && strings.Contains(err.Error(), "table") {
			t.Errorf("after %x: %v, %v", after, got, err)
		}
	}
}

func TestOversizedOnServers(t *testing.T) {
	onEach(t, func(p *pgtest) {
		p.raw[propMaxMessage] = "1048576"
		p.raw[propTableInclude] = "public.a"
		p.sql("CREATE TABLE a(id int PRIMARY KEY, n int, big text)", "ALTER TABLE a REPLICA IDENTITY FULL", "CREATE TABLE b(id int PRIMARY KEY, big text)")
		s := p.open(Options{})
		p.sql("BEGIN; INSERT INTO b SELECT 1, repeat('x', 3000000); INSERT INTO a SELECT 1, 0, repeat('x', 700000); COMMIT", "UPDATE a SET n = 1, big = repeat('y', 700000)")
		err := p.consume(s, func(connectors.Batch, bool) error { return nil })
		p.wantError(err, connectors.ClassBlock, "table public.a: a change (update) has 14")
		if len(p.lines) != 1 || !strings.HasPrefix(p.lines[0], "1 c public.a") {
			p.Errorf("published %.60q", p.lines)
		}
		_ = s.Close(p.ctx)
		p.raw[propMaxMessage] = "16777216" // the way out
		p.until(p.open(Options{}), 2)
	})
}
