package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/offsets"
)

// slotWait is how long a start waits for a slot that another process holds, most often the
// server's end of our own last connection.
const slotWait = 10 * time.Second

// opening is the state of a start.
type opening struct {
	set  settings
	opts Options

	sql      *pgx.Conn
	repl     *pgconn.PgConn
	server   catalog.Server
	position *catalog.Position // nil: the stream has no offsets
	start    pgoutput.LSN      // of the stored generation; 0: not known
	states   map[string]offsets.TableState
	pub      catalog.Publication
	refs     []catalog.TableRef // every table that could be published
	captured []*catalog.Table
	keys     map[uint32][]string
	decision catalog.Decision
	renewal  renewal
	export   *export  // nil: none
	tables   tableSet // as stored
}

// run goes through the steps of a start in the contract's order: nothing is changed at the
// server before what is stored was compared with it.
func (o *opening) run(ctx context.Context, stored []offsets.Entry) (connectors.Opened, *stream, error) {
	fail := func(err error) (connectors.Opened, *stream, error) { return connectors.Opened{}, nil, err }
	if err := o.read(stored); err != nil {
		return fail(err)
	}
	if err := o.connect(ctx); err != nil {
		return fail(err)
	}
	slot, err := catalog.WaitInactive(ctx, o.sql, o.set.slot, slotWait, o.opts.Report)
	if err != nil {
		return fail(err)
	}
	if err := o.reconcileOrRenew(ctx, slot); err != nil {
		return fail(err)
	}
	if err := o.readTables(ctx); err != nil {
		return fail(err)
	}
	if err := o.drift(ctx); err != nil {
		return fail(err)
	}
	if err := o.checkSnapshot(ctx); err != nil {
		return fail(err)
	}
	if err := o.publish(ctx, slot); err != nil {
		return fail(err)
	}
	if err := o.takeSlot(ctx); err != nil {
		return fail(err)
	}
	return o.begin(ctx)
}

// read takes what is ours from the stored entries.
func (o *opening) read(stored []offsets.Entry) error {
	o.states = map[string]offsets.TableState{}
	for _, e := range stored {
		server, _ := e.Partition.Text("server")
		if kind, _ := e.Partition.Text("kind"); kind != "table" || server != o.opts.Server || e.Offset == nil {
			continue
		}
		t, err := offsets.TableStateFrom(e.Offset)
		if err != nil {
			return connectors.Refuse(err)
		}
		o.states[t.Name] = t
	}
	if g, ok := offsets.Find(stored, offsets.GenerationPartition(o.opts.Server)); ok {
		generation, err := offsets.GenerationFrom(g)
		if err != nil {
			return connectors.Refuse(err)
		}
		if generation.Start != "" {
			if o.start, err = catalog.ParsePos(generation.Start); err != nil {
				return connectors.Refuse(fmt.Errorf("read the start of generation %d: %w", generation.Number, err))
			}
		}
		o.forget(generation)
	}
	var err error
	if o.tables, err = readSet(o.opts.Server, stored); err != nil {
		return err
	}
	boundary, ok := offsets.Find(stored, offsets.StreamPartition(o.opts.Server))
	if !ok {
		return nil
	}
	for _, f := range []struct{ name, ours string }{{offsets.FieldGroup, o.opts.Group}, {offsets.FieldConnector, o.opts.Connector}} {
		if theirs, ok := boundary.Text(f.name); ok && theirs != f.ours {
			return connectors.Refuse(fmt.Errorf("stream %q belongs to %s %q, not to %q: choose another topic.prefix, or reset its offsets", o.opts.Server, f.name, theirs, f.ours))
		}
	}
	position, err := catalog.ParsePosition(boundary)
	if err != nil {
		return connectors.Refuse(err)
	}
	o.position = position
	return nil
}

func (o *opening) connect(ctx context.Context) (err error) {
	if o.sql, err = catalog.Connect(ctx, o.set.conn); err != nil {
		return err
	}
	if o.repl, err = catalog.ConnectReplication(ctx, o.set.conn); err != nil {
		return err
	}
	if o.server, err = catalog.ReadServer(ctx, o.sql, o.repl); err != nil {
		return err
	}
	return o.server.Err()
}

// abandon closes what a start that failed has opened.
func (o *opening) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if o.repl != nil {
		_ = o.repl.Close(ctx)
	}
	if o.sql != nil {
		_ = o.sql.Close(ctx)
	}
	if o.export != nil {
		_ = o.export.Close(ctx)
	}
}

