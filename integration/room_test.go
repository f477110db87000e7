package integration

import (
	"net"
	"testing"
	"time"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

// The broker runs out of room in the middle of a snapshot: its log directory goes offline and it stops. The worker waits and says
// why; with room again the snapshot goes on, and nothing is missing.
func TestSnapshotWithoutRoomAtTheBroker(t *testing.T) {
	t.Parallel()
	major := fullMajors()[len(fullMajors())-1]
	kafka := servers.NewKafka(t, env.KafkaOptions{MaxFileMiB: 16, Settings: map[string]string{"log.segment.bytes": "67108864", "log.preallocate": "false"}})
	s := stream(t, major, harness.Options{
		Kafka: kafka, NoSlot: true, Publication: "FOR TABLE a",
		Setup: []string{crashSetup[0],
			"INSERT INTO a SELECT g, 0, 1, clock_timestamp(), (SELECT string_agg(md5((g * 1000 + i)::text), '') FROM generate_series(1, 30) i) FROM generate_series(1, 60000) g"},
		Connector: map[string]string{"snapshot.mode": "initial", "topic.creation.default.partitions": "1", "compression.type": "none"},
	})
	w := s.Start()
	w.WaitRunning()
	gone := func() bool { return dialFails(kafka.Bootstrap()) }
	if !harness.Eventually(time.Minute, gone) {
		t.Fatal("the broker did not run out of room")
	}
	s.SQL("INSERT INTO a SELECT g, 1, 1, clock_timestamp(), NULL FROM generate_series(100001, 100500) g", "UPDATE a SET n = 5 WHERE id <= 200")
	w.WaitState("WAITING", "", time.Minute)
	kafka.MakeRoom()
	if err := kafka.Kill(t.Context()); err != nil {
		t.Logf("kill what is left of the broker: %v", err)
	}
	if err := kafka.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	snapshotDone(s, 2*time.Minute, "public.a")
	s.CaughtUp(time.Minute)
	w.Stop()
	s.SlotFree()
	s.SameRows("public", "a", "id", "n", "d", "at", "big")
	s.Verify()
	s.SlotNotAhead()
}

// dialFails tells that nobody listens at an address.
func dialFails(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return true
	}
	_ = conn.Close()
	return false
}
