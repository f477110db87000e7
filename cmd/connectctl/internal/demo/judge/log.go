package judge

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// Log is what the database committed: every change by its position.
type Log struct {
	Changes      map[Position]Change
	Transactions int
}

// ReadLog reads all that a slot holds for a publication, and with it uses the slot up.
func ReadLog(ctx context.Context, conn *pgx.Conn, slot, publication string) (*Log, error) {
	rows, err := conn.Query(ctx, "SELECT data FROM pg_catalog.pg_logical_slot_get_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', $2, 'messages', 'true')",
		slot, pgx.Identifier{publication}.Sanitize())
	if err != nil {
		return nil, fmt.Errorf("read the second slot: %w", err)
	}
	defer rows.Close()
	d := newDecoder()
	for rows.Next() {
		var data pgtype.DriverBytes // read where it lies
		if err := rows.Scan(&data); err != nil {
			return nil, fmt.Errorf("read the second slot: %w", err)
		}
		if err := d.message(data); err != nil {
			return nil, fmt.Errorf("read the second slot: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the second slot: %w", err)
	}
	return &d.log, nil
}

// decoder numbers changes as section 1 of the stream contract says.
type decoder struct {
	pgoutput.Decoder
	log       Log
	relations map[uint32]pgoutput.Relation
	at        Position // of the next change
	any       bool     // the transaction has a change
}

func newDecoder() *decoder {
	return &decoder{log: Log{Changes: map[Position]Change{}}, relations: map[uint32]pgoutput.Relation{}}
}

func (d *decoder) message(data []byte) error {
	kind, err := d.Decode(data)
	if err != nil {
		return err
	}
	switch kind {
	case pgoutput.KindBegin:
		d.at, d.any = Position{LSN: d.Begin.FinalLSN}, false
	case pgoutput.KindCommit:
		if d.any {
			d.log.Transactions++
		}
	case pgoutput.KindRelation:
		d.relations[d.Relation.ID] = d.Relation
	case pgoutput.KindInsert:
		return d.change(d.Insert.RelationID, 'c')
	case pgoutput.KindDelete:
		return d.change(d.Delete.RelationID, 'd')
	case pgoutput.KindUpdate:
		rel, ok := d.relations[d.Update.RelationID]
		if !ok || !keyChanged(&rel, &d.Update) {
			return d.change(d.Update.RelationID, 'u')
		}
		if err := d.change(d.Update.RelationID, 'd'); err != nil {
			return err
		}
		return d.change(d.Update.RelationID, 'c')
	case pgoutput.KindTruncate:
		d.at.Seq += int64(len(d.Truncate.RelationIDs))
	case pgoutput.KindMessage:
		if d.Message.Transactional {
			d.at.Seq++
		}
	}
	return nil
}

func (d *decoder) change(relation uint32, op byte) error {
	rel, ok := d.relations[relation]
	if !ok {
		return fmt.Errorf("a change of relation %d came before its description", relation)
	}
	d.log.Changes[d.at] = Change{Table: rel.Name, Op: op}
	d.at.Seq++
	d.any = true
	return nil
}

// keyChanged compares the key columns by value: an old tuple alone says nothing.
func keyChanged(rel *pgoutput.Relation, u *pgoutput.Update) bool {
	if u.OldKind == pgoutput.OldNone {
		return false
	}
	for i := range rel.Columns {
		if !rel.Columns[i].Key() || i >= len(u.Old.Columns) || i >= len(u.New.Columns) {
			continue
		}
		was, is := &u.Old.Columns[i], &u.New.Columns[i]
		if is.Kind != pgoutput.ColumnUnchanged && (was.Kind != is.Kind || !bytes.Equal(was.Data, is.Data)) {
			return true
		}
	}
	return false
}
