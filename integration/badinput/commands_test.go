package badinput

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

// streamed runs a connector over a few changes: create, update, delete, and a key change in one transaction.
func streamed(t *testing.T, pg *env.Postgres) *stage {
	s := newStage(t, pg)
	p := s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (1, 'a')", "UPDATE public.t SET v = 'b' WHERE id = 1", "DELETE FROM public.t WHERE id = 1",
		"INSERT INTO public.t VALUES (2, 'a'), (3, NULL)", "UPDATE public.t SET id = 4 WHERE id = 2")
	s.until("all is published", func() bool { return len(s.rows("t")) == 9 })
	p.stop()
	return s
}

func tail(t *testing.T, pg *env.Postgres) {
	s := streamed(t, pg)
	var got []string
	rows := s.rows("t")
	for i, r := range rows {
		got = append(got, fmt.Sprint(r.Op, " ", r.Seq, " ", r.Key["id"], " ", r.Value["v"], " ", r.Value == nil))
		if r.Gen != 1 || !strings.Contains(r.Pos.LSN, "/") || (i > 0 && r.Offset <= rows[i-1].Offset) {
			t.Errorf("record %d: %+v", i, r)
		}
		if r.Value != nil && (r.Value["__op"] != r.Op || r.Value["__seq"] != float64(r.Seq)) {
			t.Errorf("record %d: header and value differ: %+v", i, r)
		}
	}
	want := []string{"c 0 1 a false", "u 0 1 b false", "d 0 1 <nil> false", "d 0 1 <nil> true", "c 0 2 a false", "c 1 3 <nil> false",
		"d 0 2 <nil> false", "d 0 2 <nil> true", "c 1 4 a false"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	at := []string{"--bootstrap-servers", s.kafka.Bootstrap(), "--schema-registry-url", s.registry.URL()}
	out, _ := s.ctl(0, append([]string{"tail", s.topic("t"), "--from-beginning", "-n", "3"}, at...)...)
	if strings.Count(out, "\n") != 3 {
		t.Errorf("-n 3 prints\n%s", out)
	}
	// It follows what is committed.
	follow := s.start(append([]string{"tail", s.topic("t"), "-n", "1"}, at...)...)
	p := s.run()
	p.line(0, "state=RUNNING")
	for id := 10; ; id++ { // until tail has found the end it started from
		s.sql(fmt.Sprintf("INSERT INTO public.t VALUES (%d, 'live')", id))
		select {
		case <-follow.ended:
		default:
			if id < 400 {
				_, _ = s.conn.Exec(context.Background(), "SELECT pg_sleep(0.1)")
				continue
			}
		}
		break
	}
	follow.exit(0)
	out, _ = follow.output()
	s.wants(out, `"op":"c"`, `"live"`)
	p.stop()

	_, sentence := s.ctl(1, append([]string{"tail", "public.t"}, at...)...)
	s.wants(sentence, "no such topic at the broker: public.t (there is ")
	// Without the registry the ids are said, and where to look.
	_, sentence = s.ctl(1, "tail", s.topic("t"), "--until-end", "--bootstrap-servers", s.kafka.Bootstrap(), "--schema-registry-url", "http://127.0.0.1:1")
	s.wants(sentence, s.topic("t")+"[0]", "schema registry http://127.0.0.1:1 cannot be reached")
}

func verify(t *testing.T, pg *env.Postgres) {
	s := streamed(t, pg)
	at := []string{"--bootstrap-servers", s.kafka.Bootstrap()}
	out, _ := s.ctl(0, append([]string{"verify", s.topic("t")}, at...)...)
	s.wants(out, "7 records (4 creates, 1 updates, 2 deletes, 0 snapshot rows, 0 other) in 5 transactions, 2 tombstones, 0 of inactive generations ignored; 0 violations")
	out, _ = s.ctl(0, append([]string{"verify", "--json", s.topic("t")}, at...)...)
	var counts struct{ Records, Tombstones, Violations int }
	if err := json.Unmarshal([]byte(out), &counts); err != nil || counts.Records != 7 || counts.Tombstones != 2 || counts.Violations != 0 {
		t.Errorf("%s: %v", out, err)
	}
	_, sentence := s.ctl(1, append([]string{"verify", s.topic("t"), s.topic("none"), s.topic("nought")}, at...)...)
	s.wants(sentence, "no such topic at the broker: ", s.topic("none"), s.topic("nought"))

	originals := s.raw(s.topic("t"))
	for _, broken := range []struct {
		name string
		say  string
		make func([]*kgo.Record) []*kgo.Record
	}{
		{"swapped", "is before", func(r []*kgo.Record) []*kgo.Record { r[0], r[1] = r[1], r[0]; return r }},
		{"duplicated", "repeats", func(r []*kgo.Record) []*kgo.Record { return slices.Insert(r, 1, r[0]) }},
		{"later-duplicate", "is before", func(r []*kgo.Record) []*kgo.Record { return append(r, r[4]) }},
		{"tombstone-missing", "is not followed by its tombstone", func(r []*kgo.Record) []*kgo.Record { return slices.Delete(r, 3, 4) }},
		{"tombstone-last-missing", "is not followed by its tombstone", func(r []*kgo.Record) []*kgo.Record { return r[:3] }},
		{"tombstone-alone", "does not follow its delete", func(r []*kgo.Record) []*kgo.Record { return slices.Delete(r, 2, 3) }},
		{"tombstone-of-another-key", "does not follow its delete", func(r []*kgo.Record) []*kgo.Record { r[3].Key = r[8].Key; return r }},
		{"foreign", "record without __pos, __seq and __gen headers", func(r []*kgo.Record) []*kgo.Record { r[4].Headers = nil; return r }},
		{"garbled", "header __pos is not a commit position", func(r []*kgo.Record) []*kgo.Record {
			r[4].Headers[slices.IndexFunc(r[4].Headers, func(h kgo.RecordHeader) bool { return h.Key == "__pos" })].Value = []byte(`{"lsn":"?"}`)
			return r
		}},
	} {
		topic := s.topic("broken." + broken.name)
		s.createTopic(topic, nil)
		s.produce(topic, broken.make(clone(originals)))
		out, sentence := s.ctl(1, append([]string{"verify", topic}, at...)...)
		s.wants(out, "violation: "+topic+"[0]@", broken.say)
		s.wants(sentence, " in "+topic)
		s.ctl(1, append([]string{"verify", "--json", topic}, at...)...)
	}
	// The whole topic twice, in two topics of one stream.
	twin := s.topic("twin")
	s.createTopic(twin, nil)
	s.produce(twin, clone(originals))
	s.ctl(0, append([]string{"verify", twin}, at...)...)
	out, _ = s.ctl(1, append([]string{"verify", s.topic("t"), twin}, at...)...)
	s.wants(out, "is also in "+s.topic("t")+"[0]")
}

func clone(records []*kgo.Record) []*kgo.Record {
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{Key: r.Key, Value: r.Value, Headers: slices.Clone(r.Headers), Timestamp: r.Timestamp}
	}
	return out
}

