package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/schema"
)

// copyRun is how many rows of a Copy are handed out at once.
const copyRun = 1024

// Copy reads a whole table as it is at a temporary slot's consistent point. See connectors.Reader.
func (r *reader) Copy(ctx context.Context, q connectors.CopyQuery, f func(connectors.CopyRows) error) error {
	return r.readError(q.Table, q.Where, r.selectError(q.Table, q.Initial, r.copy(ctx, q, f)))
}

func (r *reader) copy(ctx context.Context, q connectors.CopyQuery, f func(connectors.CopyRows) error) (err error) {
	now := r.stream.captured.get(q.Table)
	if now == nil {
		return connectors.Refuse(fmt.Errorf("read table %s: it is not captured", q.Table))
	}
	repl, err := catalog.ConnectReplication(ctx, r.set.conn)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = repl.Close(closing)
	}()
	at, run, err := r.beginCopy(ctx, repl, now)
	if err != nil {
		return err
	}
	p, err := r.planCopy(ctx, now, q)
	if err != nil {
		return err
	}
	run.Table, run.Place = p.plan.table, at
	if err := f(run); err != nil {
		return err
	}
	rows := newCopyRows(p.plan, nil)
	hand := func() error {
		run.Rows = rows.rows
		err := f(run)
		rows.reset()
		return err
	}
	rows.after = func() error {
		if len(rows.rows) < copyRun {
			return nil
		}
		return hand()
	}
	if err := rows.copyOut(ctx, repl, "SELECT "+rows.list()+" FROM "+p.from(q.Initial)+p.condition(q.Initial, q.Where)); err != nil {
		return err
	}
	if len(rows.rows) > 0 {
		return hand()
	}
	return nil
}

// beginCopy begins the transaction of a copy. The table is locked after its snapshot was taken, so that nobody waits for a lock
// of ours while the slot waits for older transactions; a table that was rewritten in between is read another time.
func (r *reader) beginCopy(ctx context.Context, repl *pgconn.PgConn, t *schema.Table) (place, connectors.CopyRows, error) {
	var random [4]byte
	_, _ = rand.Read(random[:])
	name := fmt.Sprintf("tidemark_copy_%d_%s", repl.PID(), hex.EncodeToString(random[:]))
	if _, err := repl.Exec(ctx, sessionSettings).ReadAll(); err != nil {
		return 0, connectors.CopyRows{}, err
	}
	lsn, err := catalog.BeginAtSlot(ctx, repl, r.conn, name, r.opts.Report)
	if err != nil {
		return 0, connectors.CopyRows{}, err
	}
	results, err := repl.Exec(ctx, "LOCK TABLE "+pgx.Identifier{t.Namespace, t.Name}.Sanitize()+" IN ACCESS SHARE MODE; SELECT "+nowMicros+", ("+catalog.Rewritten(uint32(t.ID))+")::text").ReadAll()
	if err != nil {
		return 0, connectors.CopyRows{}, err
	}
	row := results[len(results)-1].Rows[0]
	if string(row[1]) != "false" {
		return 0, connectors.CopyRows{}, connectors.WithClass(connectors.ClassWait, fmt.Errorf("read table %s: it was rewritten or truncated while the reading began", t.QualifiedName()))
	}
	at, err := strconv.ParseInt(string(row[0]), 10, 64)
	return place(lsn), connectors.CopyRows{ReadTime: at}, err
}

// planCopy plans over the other connection: the lock keeps the table as it is.
func (r *reader) planCopy(ctx context.Context, now *schema.Table, q connectors.CopyQuery) (*tablePlan, error) {
	defer r.rollback(ctx)
	if _, _, err := r.begin(ctx, now); err != nil {
		return nil, err
	}
	p, err := r.planTable(ctx, now)
	if err != nil {
		return nil, err
	}
	if err := r.checkOverride(ctx, p, q.Initial); err != nil {
		return nil, err
	}
	return p, r.checkCondition(ctx, p, q.Where)
}
