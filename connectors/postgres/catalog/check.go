package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/connectors"
)

// Selector is one member of a table include list.
type Selector struct {
	Text    string // as configured
	Matches func(schema, table string) bool
}

// Member is one member of another list of patterns, to be found where it matches nothing.
type Member struct {
	Property, Text string
	Columns        bool // it is matched with schema.table.column of captured tables, else with schema.table of all
	Matches        func(name string) bool
}

// CheckConfig is what Check looks at.
type CheckConfig struct {
	Conn        ConnConfig
	Slot        string
	Failover    bool
	HasOffsets  bool              // the stream has stored offsets: its slot must exist
	Publication PublicationConfig // Tables is filled in by Check
	// Captured tells whether a table is in the connector's set; nil: all.
	Captured   func(schema, table string) bool
	Include    []Selector                          // members of table.include.list
	Members    []Member                            // members of the lists where one that matches nothing would publish too much or too little
	KeyColumns func(schema, table string) []string // message.key.columns of a table; nil: none
}

// Check looks at everything a start would need and returns every problem at once; it changes
// nothing. It goes on past whatever fails.
func Check(ctx context.Context, cfg CheckConfig) []connectors.Problem {
	c := &checker{cfg: cfg}
	conn, err := Connect(ctx, cfg.Conn)
	if err != nil {
		c.fail("", err)
		return c.problems
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	c.conn = conn
	c.server(ctx)
	c.slot(ctx)
	pub, err := ReadPublication(ctx, conn, cfg.Publication.Name)
	if err != nil {
		c.fail("publication.name", err)
	}
	viaRoot := cfg.Publication.ViaPartitionRoot
	if pub.Exists {
		viaRoot = pub.ViaRoot
	}
	refs, err := ListTables(ctx, conn, viaRoot)
	if err != nil {
		c.fail("", err)
		return c.problems
	}
	captured := c.captured(refs)
	c.include(refs)
	tables, keys := c.keys(ctx, captured, pub)
	c.members(refs, tables)
	c.publication(ctx, pub, captured, tables, keys)
	return c.problems
}

type checker struct {
	cfg      CheckConfig
	conn     *pgx.Conn
	info     Server
	problems []connectors.Problem
}

func (c *checker) fail(property string, err error) {
	if err != nil {
		c.problems = append(c.problems, connectors.Problem{Property: property, Message: err.Error()})
	}
}

// server checks the server and the right to stream, each on its own.
func (c *checker) server(ctx context.Context) {
	var err error
	if c.info, err = ReadServer(ctx, c.conn, nil); err != nil {
		c.fail("", err)
	} else {
		c.fail("", c.info.Err())
		if c.info.UsedSenders >= c.info.MaxSenders {
			c.fail("", fmt.Errorf("all %d max_wal_senders of the server are in use; raise it there or end another replication connection", c.info.MaxSenders))
		}
	}
	repl, err := ConnectReplication(ctx, c.cfg.Conn)
	if err != nil {
		c.fail("database.user", err)
		return
	}
	_ = repl.Close(context.WithoutCancel(ctx))
}

func (c *checker) slot(ctx context.Context) {
	s, err := ReadSlot(ctx, c.conn, c.cfg.Slot)
	if err != nil {
		c.fail("slot.name", err)
		return
	}
	if c.info.Version == 0 {
		return // the server's settings could not be read; said already
	}
	if c.cfg.Failover && c.info.Version < 170000 {
		c.fail("slot.failover", fmt.Errorf("needs PostgreSQL 17 or newer; the server is %s", c.info.VersionText))
	}
	if !validSlotName(c.cfg.Slot) {
		c.fail("slot.name", fmt.Errorf("%q is not a slot name: 1 to 63 of a-z, 0-9 and _", c.cfg.Slot)) // as the property's own check says it
		return
	}
	switch {
	case s.Exists:
		c.fail("slot.name", Inputs{Server: c.info, SlotName: c.cfg.Slot, Slot: s}.checkSlot())
		if s.Active {
			c.fail("slot.name", fmt.Errorf("slot %s is in use by pid %d; stop that reader or choose another slot.name", c.cfg.Slot, s.ActivePID))
		}
	case c.cfg.HasOffsets:
		c.fail("slot.name", fmt.Errorf("slot %s does not exist, but the stream has offsets; %s", c.cfg.Slot, wayOut))
	case c.info.UsedSlots >= c.info.MaxSlots:
		c.fail("slot.name", fmt.Errorf("slot %s does not exist and all %d max_replication_slots are in use; raise it at the server or drop unused slots", c.cfg.Slot, c.info.MaxSlots))
	}
}

func validSlotName(name string) bool {
	return name != "" && len(name) <= 63 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func (c *checker) captured(refs []TableRef) []TableRef {
	var out []TableRef
	for _, r := range refs {
		if c.cfg.Captured == nil || c.cfg.Captured(r.Schema, r.Name) {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		c.fail("table.include.list", fmt.Errorf("no table of database %q is captured", c.cfg.Conn.Database))
	}
	return out
}

// include finds members of the include list that match no table.
func (c *checker) include(refs []TableRef) {
	for _, s := range c.cfg.Include {
		if slices.ContainsFunc(refs, func(r TableRef) bool { return s.Matches(r.Schema, r.Name) }) {
			continue
		}
		message := fmt.Sprintf("%q matches no table", s.Text)
		if near := nearest(s.Text, refs); len(near) > 0 {
			message += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		c.problems = append(c.problems, connectors.Problem{Property: "table.include.list", Message: message})
	}
}

// members finds members of the other lists that match nothing: an exclusion with a typing error would publish what it is to keep back.
func (c *checker) members(refs []TableRef, tables []*Table) {
	var names, columns []string
	for _, r := range refs {
		names = append(names, r.Schema+"."+r.Name)
	}
	for _, t := range tables {
		for _, column := range t.Columns {
			columns = append(columns, t.Schema+"."+t.Name+"."+column.Name)
		}
	}
	for _, m := range c.cfg.Members {
		among, what := names, "no table"
		if m.Columns {
			among, what = columns, "no column of a captured table"
		}
		if len(among) == 0 || slices.ContainsFunc(among, m.Matches) {
			continue // where nothing is captured that is said already
		}
		p := connectors.Problem{Property: m.Property, Message: fmt.Sprintf("%q matches %s", m.Text, what), Warning: true}
		if near := nearestNames(m.Text, among); len(near) > 0 { // else it may be there for what does not exist yet
			p.Message, p.Warning = p.Message+"; did you mean "+strings.Join(near, " or ")+"?", false
		}
		c.problems = append(c.problems, p)
	}
}

// keys reads the captured tables and finds each one's key.
func (c *checker) keys(ctx context.Context, captured []TableRef, pub Publication) ([]*Table, map[uint32][]string) {
	oids := make([]uint32, len(captured))
	for i, r := range captured {
		oids[i] = r.OID
	}
	tables, err := ReadTables(ctx, c.conn, oids...)
	if err != nil {
		c.fail("", err)
	}
	missing := map[uint32]bool{}
	for _, r := range pub.missing(captured) {
		missing[r.OID] = true
	}
	keys := map[uint32][]string{}
	for _, t := range tables {
		ops := pub.Ops
		if !pub.Exists || missing[t.OID] && c.cfg.Publication.Mode != Disabled {
			ops = AllOperations
		}
		var configured []string
		if c.cfg.KeyColumns != nil {
			configured = c.cfg.KeyColumns(t.Schema, t.Name)
		}
		key, err := KeyFor(t, configured, ops)
		c.fail("table.include.list", err)
		if err == nil && len(key) > 0 {
			keys[t.OID] = key
		}
	}
	return tables, keys
}

// publication checks what EnsurePublication would do, its rights, and the coverage after it.
func (c *checker) publication(ctx context.Context, pub Publication, captured []TableRef, tables []*Table, keys map[uint32][]string) {
	cfg := c.cfg.Publication
	cfg.Tables = captured
	statement, added, err := cfg.plan(pub)
	c.fail("publication.name", err)
	if statement != "" {
		c.rights(ctx, pub, added)
	}
	if !pub.Exists {
		return
	}
	for _, r := range added { // covered once the publication was extended
		t := PublishedTable{TableRef: r}
		for _, table := range tables {
			if table.OID == r.OID {
				for _, column := range table.Columns {
					t.Columns = append(t.Columns, column.Name)
				}
			}
		}
		pub.Tables = append(pub.Tables, t)
	}
	c.problems = append(c.problems, pub.Coverage(tables, keys)...)
}

// rights checks that the role may create or extend the publication.
func (c *checker) rights(ctx context.Context, pub Publication, added []TableRef) {
	const byHand = "or have the publication made by hand and set publication.autocreate.mode=disabled"
	var create bool
	if err := c.conn.QueryRow(ctx, "SELECT has_database_privilege(current_database(), 'CREATE')").Scan(&create); err != nil {
		c.fail("publication.autocreate.mode", fmt.Errorf("read the role's rights: %w", err))
		return
	}
	switch {
	case pub.Exists && !pub.Owned:
		c.fail("publication.autocreate.mode", fmt.Errorf("user %q does not own publication %s and cannot add tables to it; make it the owner, %s", c.info.User, pub.Name, byHand))
	case !pub.Exists && !create:
		c.fail("publication.autocreate.mode", fmt.Errorf("user %q lacks CREATE on database %q and cannot create publication %s; grant it, %s", c.info.User, c.info.Database, pub.Name, byHand))
	case !pub.Exists && c.cfg.Publication.Mode == AllTables && !c.info.Superuser:
		c.fail("publication.autocreate.mode", fmt.Errorf("user %q is no superuser and cannot create publication %s FOR ALL TABLES; choose filtered, %s", c.info.User, pub.Name, byHand))
	}
	oids := make([]uint32, len(added))
	for i, r := range added {
		oids[i] = r.OID
	}
	var foreign []string
	err := c.conn.QueryRow(ctx, `
SELECT array(SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE c.oid = ANY($1::oid[]) AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1)`, oids).Scan(&foreign)
	if err != nil {
		c.fail("publication.autocreate.mode", fmt.Errorf("read the owners of the captured tables: %w", err))
	}
	if len(foreign) > 0 {
		c.fail("publication.autocreate.mode", fmt.Errorf("user %q does not own %s and cannot add that to publication %s; make it or a role it belongs to the owner, %s", c.info.User, strings.Join(foreign, ", "), pub.Name, byHand))
	}
}
