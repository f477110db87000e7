package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/catalog"
)

// ourPrefix is the prefix of the logical messages that we write ourselves, in transactions of their own. They take their ordinal
// and are never published. A message of somebody else's under it that has none of the forms here is one like any other.
const ourPrefix = "tidemark"

// ourMessage is the content of such a message: one of the members is set, and there are no others.
type ourMessage struct {
	Marker string `json:"marker,omitempty"` // nonce of a Mark
	Chunk  string `json:"chunk,omitempty"`  // table of a chunk: it only moves the stream past what the chunk has seen
}

// ourContent writes the content in the one form that parseOurs takes.
func ourContent(m ourMessage) string {
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

// parseOurs reads a message of ours: exactly what ourContent writes.
func parseOurs(prefix, content []byte) (m ourMessage, ok bool) {
	if string(prefix) != ourPrefix || len(content) == 0 || content[0] != '{' {
		return m, false
	}
	if json.Unmarshal(content, &m) != nil || (m.Marker == "") == (m.Chunk == "") {
		return ourMessage{}, false
	}
	return m, ourContent(m) == string(content)
}

// takeMarkers hands out the nonces of the markers since the boundary before.
func (a *assembler) takeMarkers() []string {
	if a.inTx { // the boundary is that of transactions before this one
		return nil
	}
	m := a.markers
	a.markers = nil
	return m
}

// emitQuery writes a message whose commit waits for no standby.
func emitQuery(m ourMessage) string {
	return "SELECT pg_logical_emit_message(true, " + literal(ourPrefix) + ", " + literal(ourContent(m)) + ")::text"
}

// literal quotes a text for SQL; our sessions have standard_conforming_strings on.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Mark writes a marker into the log. See connectors.Snapshotter.
func (s *Source) Mark(ctx context.Context, nonce string) error {
	st := s.current()
	if st == nil {
		return errClosed
	}
	if nonce == "" {
		return errors.New("write a marker: it has no nonce")
	}
	err := st.sentinel.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, "SET LOCAL synchronous_commit = local; "+emitQuery(ourMessage{Marker: nonce})).ReadAll()
		return err
	})
	if sqlState(err) == "42501" {
		return connectors.Refuse(errors.New("write a marker into the log: the role may not execute pg_logical_emit_message; GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) TO it"))
	}
	if err != nil {
		return fmt.Errorf("write a marker into the log: %w", err)
	}
	return nil
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Wake makes a blocked Next return at its next boundary. See connectors.Snapshotter.
func (s *Source) Wake() {
	if st := s.current(); st != nil {
		st.wake(&st.wakeDue)
	}
}

// Position is the __pos of rows that are published at the boundary last handed out. See connectors.Snapshotter.
func (s *Source) Position() string {
	st := s.current()
	if st == nil {
		return ""
	}
	return st.rowsPosition()
}

// rowsPosition is the last transaction's before the boundary. After a start that is not known; what stands then sorts after
// every transaction that ends there, and is no commit's: a boundary is the end of a record, which is longer than one byte.
func (s *stream) rowsPosition() string {
	if s.lastPos != "" {
		return s.lastPos
	}
	return catalog.FormatPos(s.position.BoundaryLSN - 1)
}
