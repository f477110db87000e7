package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/integration/docs"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
)

// TestRowIsASignal: a row inserted in the signal table is a signal once its transaction is published, neither earlier nor lost: what it
// asks for is stored with that transaction. Other changes, other tables and rows that are no signals are passed.
func TestRowIsASignal(t *testing.T) {
	for kill := range 6 {
		d := still(10, "signals", "b")
		insert := func(table, id int, v, big string, op connectors.Op) change {
			return change{op: op, t: table, id: id, row: row{v, big}}
		}
		all := `{"data-collections":["public.b"]}`
		for _, changes := range [][]change{
			{insert(1, 101, signal.TypeExecute, all, 'c')},                                                 // another table
			{insert(0, 102, "nonsense", all, 'c'), insert(0, 103, signal.TypeExecute, "{", 'c')},           // no signals
			{insert(0, 104, signal.TypeExecute, all, 'u')},                                                 // not inserted
			{insert(0, 105, signal.TypePause, "", 'c'), insert(0, 106, signal.TypeResume, `{"a":1}`, 'c')}, // two at once
			{insert(0, 107, signal.TypeExecute, all, 'c')},
		} {
			d.nextID++
			tx := &txn{id: d.nextID, changes: changes, after: map[[2]int]*row{}, logged: true, visible: true}
			for _, c := range changes {
				d.vis[c.t][c.id], d.cur[c.t][c.id] = c.row, c.row
				r := c.row
				tx.after[[2]int{c.t, c.id}] = &r
			}
			d.log = append(d.log, tx)
		}
		p := newTopic(t, d)
		p.put(offsets.Entry{Partition: offsets.StreamPartition(server), Offset: boundary(0)})
		p.put(offsets.Entry{Partition: offsets.GenerationPartition(server), Offset: offsets.Generation{Number: 1}.Object()})
		cfg := small()
		cfg.SignalTable = "PUBLIC.signals"
		taken := func(s *Source) bool {
			if s.partial && len(s.state.Executed) > 2 {
				t.Fatal("a signal was taken before its transaction ended")
			}
			n := len(s.state.Executed)
			return n > 0 && s.state.Executed[n-1] == "107" && !s.partial
		}
		p.life(cfg, newFake(d), 0, taken) // ends with the very batch that has the row
		p.commit()
		if stored, err := ReadStored(server, p.stored()); err != nil || strings.Join(stored.Executed, " ") != "105 106 107" || len(stored.Queued) != 1 {
			t.Fatalf("stored: %+v %v", stored, err)
		}
		p.kill()
		worked := func(s *Source) bool {
			return len(s.state.Requests) == 0 && !s.dirty && !s.tables["public.b"].progress.Open()
		}
		stop := after(kill)
		p.life(cfg, newFake(d), 1, func(s *Source) bool { return stop(s) || worked(s) })
		p.commit()
		p.kill()
		p.life(cfg, newFake(d), 2, worked)
		p.commit()
		if n := p.reads(); len(n) != 1 || n["public.b 107"] != 11 {
			t.Errorf("kill %d: rows read: %v", kill, n)
		}
		stored, err := ReadStored(server, p.stored())
		if err != nil || len(stored.Tables) != 1 || stored.Tables[0].State != offsets.SnapshotDone || stored.Tables[0].Rows != 11 || stored.Paused || len(stored.Queued) != 0 {
			t.Errorf("stored: %+v %v", stored, err)
		}
	}
}

// The documented entry of requests is as it is stored.
func TestDocumentedRequests(t *testing.T) {
	s := New(Config{Server: "shop"}, newFake(still(1, "a")))
	defer func() { _ = s.Close(t.Context()) }()
	s.state = state{
		Requests: []request{{ID: "4711", Type: signal.TypeExecute, Tables: []wanted{{"public.orders", "region = 'EU'"}}}},
		Executed: []string{"4710", "4711"}, Cursors: map[string]string{signal.ChannelKafka: "17"},
		Outcomes: []Outcome{{ID: "4710", Type: signal.TypePause, At: 1796000000000}}, Paused: true,
	}
	e := s.entry()
	docs.Section(t, "docs/formats.md", "requests entry", fmt.Sprintf("```json\n%s\n%s\n```\n", offsets.AppendKey(nil, "shop", e.Partition), e.Offset))
}