func (o *opening) reconcile(ctx context.Context, slot catalog.Slot) (err error) {
	in := catalog.Inputs{Server: o.server, SlotName: o.set.slot, Slot: slot, Stored: o.position, GenerationStart: o.start}
	if o.position != nil && o.server.Timeline != o.position.Timeline && o.server.Timeline > 1 {
		if in.History, err = catalog.ReadTimelineHistory(ctx, o.repl, o.server.Timeline); err != nil {
			return err
		}
	}
	o.decision, err = catalog.Reconcile(in)
	return err
}

// readTables finds the captured tables and their keys.
func (o *opening) readTables(ctx context.Context) error {
	if err := o.selectTables(ctx); err != nil {
		return err
	}
	if len(o.captured) == 0 && len(o.set.filter.tableIn) > 0 && len(o.tables.removed) == 0 {
		return connectors.Refuse(fmt.Errorf("%s: no table of database %q matches %s; create the table first, or correct the list (connectctl validate CONNECTOR names similar ones)",
			propTableInclude, o.set.conn.Database, o.set.filter.included()))
	}
	o.keys = make(map[uint32][]string, len(o.captured))
	for _, t := range o.captured {
		key, err := catalog.KeyFor(t, o.set.filter.key(t.Schema, t.Name), o.operations())
		if err != nil {
			return err
		}
		o.keys[t.OID] = key
	}
	return nil
}

// operations are those of the publication, or of the one to be created.
func (o *opening) operations() catalog.Operations {
	if o.pub.Exists {
		return o.pub.Ops
	}
	return catalog.AllOperations
}

// selectTables reads the captured tables: those the lists take, of those the publication has or is to have.
func (o *opening) selectTables(ctx context.Context) (err error) {
	name := o.set.publication.Name
	if o.pub, err = catalog.ReadPublication(ctx, o.sql, name); err != nil {
		return err
	}
	viaRoot := o.set.publication.ViaPartitionRoot
	if o.pub.Exists {
		viaRoot = o.pub.ViaRoot
	}
	if o.refs, err = catalog.ListTables(ctx, o.sql, viaRoot); err != nil {
		return err
	}
	published := map[uint32]bool{}
	for _, t := range o.pub.Tables {
		published[t.OID] = true
	}
	mode := o.set.publication.Mode
	grows := mode == catalog.Filtered || (mode == catalog.AllTables && !o.pub.Exists)
	named := len(o.set.filter.tableIn) > 0
	var oids []uint32
	o.set.publication.Tables = nil
	for _, r := range o.refs {
		added := slices.Contains(o.tables.added, r.QualifiedName())
		if !o.tables.captures(o.set.filter, r.Schema, r.Name) || !(published[r.OID] || grows || named || added) {
			continue
		}
		oids = append(oids, r.OID)
		if mode == catalog.Filtered {
			o.set.publication.Tables = append(o.set.publication.Tables, r)
		}
	}
	o.captured, err = catalog.ReadTables(ctx, o.sql, oids...)
	return err
}

// drift compares the stored tables that are still captured with the catalogue.
func (o *opening) drift(ctx context.Context) error {
	byName := make(map[string]*catalog.Table, len(o.captured))
	byOID := make(map[uint32]*catalog.Table, len(o.captured))
	for _, t := range o.captured {
		byName[t.QualifiedName()], byOID[t.OID] = t, t
	}
	for name, state := range o.states {
		if slices.Contains(o.tables.removed, name) {
			continue
		}
		named, withOID := byName[name], byOID[uint32(state.ID)]
		if withOID == nil {
			t, err := catalog.ReadTable(ctx, o.sql, uint32(state.ID))
			if err != nil {
				return err
			}
			withOID = t
		}
		if named == nil && (withOID == nil || withOID.QualifiedName() == name) {
			continue // dropped, or no longer captured: nothing more comes of it
		}
		var key []string
		if named != nil {
			key = o.keys[named.OID]
		}
		if err := catalog.TableDrift(state, named, withOID, key); err != nil {
			return err
		}
	}
	return nil
}

// publish makes the publication what its mode asks for and checks that it covers the captured tables.
func (o *opening) publish(ctx context.Context, slot catalog.Slot) (err error) {
	if err := o.takenOut(ctx); err != nil {
		return err
	}
	if o.pub, err = catalog.EnsurePublication(ctx, o.sql, o.set.publication, o.opts.Report); err != nil {
		return err
	}
	problems := o.pub.Coverage(o.captured, o.keys)
	if len(problems) > 0 {
		return connectors.Refuse(fmt.Errorf("%s", problems[0]))
	}
	if young := o.pub.YoungerThan(slot); young != "" {
		o.opts.Log.Warn(young)
	}
	return nil
}

