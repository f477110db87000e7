package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/offsets"
)

var _ connectors.TableSetter = (*Source)(nil)

// ChangeTables changes the publication where its mode allows, waits for the transactions that were open then, and writes the
// message at which the set changes. See connectors.TableSetter.
func (s *Source) ChangeTables(ctx context.Context, add, remove []string) error {
	st := s.current()
	if st == nil {
		return errClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-st.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := st.retire.take(ctx); err != nil {
		return err
	}
	defer st.retire.give()
	conn, err := catalog.Connect(ctx, st.set.conn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	c := &tableChange{st: st, conn: conn, add: add, remove: remove}
	err = c.run(ctx)
	if c.waited {
		st.opts.Report(connectors.State{Name: "RUNNING"})
	}
	return err
}

// Tables returns the version of the set and the captured tables as of the boundary last handed out.
func (s *Source) Tables() (version int64, names []string) {
	st := s.current()
	if st == nil {
		return 0, nil
	}
	set, tables, _ := st.view.read()
	return set.version, slices.Sorted(maps.Keys(tables))
}

// tableChange is one change of the set on its way into the log.
type tableChange struct {
	st          *stream
	conn        *pgx.Conn
	add, remove []string
	waited      bool // a wait was reported

	set    tableSet
	tables map[string]uint32
	stored map[string]offsets.TableState
	pub    catalog.Publication
	found  []*catalog.Table // those to be added
	keys   map[uint32][]string
}

func (c *tableChange) run(ctx context.Context) error {
	c.set, c.tables, c.stored = c.st.view.read()
	if err := c.named(); err != nil {
		return err
	}
	if len(c.add) > 0 {
		if err := c.check(ctx); err != nil {
			return err
		}
		if err := c.publish(ctx); err != nil {
			return err
		}
	}
	return c.write(ctx)
}

// report passes a wait on.
func (c *tableChange) report(s connectors.State) {
	c.waited = true
	c.st.opts.Report(s)
}

// named compares the names with the set.
func (c *tableChange) named() error {
	if len(c.add)+len(c.remove) == 0 {
		return errors.New("no table is named to be added or removed")
	}
	seen := map[string]bool{}
	for _, name := range slices.Concat(c.add, c.remove) {
		if seen[name] {
			return fmt.Errorf("table %s is named twice", name)
		}
		seen[name] = true
	}
	for _, name := range c.add {
		if _, ok := c.tables[name]; ok || c.st.retire.wants(name) {
			return fmt.Errorf("table %s is in the set already", name)
		}
	}
	for _, name := range c.remove {
		if _, ok := c.tables[name]; !ok && !c.st.retire.wants(name) {
			return fmt.Errorf("table %s is not in the set; connectctl tables list WORKER CONNECTOR shows what is", name)
		}
	}
	return nil
}

// check finds the tables to be added and refuses what the stream could not carry.
func (c *tableChange) check(ctx context.Context) (err error) {
	set := c.st.set
	if c.pub, err = catalog.ReadPublication(ctx, c.conn, set.publication.Name); err != nil {
		return err
	}
	viaRoot := set.publication.ViaPartitionRoot
	if c.pub.Exists {
		viaRoot = c.pub.ViaRoot
	}
	refs, err := catalog.FindTables(ctx, c.conn, viaRoot, c.add)
	if err != nil {
		return err
	}
	oids := make([]uint32, len(refs))
	for i, r := range refs {
		oids[i] = r.OID
	}
	if c.found, err = catalog.ReadTables(ctx, c.conn, oids...); err != nil {
		return err
	}
	o := &opening{set: set, opts: c.st.opts, sql: c.conn, pub: c.pub, captured: c.found}
	plans, _, columns, err := o.planner(ctx)
	if err != nil {
		return err
	}
	c.keys = make(map[uint32][]string, len(c.found))
	for _, t := range c.found {
		key, err := catalog.KeyFor(t, set.filter.key(t.Schema, t.Name), o.operations())
		if err != nil {
			return err
		}
		c.keys[t.OID] = key
		if err := c.drifted(ctx, t, key); err != nil {
			return err
		}
		if err := o.readable(ctx, t); err != nil {
			return err
		}
		if _, err := plans.seed(ctx, t, key, columns[t.OID]); err != nil {
			return err
		}
	}
	return nil
}

// drifted refuses a table that was captured before under another identity: its old rows are at the consumers.
func (c *tableChange) drifted(ctx context.Context, t *catalog.Table, key []string) error {
	stored, ok := c.stored[t.QualifiedName()]
	if !ok {
		return nil
	}
	withOID := t
	if uint64(t.OID) != stored.ID {
		var err error
		if withOID, err = catalog.ReadTable(ctx, c.conn, uint32(stored.ID)); err != nil {
			return err
		}
	}
	return catalog.TableDrift(stored, t, withOID, key)
}

// publish has the server send the tables, and waits for the transactions that began before it did: what they change is not in
// the log, whether they come to the table before or after.
func (c *tableChange) publish(ctx context.Context) (err error) {
	cfg := c.st.set.publication
	cfg.Tables = nil
	for _, t := range c.found {
		cfg.Tables = append(cfg.Tables, t.Ref())
	}
	if cfg.Mode == catalog.Filtered {
		if c.pub, err = catalog.EnsurePublication(ctx, c.conn, cfg, c.report); err != nil {
			return err
		}
	}
	if problems := c.pub.Coverage(c.found, c.keys); len(problems) > 0 {
		return fmt.Errorf("%s", problems[0].Message)
	}
	if c.pub.AllTables {
		return nil
	}
	names := make([]string, len(c.found))
	for i, t := range c.found {
		names[i] = t.QualifiedName()
	}
	return catalog.WaitTransactions(ctx, c.conn, c.report, names...)
}

// write writes the message. From here on a removal may not take a table back out of the publication that this one adds.
func (c *tableChange) write(ctx context.Context) error {
	change := &setChange{Version: c.st.retire.nextVersion(c.set.version), Remove: c.remove}
	for _, t := range c.found {
		change.Add = append(change.Add, addTable{Name: t.QualifiedName(), ID: t.OID})
	}
	content := setMessage{Server: c.st.opts.Server, Tables: change}.content()
	c.st.retire.want(c.add, c.remove)
	err := pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = local"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "SELECT pg_logical_emit_message(true, $1, $2)", ourPrefix, content)
		return err
	})
	var pg *pgconn.PgError
	switch {
	case err == nil:
		c.st.status.askKeepalive()
		return nil
	case errors.As(err, &pg) && pg.Code == "42501":
		return connectors.Refuse(errors.New("the table set is changed by a message in the log, and the role may not execute pg_logical_emit_message; GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) TO it"))
	}
	return fmt.Errorf("write the change of the table set into the log: %w", err)
}

// readPublication reads the publication over the catalogue connection.
func (s *stream) readPublication(ctx context.Context) (pub catalog.Publication, err error) {
	err = s.sentinel.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		pub, err = catalog.ReadPublication(ctx, conn, s.set.publication.Name)
		return err
	})
	return pub, err
}

// closeSet hands out a change of the set with the boundary that closes its transaction.
func (s *stream) closeSet(b *connectors.Batch) {
	if r := s.asm.takeSet(); r != nil {
		b.Joined, b.Left, b.Entries = r.joined, r.left, append(b.Entries, r.entry)
		s.retire.later(r.left, s.position.BoundaryLSN)
		s.retire.never(r.joined)
	}
	s.view.show(s.plans)
}
