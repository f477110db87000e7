package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/check"
	"github.com/tidemark-cdc/tidemark/offsets"
	"github.com/tidemark-cdc/tidemark/pipeline/signal"
	"github.com/tidemark-cdc/tidemark/pipeline/signal/kafkasignal"
	"github.com/tidemark-cdc/tidemark/pipeline/verify"
)

// rowsBefore are there before a stream that begins with its tables' rows.
var rowsBefore = []string{
	`INSERT INTO keyed SELECT g, 0, 'before' FROM generate_series(1, 400) g`,
	`INSERT INTO pair SELECT (g % 7)::text, g % 60, 1, g FROM generate_series(1, 300) g ON CONFLICT DO NOTHING`,
	`INSERT INTO toast SELECT g, 0, repeat('b', 3000) FROM generate_series(1, 50) g; INSERT INTO wholly SELECT * FROM toast`,
	`INSERT INTO keyless SELECT g % 20, 'before' FROM generate_series(1, 100) g`,
	`INSERT INTO parted SELECT g % 40, g, 'before' FROM generate_series(0, 199) g`,
	`INSERT INTO evolving SELECT g, 0 FROM generate_series(1, 80) g`,
	`INSERT INTO bulk SELECT g, md5(g::text) FROM generate_series(1, 8000) g`,
}

// reading makes snapshots take long enough to be struck: chunks are small, and their rate is limited.
var reading = map[string]string{"incremental.snapshot.chunk.size": "200", "snapshot.max.rows.per.second": "6000"}

// reads is what of a round's load are snapshots; it follows from the round's seed, as everything does.
type reads struct {
	first  bool     // the stream, should one begin in this round, begins with the tables' rows
	kills  int      // of the worker while it begins so
	tables []string // that are read on demand
}

func (l *lab) reads(seed uint64) (r reads) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	r.first, r.kills = rnd.IntN(3) == 0, max(0, rnd.IntN(5)-2)
	if rnd.IntN(4) != 0 {
		return r
	}
	names := slices.Sorted(maps.Keys(tables))
	rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	r.tables = names[:1+rnd.IntN(3)]
	return r
}

// begin starts the worker of a stream that begins with the tables' rows, and kills it some times on the way.
func (l *lab) begin(s *stream, kills int, seed uint64) {
	l.sql("SELECT pg_create_logical_replication_slot('" + s.Judge + "', 'pgoutput')")
	rnd := rand.New(rand.NewPCG(seed, 3))
	s.w = s.Start()
	for range kills {
		l.awhile(rnd, 900)
		l.report.struck("worker killed while it begins with the tables' rows")
		l.again()
	}
	var text string
	there := l.eventually(soon, func() bool {
		l.query(&text, "SELECT max(confirmed_flush_lsn)::text FROM pg_replication_slots WHERE slot_name = '"+s.Name+"'")
		return text != "" || s.w.Ended()
	})
	if !there || text == "" {
		s.sc.Fatalf("a stream that begins with the tables' rows makes no slot: %s; its log:\n  %s", s.w.Message(), strings.Join(s.w.Log(12), "\n  "))
	}
	s.snapshots.expect("", slices.Collect(maps.Keys(tables)))
}

// ask has tables read on demand.
func (l *lab) ask(seed uint64, names []string) {
	if len(names) == 0 {
		return
	}
	s := l.st
	var e signal.Execute
	for _, name := range names {
		e.Collections = append(e.Collections, "public."+name)
	}
	data, err := json.Marshal(e)
	if err != nil {
		l.sc.Fatal(err)
	}
	id := fmt.Sprintf("%d-%d", seed, s.rounds)
	ctx, cancel := context.WithTimeout(l.ctx, soon)
	defer cancel()
	_, err = kafkasignal.Send(ctx, []kgo.Opt{kgo.SeedBrokers(l.kafka.Bootstrap())}, s.Name+"-signal", s.Name, signal.Signal{ID: id, Type: signal.TypeExecute, Data: data})
	if err != nil {
		if l.ctx.Err() == nil {
			l.sc.Fatalf("ask for a snapshot: %v", err)
		}
		return
	}
	l.report.read(len(names))
	s.snapshots.expect(id, names)
}

