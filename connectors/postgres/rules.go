package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// rules say what of the decoded changes is handed out. They come after the ordinals: what is left out has taken its own.
type rules struct {
	skipped   string // operations that are left out, one letter each
	truncates bool   // TRUNCATE is a change; else it blocks unless it is skipped
	messageIn patterns
	// messageOut leaves logical messages out; where both lists are empty all are handed out.
	messageOut patterns
}

const noOperations = "none"

// newRules reads skipped.operations and the lists of message prefixes.
func newRules(cfg connectors.Config) (r rules, err error) {
	for _, op := range cfg.List(propSkipped) {
		if op = strings.ToLower(op); op != noOperations {
			r.skipped += op
		}
	}
	// Without the property nobody has decided about TRUNCATE.
	r.truncates = cfg.IsSet(propSkipped) && !r.skips(connectors.OpTruncate)
	if r.messageIn, err = parsePatterns(cfg.String(propMessageInclude)); err != nil {
		return r, fmt.Errorf("%s: %w", propMessageInclude, err)
	}
	if r.messageOut, err = parsePatterns(cfg.String(propMessageExclude)); err != nil {
		return r, fmt.Errorf("%s: %w", propMessageExclude, err)
	}
	return r, nil
}

func checkOperations(v string) error {
	for _, op := range strings.Split(v, ",") {
		switch strings.ToLower(strings.TrimSpace(op)) {
		case "c", "u", "d", "t", noOperations:
		default:
			return fmt.Errorf("%q is not one of c (insert), u (update), d (delete), t (truncate) and none", strings.TrimSpace(op))
		}
	}
	return nil
}

func (r *rules) skips(op connectors.Op) bool {
	return r.skipped != "" && strings.IndexByte(r.skipped, byte(op)) >= 0
}

func (r *rules) message(prefix string) bool {
	return (len(r.messageIn) == 0 || r.messageIn.match(prefix)) && !r.messageOut.match(prefix)
}

// logicalMessage takes an ordinal. One outside of a transaction is a boundary of its own: the server has sent every
// commit before it. The message gives the end of its record, which the next commit can begin at, so it stands one byte before.
func (a *assembler) logicalMessage(ctx context.Context, m *pgoutput.Message) (step, error) {
	if m.Transactional != a.inTx {
		return stepMore, a.block(fmt.Errorf("the logical message at %s is on the wrong side of a transaction's border", m.LSN))
	}
	if !m.Transactional {
		if m.LSN <= a.after {
			return stepMore, nil
		}
		a.end, a.seq = m.LSN, 0
		a.previous = uint64(m.LSN)
		a.tx = connectors.Transaction{Pos: catalog.FormatPos(m.LSN - 1), CommitTime: a.clock, PreviousLSN: a.previous}
	}
	seq := a.next()
	if own, ok := parseSetMessage(m.Prefix, m.Content); ok && m.Transactional {
		return stepMore, a.changeSet(ctx, &own)
	}
	if own, ok := parseOurs(m.Prefix, m.Content); ok && m.Transactional {
		if own.Marker != "" {
			a.markers = append(a.markers, own.Marker)
		}
		return stepMore, nil
	}
	prefix := string(m.Prefix)
	if a.rules.message(prefix) {
		a.changes = append(a.changes, connectors.Change{
			Op: connectors.OpMessage, Seq: seq, LSN: uint64(m.LSN),
			Message: &connectors.Message{Prefix: prefix, Content: m.Content, Transactional: m.Transactional},
		})
		a.published++
		if !m.Transactional {
			a.final = m.LSN - 1
			return stepCommit, nil
		}
	}
	if m.Transactional {
		return stepMore, nil
	}
	return stepEmpty, nil
}

// truncate is a change of every table of the message, in its order.
func (a *assembler) truncate(m *pgoutput.Truncate) error {
	for _, id := range m.RelationIDs {
		rel, err := a.relation(id)
		if err != nil {
			return err
		}
		seq := a.next()
		switch {
		case rel.table == nil || a.rules.skips(connectors.OpTruncate):
		case !a.rules.truncates:
			return a.block(fmt.Errorf("table %s was truncated, and rows published before would stay at the consumers; ways out: publish it (%s=none, one record without key in each partition), "+
				"pass over it (%s=t), both of which go on at this place; leave the table out (table.exclude.list); or drop the slot and run connectctl offsets reset WORKER CONNECTOR, which starts at the present",
				rel.name, propSkipped, propSkipped))
		default:
			a.changes = append(a.changes, connectors.Change{Op: connectors.OpTruncate, Table: rel.table, Seq: seq, LSN: a.lsn})
			a.published++
		}
	}
	return nil
}
