package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-cdc/tidemark/integration/env"
)

func brokerRestarted(l *lab, r *rand.Rand) error {
	if err := l.kafka.Stop(l.ctx); err != nil {
		l.sc.Fatal(err)
	}
	l.awhile(r, 500)
	l.startBroker()
	return nil
}

func brokerKilled(l *lab, r *rand.Rand) error {
	if err := l.kafka.Kill(l.ctx); err != nil {
		l.sc.Fatal(err)
	}
	l.awhile(r, 500)
	l.startBroker()
	return nil
}

// startBroker keeps the worker away until what the broker forgot as it stopped is written: the next transaction's marker would decide
// about it, and might abort what was committed and acknowledged.
func (l *lab) startBroker() {
	l.kafkaProxy.Cut()
	if err := l.kafka.Start(l.ctx); err != nil {
		l.sc.Fatal(err)
	}
	l.eventually(15*time.Second, l.led)
	l.markForgotten()
	if err := l.kafkaProxy.Restore(); err != nil {
		l.sc.Fatal(err)
	}
}

// led tells whether every partition of the stream has a leader.
func (l *lab) led() bool {
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	listed, err := l.adm.ListTopics(ctx)
	if err != nil {
		return false
	}
	for _, t := range listed {
		for _, p := range t.Partitions {
			if l.st.owns(t.Topic) && (p.Err != nil || p.Leader < 0) {
				return false
			}
		}
	}
	return true
}

// databaseRestarted: a fast shutdown waits for the walsenders, so it must not take long.
func databaseRestarted(l *lab, _ *rand.Rand) error {
	began := time.Now()
	if err := l.pg.Stop(l.ctx, env.Fast); err != nil {
		l.sc.Fatal(err)
	}
	took := time.Since(began)
	l.startDatabase()
	if took > 15*time.Second {
		return fmt.Errorf("a fast shutdown took %s", took)
	}
	return nil
}

func databaseAborted(l *lab, _ *rand.Rand) error {
	if err := l.pg.Stop(l.ctx, env.Immediate); err != nil {
		l.sc.Fatal(err)
	}
	l.startDatabase()
	return nil
}

func databaseCrashed(l *lab, r *rand.Rand) error {
	if err := l.pg.Kill(l.ctx); err != nil {
		l.sc.Fatal(err)
	}
	l.awhile(r, 300)
	l.startDatabase()
	return nil
}

func (l *lab) startDatabase() {
	if err := l.pg.Start(l.ctx); err != nil {
		l.sc.Fatal(err)
	}
}

func walsenderTerminated(l *lab, r *rand.Rand) error {
	for range 1 + r.IntN(2) {
		l.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '" + l.st.Name + "' AND active")
		l.awhile(r, 200)
	}
	return nil
}

func sessionsTerminated(l *lab, _ *rand.Rand) error {
	l.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	return nil
}

// tooLarge: a record that its topic does not take blocks, is not passed over, and goes through once the limit is raised.
func tooLarge(l *lab, r *rand.Rand) error {
	const table = "toast"
	topic := l.st.Name + ".public." + table
	l.sql("INSERT INTO toast VALUES (1000, 0, 'small') ON CONFLICT (id) DO UPDATE SET n = 0, big = 'small'")
	if err := l.quiesce(); err != nil {
		return err
	}
	limit := func(value string) {
		resp, err := l.adm.AlterTopicConfigs(l.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &value}}, topic)
		if err == nil {
			_, err = resp.On(topic, nil)
		}
		if err != nil {
			l.sc.Fatal(err)
		}
	}
	limit("20000")
	w := l.st.w
	l.sql(fmt.Sprintf("UPDATE toast SET big = (SELECT string_agg(md5((g * %d)::text), '') FROM generate_series(1, 3000) g) WHERE id = 1000", 1+r.IntN(1000)), "UPDATE hot SET n = n + 1")
	code, ended := l.ended(w, soon)
	limit("1048588")
	l.st.w = l.st.Start()
	switch {
	case !ended:
		return fmt.Errorf("a record beyond max.message.bytes does not block: state %v", w.State())
	case code != codeBlocked || !strings.Contains(w.Message(), "max.message.bytes"):
		return fmt.Errorf("a record beyond max.message.bytes ended the worker with code %d, want %d, and %q", code, codeBlocked, w.Message())
	}
	return nil
}

// noRoom: the broker may not write a file beyond a size that its segments are to reach; its log directory goes offline, it stops.
func noRoom(l *lab, _ *rand.Rand) error {
	const size = 16 << 20
	b, err := os.ReadFile(filepath.Join(l.kafka.Dir, "pid"))
	if err != nil {
		l.sc.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		l.sc.Fatal(err)
	}
	limit := exec.CommandContext(l.ctx, "prlimit", "--pid", strconv.Itoa(pid), fmt.Sprintf("--fsize=%d", size))
	var as syscall.Stat_t // another user's limits are not root's to set in every container
	if err := syscall.Stat(fmt.Sprintf("/proc/%d", pid), &as); err == nil && os.Getuid() == 0 {
		limit.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: as.Uid, Gid: as.Gid}}
	}
	if out, err := limit.CombinedOutput(); err != nil {
		l.sc.Fatalf("limit the broker's files: %v: %s", err, out)
	}
	// One partition takes it all: rows without key, 20 MiB that do not compress well.
	l.sql("INSERT INTO keyless SELECT -1, (SELECT string_agg(md5((g * 1000 + i)::text), '') FROM generate_series(1, 10000) i) FROM generate_series(1, 120) g",
		"DELETE FROM keyless WHERE n = -1")
	gone := l.eventually(60*time.Second, func() bool { _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); return err != nil })
	if !gone {
		_ = l.kafka.Kill(l.ctx)
	}
	l.startBroker()
	if !gone {
		l.report.say("no room for the broker: it took all the same")
	}
	return nil
}

// slotAdvanced and slotDropped end the stream: it must refuse to go on, and say which positions do not fit. A new one is made.

func slotAdvanced(l *lab, _ *rand.Rand) error {
	return l.refused(func() string {
		var at string
		l.sql("UPDATE hot SET n = n + 1", "INSERT INTO bulk SELECT g, 'lost' FROM generate_series(5000, 5100) g ON CONFLICT DO NOTHING")
		l.query(&at, "SELECT end_lsn::text FROM pg_replication_slot_advance('"+l.st.Name+"', pg_current_wal_lsn())")
		return at
	})
}

func slotDropped(l *lab, _ *rand.Rand) error {
	return l.refused(func() string {
		l.sql("SELECT pg_drop_replication_slot('" + l.st.Name + "')")
		return l.st.Name
	})
}

// refused does something to the slot of a stopped worker; the next one must refuse with a sentence that contains what is returned.
func (l *lab) refused(do func() string) error {
	s := l.st
	l.endSampling(s)
	s.w.Kill()
	free := l.eventually(soon, func() bool {
		var active string
		l.query(&active, "SELECT active::text FROM pg_replication_slots WHERE slot_name = '"+s.Name+"'")
		return active == "false"
	})
	if !free {
		return fmt.Errorf("the slot is still in use 30 s after the worker's end")
	}
	text := do()
	s.w = s.Start()
	code, ended := l.ended(s.w, soon)
	message := s.w.Message()
	l.drop()
	switch {
	case !ended:
		return fmt.Errorf("a slot that was changed behind our back is not refused")
	case code != codeRefused || !strings.Contains(message, text):
		return fmt.Errorf("a slot that was changed behind our back ended the worker with code %d, want %d, and %q, which should name %s", code, codeRefused, message, text)
	}
	return nil
}
