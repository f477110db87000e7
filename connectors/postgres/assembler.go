package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
)

// step says what a message meant for the batch being assembled.
type step uint8

const (
	stepMore   step = iota // nothing to hand out yet
	stepCommit             // a transaction with captured changes is complete
	stepEmpty              // a boundary without captured changes: an empty transaction, a message outside of one
)

// describer turns a Relation message into the plan for its rows, and refuses one that the stream must not pass.
type describer interface {
	describe(ctx context.Context, rel *pgoutput.Relation) (*relation, error)
	// relabel plans a table again that a Relation message described before.
	relabel(ctx context.Context, oid uint32, unknown *values.UnknownLabelError) (*relation, error)
	// changeSet changes the set of captured tables; nil where that was done already.
	changeSet(ctx context.Context, c *setChange, place pgoutput.LSN) (*setResult, error)
}

// assembler turns pgoutput messages into changes. It does no I/O; what it hands out lies in the
// messages and in its own slabs and is valid until reset.
type assembler struct {
	decoder   pgoutput.Decoder
	describer describer
	rules     rules
	reselect  bool // values that the log did not carry are read from the table
	relations map[uint32]*relation
	last      *relation // the relation of the last row, most often that of the next
	lastID    uint32

	after pgoutput.LSN // transactions that end here or before are published: skipped
	xid   uint64       // highest 64-bit transaction id known, the reference for the 32-bit ones

	highest uint64 // highest transaction id decoded

	inTx      bool
	skip      bool
	final     pgoutput.LSN // of the transaction: its commit record
	end       pgoutput.LSN // of the last stepCommit or stepEmpty: the boundary
	tx        connectors.Transaction
	seq       int64  // ordinal of the next change
	lsn       uint64 // of the message at hand, as XLogData gives it
	clock     int64  // the server's when it sent it, microseconds since the Unix epoch
	previous  uint64 // end of the transaction before it
	published int64  // captured changes of the transaction

	server   string     // of the stream
	set      *setResult // change of the table set since the last boundary
	markers  []string   // nonces of our markers since the last boundary
	captured *captured
	bounds   *bounds

	changes    []connectors.Change
	incomplete []incomplete
	rows       slab
	arena      values.Arena
}

func newAssembler(d describer, after pgoutput.LSN, xid uint64) *assembler {
	return &assembler{describer: d, relations: map[uint32]*relation{}, after: after, xid: xid, previous: uint64(after)}
}

// reset takes back the changes handed out.
func (a *assembler) reset() {
	a.changes, a.incomplete = a.changes[:0], a.incomplete[:0]
	a.rows.reset()
	a.arena.Reset()
}

// message takes one pgoutput message. Errors block: they would recur on the same bytes.
func (a *assembler) message(ctx context.Context, src []byte) (step, error) {
	if a.skip && len(src) > 0 && skippable(pgoutput.Kind(src[0])) {
		return stepMore, nil
	}
	kind, err := a.decoder.Decode(src)
	if err != nil {
		return stepMore, a.block(err)
	}
	switch kind {
	case pgoutput.KindBegin:
		return stepMore, a.begin(&a.decoder.Begin)
	case pgoutput.KindCommit:
		return a.commit(&a.decoder.Commit)
	case pgoutput.KindMessage:
		return a.logicalMessage(ctx, &a.decoder.Message)
	case pgoutput.KindRelation:
		return stepMore, a.describe(ctx, &a.decoder.Relation)
	case pgoutput.KindOrigin, pgoutput.KindType:
		return stepMore, nil
	}
	if !a.inTx {
		return stepMore, a.block(fmt.Errorf("the server sent %s outside of a transaction", kind))
	}
	switch kind {
	case pgoutput.KindInsert, pgoutput.KindUpdate, pgoutput.KindDelete:
		return stepMore, a.change(ctx, kind)
	case pgoutput.KindTruncate:
		return stepMore, a.truncate(&a.decoder.Truncate)
	}
	return stepMore, a.block(fmt.Errorf("the server sent an unexpected message: %s", kind))
}

func skippable(k pgoutput.Kind) bool {
	switch k {
	case pgoutput.KindInsert, pgoutput.KindUpdate, pgoutput.KindDelete, pgoutput.KindTruncate, pgoutput.KindMessage:
		return true
	}
	return false
}

