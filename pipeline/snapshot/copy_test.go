package snapshot

import (
	"math/rand"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/schema"
)

// keyless makes a database with a table without a key beside one with a key, and a workload.
func keyless(seed int64) *database {
	d := newDatabase(seed, newTable("k", true), newTable("a", false))
	d.calm = true
	d.fill(20)
	d.steps = 200
	return d
}

// bag counts a keyless table's rows after its last copy: everything published before it is left out.
func (p *topic) bag(name, of string, life int) map[string]int {
	at := -1
	for i, r := range p.records {
		if r.table == name && r.op == connectors.OpRead && r.life == life && r.of == of {
			at = i
			break
		}
	}
	bag := map[string]int{}
	for i, r := range p.records {
		if i < at || r.table != name {
			continue
		}
		n := 1
		if r.op == connectors.OpDelete {
			n = -1
		}
		k := strconv.Itoa(r.id) + r.row.v + r.row.big
		if bag[k] += n; bag[k] == 0 {
			delete(bag, k)
		}
	}
	return bag
}

// TestCopyIsAtItsPlace: the rows of a copy stand exactly where the table was like that: what is published from there on, and they,
// make up the table. An interrupted copy begins anew.
func TestCopyIsAtItsPlace(t *testing.T) {
	from, to := seeds(t)
	for seed := from; seed < from+(to-from)/5; seed++ {
		rng := rand.New(rand.NewSource(seed))
		d := keyless(seed)
		p := newTopic(t, d)
		cfg := small()
		lives := 1 + rng.Intn(3)
		for life := range lives {
			stop := after(rng.Intn(20))
			p.life(cfg, newFake(d), life, func(s *Source) bool {
				return life < lives-1 && stop(s) || d.over() && p.done(s)
			})
			if rng.Intn(2) == 0 || life == lives-1 {
				p.commit()
			}
		}
		last := -1
		for _, r := range p.records {
			if r.op == connectors.OpRead && r.table == "public.k" {
				last = r.life
			}
		}
		want := map[string]int{}
		for id, r := range d.vis[0] {
			want[strconv.Itoa(id)+r.v+r.big]++
		}
		got := p.bag("public.k", KindInitial, last)
		for k, n := range want {
			if got[k] != n {
				t.Errorf("seed %d: row %s is there %d times, should be %d", seed, k, got[k], n)
			}
		}
		for k, n := range got {
			if want[k] == 0 {
				t.Errorf("seed %d: row %s is there %d times, should not", seed, k, n)
			}
		}
		if pr := p.progress("public.k"); pr.State != offsets.SnapshotDone {
			t.Errorf("seed %d: %+v", seed, pr)
		}
		p.check("seed " + strconv.FormatInt(seed, 10))
	}
}

// TestCopyStops: a stop in the middle of a copy lets the stream go on.
func TestCopyStops(t *testing.T) {
	d := keyless(1)
	ch := newChannel()
	p := newTopic(t, d)
	p.put(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: boundary(0)})
	p.put(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1}.Object()})
	ch.send("1", "execute-snapshot", `{"data-collections":["public.k"]}`)
	cfg := small()
	cfg.Channels = append(cfg.Channels, ch)
	p.life(cfg, newFake(d), 0, func(s *Source) bool {
		if len(ch.list) == 1 && s.tables["public.k"].progress.Rows > 0 {
			ch.send("2", "stop-snapshot", "")
			waitFor(t, func() bool { return s.received("2") })
		}
		return len(ch.list) == 2 && d.over() && p.worked(s, ch)
	})
	p.commit()
	if pr := p.progress("public.k"); pr.State != offsets.SnapshotStopped {
		t.Errorf("%+v", pr)
	}
}

// waitFor waits for a condition.
func waitFor(t *testing.T, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !f(); {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to it within 10 s")
		}
		runtime.Gosched()
	}
}

// BenchmarkExported: rows of an exported snapshot through the engine.
func BenchmarkExported(b *testing.B) {
	def := newTable("a", false)
	rows := make([]schema.Row, 1024)
	for i := range rows {
		rows[i] = values(i+1, row{"v", "big"})
	}
	s := New(Config{Log: quiet()}, newFake(newDatabase(1, def)))
	t := &table{name: "public.a", def: def, exported: true}
	s.tables["public.a"], s.order = t, []*table{t}
	s.exported = &exported{pos: pos(0)}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		s.rows = connectors.ExportedRows{Table: def, Rows: rows}
		batch, _, err := s.nextExported(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		n += len(batch.Changes)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}
