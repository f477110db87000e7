package pipeline

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// adminSink records what an Admin does, in order.
type adminSink struct {
	fenced  bool
	chunks  []*Chunk
	commits [][]offsets.Entry
}

func (s *adminSink) Fence(context.Context) error { s.fenced = true; return nil }
func (s *adminSink) Write(_ context.Context, c *Chunk) error {
	s.chunks = append(s.chunks, c)
	return nil
}
func (s *adminSink) Commit(_ context.Context, e ...offsets.Entry) error {
	s.commits = append(s.commits, e)
	return nil
}
func (s *adminSink) Abort(context.Context) error { return nil }
func (s *adminSink) Close(context.Context) error { return nil }

// adminStore refuses to be read before the sink was fenced.
type adminStore struct {
	t       *testing.T
	sink    *adminSink
	entries []offsets.Entry
}

func (s adminStore) Load(context.Context) ([]offsets.Entry, error) {
	if !s.sink.fenced {
		s.t.Error("offsets were read before the fence")
	}
	return s.entries, nil
}

func admin(t *testing.T, entries ...offsets.Entry) (Admin, *adminSink) {
	sink := &adminSink{}
	return Admin{Sink: sink, Store: adminStore{t, sink, entries}, Server: "s", Connector: "c", Group: "g", GenerationsTopic: "s.__generations"}, sink
}

func storedStream(group string) []offsets.Entry {
	return []offsets.Entry{
		{Partition: offsets.StreamPartition("s"), Offset: offsets.Object{{Name: "group", Value: group}, {Name: "boundary", Value: int64(7)}}},
		{Partition: offsets.GenerationPartition("s"), Offset: offsets.Generation{Number: 4, Start: `{"lsn":"0/1"}`}.Object()},
		{Partition: offsets.TablePartition("s", "public.t"), Offset: offsets.Object{{Name: "id", Value: int64(1)}}},
	}
}

func TestAdminReset(t *testing.T) {
	a, sink := admin(t, storedStream("g")...)
	removed, err := a.Reset(t.Context())
	if err != nil || len(removed) != 2 {
		t.Fatalf("removed %v, %v", removed, err)
	}
	if len(sink.commits) != 1 || len(sink.commits[0]) != 2 {
		t.Fatalf("commits %v: everything goes in one", sink.commits)
	}
	for _, e := range sink.commits[0] {
		if e.Offset != nil || e.Partition.Equal(offsets.GenerationPartition("s")) {
			t.Errorf("%v %v: the generation stays, the rest are tombstones", e.Partition, e.Offset)
		}
	}
	a, sink = admin(t, storedStream("g")[1])
	if _, err := a.Reset(t.Context()); err == nil || len(sink.commits) != 0 {
		t.Errorf("nothing to remove: %v", err)
	}
}

func TestAdminSet(t *testing.T) {
	a, sink := admin(t, storedStream("g")...)
	gen, err := a.Set(t.Context(), offsets.Object{{Name: "boundary", Value: int64(9)}}, `{"lsn":"0/9"}`)
	if err != nil || gen != 5 {
		t.Fatalf("generation %d, %v", gen, err)
	}
	if len(sink.chunks) != 1 || len(sink.commits) != 1 {
		t.Fatalf("%d chunks, %d commits", len(sink.chunks), len(sink.commits))
	}
	c := sink.chunks[0]
	if string(c.Records[0].Value) != `{"gen":5,"start":{"lsn":"0/9"},"baseline":false}` || len(c.Entries) != 1 {
		t.Errorf("activation %s, entries %v", c.Records[0].Value, c.Entries)
	}
	if o := sink.commits[0][0].Offset; o.String() != `{"group":"g","connector":"c","boundary":9}` {
		t.Errorf("stream entry %v", o)
	}
	a, sink = admin(t)
	if gen, err := a.Set(t.Context(), offsets.Object{}, "{}"); err != nil || gen != 0 || len(sink.chunks) != 0 {
		t.Errorf("no generation is stored, the next start numbers it: %d, %v", gen, err)
	}
}

func TestAdminRefusesAnotherGroup(t *testing.T) {
	a, sink := admin(t, storedStream("other")...)
	_, err := a.Reset(t.Context())
	if connectors.ClassOf(err) != connectors.ClassRefused || !strings.Contains(err.Error(), "other") {
		t.Errorf("reset: %v", err)
	}
	if _, err := a.Set(t.Context(), offsets.Object{}, "{}"); connectors.ClassOf(err) != connectors.ClassRefused {
		t.Errorf("set: %v", err)
	}
	if len(sink.commits) != 0 {
		t.Error("something was committed")
	}
}
