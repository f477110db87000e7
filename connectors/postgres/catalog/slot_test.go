package catalog

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"go.uber.org/goleak"

	"github.com/tidemark-cdc/tidemark/connectors"
)

func (d *database) slot(name string) Slot {
	d.t.Helper()
	s, err := ReadSlot(d.ctx, d.conn, name)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func TestSlotLife(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		name := d.slotName()
		if s := d.slot(name); s.Exists || s.Name != name {
			t.Errorf("%+v", s)
		}
		at, err := CreateSlot(d.ctx, d.replication(), d.conn, name, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := d.slot(name)
		if !s.Exists || s.Plugin != "pgoutput" || s.Database != d.cfg.Database || s.Temporary || s.Active || s.ConfirmedFlush != at || s.RestartLSN == 0 ||
			s.WALStatus != "reserved" || s.Invalidation != "" || s.TwoPhase || s.Failover || s.Synced {
			t.Errorf("%+v, created at %s", s, at)
		}
		server, err := ReadServer(d.ctx, d.conn, nil)
		if err != nil {
			t.Fatal(err)
		}
		decision, err := Reconcile(Inputs{Server: server, SlotName: name, Slot: s})
		if err != nil || decision.StartLSN != at {
			t.Errorf("%+v, %v", decision, err)
		}
		d.exec("CREATE TABLE public.a (id int)")
		server, err = ReadServer(d.ctx, d.conn, nil)
		if err != nil {
			t.Fatal(err)
		}
		if end, err := AdvanceSlot(d.ctx, d.conn, name, server.WALFlush); err != nil || end <= at || d.slot(name).ConfirmedFlush != end {
			t.Errorf("advanced from %s to %s, %v", at, end, err)
		}
		_, err = CreateSlot(d.ctx, d.replication(), d.conn, name, false, nil)
		wantError(t, err, connectors.ClassWait, "already exists")
		_, err = CreateSlot(d.ctx, d.replication(), nil, "Bad-Name", false, nil)
		wantError(t, err, connectors.ClassRefused, `"Bad-Name"`, "lower-case")
		if err := DropSlot(d.ctx, d.conn, name); err != nil || d.slot(name).Exists {
			t.Error(err)
		}
	})
}

func TestFailoverSlot(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		name := d.slotName()
		_, err := CreateSlot(d.ctx, d.replication(), d.conn, name, true, nil)
		if majorVersion(d.conn.PgConn().ParameterStatus("server_version")) < 17 {
			wantError(t, err, connectors.ClassRefused, "17 or newer", "slot.failover=false")
			return
		}
		if err != nil || !d.slot(name).Failover {
			t.Errorf("%+v, %v", d.slot(name), err)
		}
	})
}

func TestSlotCreationNamesWhoItWaitsFor(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		name, other, watch := d.slotName(), connect(t, d.ctx, d.cfg), connect(t, d.ctx, d.cfg)
		exec(t, other, "BEGIN", "SELECT pg_current_xact_id()")
		pid := "pid " + itoa32(other.PgConn().PID())
		seen, done := newStates(), make(chan error, 1)
		repl := d.replication()
		go func() { _, err := CreateSlot(d.ctx, repl, watch, name, false, seen.report); done <- err }()
		seen.wait(t, "creating slot "+name+", waiting for "+pid, "open since 20")
		if s := d.slot(name); !s.Exists || s.ConfirmedFlush != 0 || !s.Active {
			t.Errorf("while creating: %+v", s)
		}
		exec(t, other, "COMMIT")
		if err := <-done; err != nil || d.slot(name).ConfirmedFlush == 0 {
			t.Errorf("%+v, %v", d.slot(name), err)
		}
	})
}

func TestSlotCreationIsCancelled(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		name, other, watch := d.slotName(), connect(t, d.ctx, d.cfg), connect(t, d.ctx, d.cfg)
		exec(t, other, "BEGIN", "SELECT pg_current_xact_id()")
		ctx, cancel := context.WithCancel(d.ctx)
		seen, done := newStates(), make(chan error, 1)
		repl := d.replication()
		go func() { _, err := CreateSlot(ctx, repl, watch, name, false, seen.report); done <- err }()
		seen.wait(t, "creating slot")
		cancel()
		if err := <-done; err == nil {
			t.Error("no error")
		}
		// While the other transaction is open: once it has ended, the server may be done before it sees the cancellation.
		for d.slot(name).Exists {
			if d.ctx.Err() != nil {
				t.Fatal("the half-made slot stays")
			}
			time.Sleep(20 * time.Millisecond)
		}
		exec(t, other, "ROLLBACK")
	})
}

func TestWaitInactive(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		name := d.slotName()
		if s, err := WaitInactive(d.ctx, d.conn, name, time.Second, nil); err != nil || s.Exists {
			t.Errorf("%+v, %v", s, err)
		}
		if _, err := CreateSlot(d.ctx, d.replication(), d.conn, name, false, nil); err != nil {
			t.Fatal(err)
		}
		d.exec("CREATE PUBLICATION p")
		user := d.replication()
		if err := pglogrepl.StartReplication(d.ctx, user, name, 0, pglogrepl.StartReplicationOptions{PluginArgs: []string{"proto_version '1'", "publication_names 'p'"}}); err != nil {
			t.Fatal(err)
		}
		pid := "pid " + itoa32(user.PID())
		for !d.slot(name).Active {
			if d.ctx.Err() != nil {
				t.Fatal("never active")
			}
			time.Sleep(10 * time.Millisecond)
		}
		seen := newStates()
		_, err := WaitInactive(d.ctx, d.conn, name, 50*time.Millisecond, seen.report)
		wantError(t, err, connectors.ClassWait, "in use by "+pid)
		seen.wait(t, "slot "+name+" is in use by "+pid)
		d.exec("SELECT pg_terminate_backend(" + itoa32(user.PID()) + ")")
		if s, err := WaitInactive(d.ctx, d.conn, name, 10*time.Second, nil); err != nil || s.Active || !s.Exists {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestPublicationYoungerThanSlot(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		name := d.slotName()
		ensure := func() Publication {
			pub, err := EnsurePublication(d.ctx, d.conn, PublicationConfig{Name: "p", Mode: NoTables}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return pub
		}
		first := ensure()
		if _, err := CreateSlot(d.ctx, d.replication(), d.conn, name, false, nil); err != nil {
			t.Fatal(err)
		}
		if got := ensure().YoungerThan(d.slot(name)); got != "" {
			t.Error(got)
		}
		if got := first.YoungerThan(Slot{}); got != "" {
			t.Error(got)
		}
		d.exec("DROP PUBLICATION p")
		if got := ensure().YoungerThan(d.slot(name)); !strings.Contains(got, "publication p was created after slot "+name) {
			t.Errorf("%q", got)
		}
	})
}