// takenOut refuses to put a table back that this stream has published and that somebody took out of the publication: what was
// changed meanwhile is not in the log, and going on would hide that.
func (o *opening) takenOut(ctx context.Context) error {
	if o.position == nil || o.set.publication.Mode != catalog.Filtered {
		return nil
	}
	pub, err := catalog.ReadPublication(ctx, o.sql, o.set.publication.Name)
	if err != nil || !pub.Exists || pub.AllTables {
		return err
	}
	published := map[uint32]bool{}
	for _, t := range pub.Tables {
		published[t.OID] = true
	}
	for _, t := range o.captured {
		if _, known := o.states[t.QualifiedName()]; known && !published[t.OID] {
			return connectors.Refuse(fmt.Errorf("table %s was taken out of publication %s, and what was changed in it since is not in the log; to go on without it run ALTER PUBLICATION %s ADD TABLE %s, or begin a new generation with connectctl offsets reset WORKER CONNECTOR, or leave the table out of table.include.list",
				t.QualifiedName(), pub.Name, pgx.Identifier{pub.Name}.Sanitize(), t.Quoted()))
		}
	}
	return nil
}

// takeSlot creates the slot of a new stream, or moves it to the recorded acknowledgement.
func (o *opening) takeSlot(ctx context.Context) error {
	if o.decision.CreateSlot {
		if err := o.createSlot(ctx); err != nil {
			return err
		}
		slot, err := catalog.ReadSlot(ctx, o.sql, o.set.slot)
		if err != nil {
			return err
		}
		// The slot's position is newer than what the server said of itself before.
		if o.server, err = catalog.ReadServer(ctx, o.sql, o.repl); err != nil {
			return err
		}
		if err := o.reconcile(ctx, slot); err != nil {
			return err
		}
	}
	if to := o.decision.AdvanceSlotTo; to != 0 {
		if _, err := catalog.AdvanceSlot(ctx, o.sql, o.set.slot, to); err != nil {
			return err
		}
	}
	return nil
}

// begin plans the captured tables and starts the stream.
func (o *opening) begin(ctx context.Context) (connectors.Opened, *stream, error) {
	plans, look, columns, err := o.planner(ctx)
	if err != nil {
		return connectors.Opened{}, nil, err
	}
	opened := connectors.Opened{
		Start:    catalog.FormatPos(o.decision.StartLSN),
		Boundary: o.decision.Position.Object(o.opts.Group, o.opts.Connector),
		Renew:    o.renewal.stream, Baseline: o.reads(),
	}
	for _, t := range o.captured {
		table, err := plans.seed(ctx, t, o.keys[t.OID], columns[t.OID])
		if err != nil {
			return connectors.Opened{}, nil, err
		}
		opened.Tables = append(opened.Tables, table)
	}
	plans.watchPublication(o.pub, o.captured)
	if o.export != nil {
		if err := o.planExport(ctx, plans); err != nil {
			return connectors.Opened{}, nil, err
		}
		opened.Exported = o.export
	}
	conn, err := startReplication(ctx, o.repl, o.set.slot, o.set.publication.Name, o.decision.StartLSN)
	if err != nil {
		return connectors.Opened{}, nil, err
	}
	st := newStream(o, conn, plans, look)
	if o.export != nil {
		o.export.nonFinite = &st.status.readNull
	}
	return opened, st, nil
}

// planner prepares to plan the captured tables; columns are those the publication publishes, by table.
func (o *opening) planner(ctx context.Context) (plans *planner, look *live, columns map[uint32][]string, err error) {
	look = &live{set: catalog.TypeSet{}, run: func(ctx context.Context, f func(context.Context, *pgx.Conn) error) error { return f(ctx, o.sql) }}
	plans = newPlanner(o.set.conn.Database, o.set.filter, o.set.values, o.pub.Ops, look)
	if o.opts.Log != nil { // a check has none
		plans.log = o.opts.Log
	}
	plans.stored, plans.viaRoot, plans.acceptLabels = o.states, o.pub.ViaRoot, o.set.newLabels
	plans.server, plans.set = o.opts.Server, o.tables
	columns = make(map[uint32][]string, len(o.pub.Tables))
	for _, t := range o.pub.Tables {
		columns[t.OID] = t.Columns
	}
	return plans, look, columns, look.set.LoadTables(ctx, o.sql, o.captured...)
}