func (a *assembler) begin(m *pgoutput.Begin) error {
	if a.inTx {
		return a.block(fmt.Errorf("the server began the transaction at %s inside another", m.FinalLSN))
	}
	a.inTx, a.final, a.seq, a.published = true, m.FinalLSN, 0, 0
	// A boundary is the end of a record: a commit record that begins before it ends at or before it.
	a.skip = m.FinalLSN < a.after
	id := wideXid(a.xid, m.Xid)
	a.xid, a.highest = max(a.xid, id), max(a.highest, id)
	a.tx = connectors.Transaction{ID: id, CommitTime: m.CommitTime, BeginLSN: a.lsn, PreviousLSN: a.previous}
	if a.skip {
		a.bounds.passed(id)
	} else {
		a.tx.Pos = catalog.FormatPos(m.FinalLSN)
	}
	return nil
}

func (a *assembler) commit(m *pgoutput.Commit) (step, error) {
	if !a.inTx || m.CommitLSN != a.final {
		return stepMore, a.block(fmt.Errorf("the server sent the commit at %s without its begin", m.CommitLSN))
	}
	if a.skip && m.EndLSN > a.after {
		return stepMore, a.block(fmt.Errorf("the stored boundary %s lies inside of the commit record that ends at %s", a.after, m.EndLSN))
	}
	a.inTx = false
	a.tx.EndLSN, a.previous = a.lsn, a.lsn
	if a.skip {
		a.skip = false
		return stepMore, nil
	}
	a.end = m.EndLSN
	if a.published > 0 {
		return stepCommit, nil
	}
	return stepEmpty, nil
}

func (a *assembler) describe(ctx context.Context, m *pgoutput.Relation) error {
	rel, err := a.describer.describe(ctx, m)
	if err != nil {
		return a.at(err)
	}
	a.relations[m.ID] = rel
	a.last, a.lastID = rel, m.ID
	a.captured.put(rel.table)
	return nil
}

// changeSet changes the set of captured tables from here on.
func (a *assembler) changeSet(ctx context.Context, m *setMessage) error {
	if m.Server != a.server {
		return nil // of another stream of the database
	}
	r, err := a.describer.changeSet(ctx, m.Tables, a.final)
	if err != nil || r == nil {
		return a.at(err)
	}
	for oid, plan := range r.plans {
		a.relations[oid] = plan
	}
	a.last = nil
	for _, t := range r.left {
		a.captured.remove(t.QualifiedName())
	}
	for _, t := range r.joined {
		// What was committed before here is not captured and may be visible only later, also with an id above the message's.
		a.bounds.raise(t.QualifiedName())
		a.captured.put(t)
	}
	if a.set == nil {
		a.set = r
	} else {
		a.set.take(r)
	}
	return nil
}

// takeSet hands out the change of the set that the boundary closes.
func (a *assembler) takeSet() *setResult {
	if a.inTx { // the boundary is that of transactions before this one
		return nil
	}
	r := a.set
	a.set = nil
	return r
}

func (a *assembler) relation(id uint32) (*relation, error) {
	if id == a.lastID && a.last != nil {
		return a.last, nil
	}
	rel := a.relations[id]
	if rel == nil {
		return nil, a.block(fmt.Errorf("the server sent a change of the table with OID %d without describing it", id))
	}
	a.last, a.lastID = rel, id
	return rel, nil
}

// block marks err as one that recurs on the same bytes and says where it is.
func (a *assembler) block(err error) error { return connectors.Block(a.at(err)) }

func (a *assembler) at(err error) error {
	if !a.inTx || err == nil {
		return err
	}
	return fmt.Errorf("transaction at %s: %w", a.final, err)
}

// wideXid extends a 32-bit transaction id to 64 bits: the one nearest to the reference.
func wideXid(reference uint64, xid uint32) uint64 {
	wide := int64(reference) + int64(int32(xid-uint32(reference)))
	if wide < 0 {
		return uint64(xid)
	}
	return uint64(wide)
}

var errNoOldTuple = errors.New("the log carries no old row for it: the table needs REPLICA IDENTITY FULL or a key")