// snapshots follows how far a stream's snapshots are.
type snapshots struct {
	f       *check.Follower
	seen    map[string]offsets.Progress // by table
	wanted  map[string]string           // the id of the snapshot that a table must have in the end; empty: whichever
	keyless bool                        // keyless was read, which an interruption may repeat
}

func newSnapshots(seeds ...string) *snapshots {
	return &snapshots{f: check.NewFollower(seeds...), seen: map[string]offsets.Progress{}, wanted: map[string]string{}}
}

func (p *snapshots) expect(id string, names []string) {
	for _, name := range names {
		p.wanted[name] = id
		p.keyless = p.keyless || tables[name] == nil
	}
}

// over tells whether all that were asked for have ended; bad says which ended wrongly.
func (p *snapshots) over(ctx context.Context, adm *kadm.Client, topic string) (over bool, bad string, err error) {
	if len(p.wanted) == 0 {
		return true, "", nil
	}
	err = p.f.Read(ctx, adm, p.record, topic)
	if err != nil {
		return false, "", err
	}
	over = true
	for name, id := range p.wanted {
		switch at := p.seen[name]; {
		case id != "" && at.ID != id || at.State == "" || at.Open():
			over = false
		case at.State != offsets.SnapshotDone:
			bad += fmt.Sprintf("; of %s it is %s: %s", name, at.State, at.Reason)
		}
	}
	return over, bad, nil
}

func (p *snapshots) record(r *kgo.Record) {
	var v struct {
		Name   string `json:"name"`
		State  string `json:"snapshot"`
		ID     string `json:"snapshot_id"`
		Reason string `json:"snapshot_reason"`
		Rows   int64  `json:"snapshot_rows"`
	}
	if !strings.Contains(string(r.Key), `"kind":"table"`) || json.Unmarshal(r.Value, &v) != nil {
		return
	}
	p.seen[strings.TrimPrefix(v.Name, "public.")] = offsets.Progress{State: v.State, ID: v.ID, Reason: v.Reason, Rows: v.Rows}
}

func (p *snapshots) String() string {
	list := ""
	for _, name := range slices.Sorted(maps.Keys(p.wanted)) {
		at := p.seen[name]
		list += fmt.Sprintf("; %s: wanted %q, is %q of %q after %d rows %s", name, p.wanted[name], at.State, at.ID, at.Rows, at.Reason)
	}
	return strings.TrimPrefix(list, "; ")
}

// read waits until the snapshots are over.
func (l *lab) readAll() error {
	s := l.st
	ctx, cancel := context.WithTimeout(l.ctx, 90*time.Second)
	defer cancel()
	var bad string
	var err error
	done := l.eventually(60*time.Second, func() bool {
		if s.w.Ended() {
			l.unexpectedEnd()
			s.w = s.Start()
		}
		var over bool
		over, bad, err = s.snapshots.over(ctx, l.adm, s.OffsetsTopic())
		return over && err == nil
	})
	switch {
	case !done && err != nil:
		return fmt.Errorf("after 60 s without faults the snapshots' progress cannot be read: %w", err)
	case !done:
		return fmt.Errorf("after 60 s without faults a snapshot is not over: %s; the worker is in state %v; its log:\n  %s", s.snapshots, s.w.State(), strings.Join(s.w.Log(15), "\n  "))
	case bad != "":
		return fmt.Errorf("a snapshot failed: %s", strings.TrimPrefix(bad, "; "))
	}
	return nil
}

// replayed is the fingerprint of streams with snapshots: rows without a key stand for themselves, so reading them anew begins
// with nothing.
type replayed struct {
	*verify.Fingerprint
	last map[string]verify.Position // of the newest row that was read, by topic
}

// Record takes a record.
func (v *replayed) Record(r *verify.Record) {
	if r.Op == 'r' && r.Key == nil {
		if v.last == nil {
			v.last = map[string]verify.Position{}
		}
		at := r.Position
		at.Seq = 0
		if v.last[r.Topic] != at {
			empty := *r
			empty.Op = 't'
			v.Fingerprint.Record(&empty)
		}
		v.last[r.Topic] = at
	}
	v.Fingerprint.Record(r)
}