// raw reads a topic of one partition as it is.
func (s *stage) raw(topic string) (records []*kgo.Record) {
	s.Helper()
	n := len(s.rows("t"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	s.must(err)
	defer cl.Close()
	for len(records) < n {
		fetches := cl.PollFetches(s.Context())
		s.must(fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}

func (s *stage) produce(topic string, records []*kgo.Record) {
	s.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.kafka.Bootstrap()), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	s.must(err)
	defer cl.Close()
	for _, r := range records {
		one := *r
		s.must(cl.ProduceSync(s.Context(), &one).FirstErr())
	}
}

// stored is what offsets get prints.
type stored struct {
	Offsets []struct {
		Partition map[string]any
		Offset    map[string]any
	}
}

func (s *stage) stored() (all stored, text string) {
	s.Helper()
	w, c := s.files()
	text, _ = s.ctl(0, "offsets", "get", w, c)
	s.must(json.Unmarshal([]byte(text), &all))
	return all, text
}

func offsetsCommands(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	if all, _ := s.stored(); len(all.Offsets) != 0 {
		t.Errorf("offsets before the first start: %v", all)
	}
	w, c := s.files()
	_, sentence := s.ctl(1, "offsets", "reset", w, c)
	s.wants(sentence, "there are no offsets to remove")
	s.sql("CREATE PUBLICATION p FOR TABLE public.t")
	p := s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (1, 'a')")
	s.published("t", 1)
	_, sentence = s.ctl(1, "offsets", "set", w, c, `{"boundary_lsn":"0/1"}`)
	s.wants(sentence, "connector "+s.name+" is running (its slot is in use by pid ", "stop it first")
	_, sentence = s.ctl(1, "offsets", "reset", w, c)
	s.wants(sentence, "is running", "stop it first")
	p.stop()

	all, _ := s.stored()
	kinds := map[string]map[string]any{}
	for _, o := range all.Offsets {
		kind, _ := o.Partition["kind"].(string)
		kinds[kind] = o.Offset
		if o.Partition["server"] != s.name {
			t.Errorf("partition %v", o.Partition)
		}
	}
	boundary, _ := kinds[""]["boundary_lsn"].(string)
	if len(kinds) != 3 || boundary == "" || kinds["table"]["name"] == "" || kinds["generation"] == nil {
		t.Fatalf("offsets get prints %v", all)
	}

	// A worker of another group would not fence this one's.
	s.worker["group.id"] = s.name + "-other"
	w2, c2 := s.files()
	for _, args := range [][]string{{"offsets", "reset", w2, c2}, {"offsets", "set", w2, c2, `{"boundary_lsn":"` + boundary + `"}`}} {
		_, sentence = s.ctl(5, args...)
		s.wants(sentence, `were written under group.id "`+s.name+`"`, `set group.id to "`+s.name+`"`)
	}
	s.wants(s.run().exit(5), `set group.id to "`+s.name+`"`)
	s.worker["group.id"] = s.name

	s.setAndReset(w, c, boundary)
}

// setAndReset begins a generation each way, and what a set position cannot be.
func (s *stage) setAndReset(w, c, boundary string) {
	s.Helper()
	s.sql("INSERT INTO public.t VALUES (2, 'b')")
	_, sentence := s.ctl(1, "offsets", "set", w, c, `{"boundary_lsn":"0/1"}`)
	s.wants(sentence, "slot "+s.name, "is confirmed up to ", "or later")
	out, _ := s.ctl(0, "offsets", "set", w, c, `{"boundary_lsn":"`+boundary+`"}`)
	s.wants(out, "connector "+s.name+` starts at {"lsn":"`, "in generation 2")
	p := s.run()
	p.line(0, "state=RUNNING")
	if rows := s.published("t", 1, 2); rows[1].Gen != 2 {
		s.Errorf("after set: %+v", rows)
	}
	p.stop()
	s.ctl(0, "verify", s.topic("t"), "--bootstrap-servers", s.kafka.Bootstrap())

	out, _ = s.ctl(0, "offsets", "reset", w, c)
	s.wants(out, "removed 2 offsets of connector "+s.name, `"boundary_lsn"`)
	p = s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (3, 'c')")
	if rows := s.published("t", 1, 2, 3); rows[2].Gen != 3 {
		s.Errorf("after reset: %+v", rows)
	}
	p.stop()
	s.ctl(0, "verify", s.topic("t"), "--bootstrap-servers", s.kafka.Bootstrap())

	// A position the server does not have yet.
	s.ctl(0, "offsets", "set", w, c, `{"boundary_lsn":"FFFF/0"}`)
	s.wants(s.run().exit(5), "FFFF/0", "ahead of the server", "connectctl offsets reset")
}

func describe(t *testing.T, pg *env.Postgres) {
	s := newStage(t, pg)
	w, c := s.files()
	out, _ := s.ctl(0, "describe", w, c)
	s.wants(out, "none stored", s.name+": does not exist")
	s.sql("CREATE PUBLICATION p FOR TABLE public.t")
	p := s.run()
	p.line(0, "state=RUNNING")
	s.sql("INSERT INTO public.t VALUES (1, 'a')")
	s.published("t", 1)
	out, _ = s.ctl(0, "describe", w, c)
	s.wants(out, "connector ", s.name+" (postgres), topic prefix "+s.name, "transactional: every committed change once, in order",
		"transactional id ", s.name+"-"+s.name+"-0", "generation ", "1, from ", "offset boundary_lsn", "table public.t",
		"topic "+s.topic("t")+", 1 partitions", "replica identity default", "PostgreSQL 18", s.name+": in use by pid ", "slot confirmed", "brokers miss",
		"replication factor")
	p.stop()
	out, _ = s.ctl(0, "describe", w, c)
	s.wants(out, s.name+": idle")
	out, _ = s.ctl(0, "describe", "--json", w, c)
	var facts []struct{ Name, Value string }
	s.must(json.Unmarshal([]byte(out), &facts))
	if len(facts) < 10 {
		t.Errorf("%v", facts)
	}
	s.connector["delivery.mode"] = "idempotent"
	w, c = s.files()
	out, _ = s.ctl(0, "describe", w, c)
	s.wants(out, "idempotent: at least once")
	if strings.Contains(out, "transactional id") {
		t.Errorf("an idempotent connector has no transactional id:\n%s", out)
	}
}
