package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// startReplication takes the socket from pgconn and begins to stream. The options are always the
// same: ordinals depend on what the server sends.
func startReplication(ctx context.Context, repl *pgconn.PgConn, slot, publication string, from pgoutput.LSN) (net.Conn, error) {
	// A role may hide warnings, and one of them is about lost changes.
	if _, err := repl.Exec(ctx, "SET client_min_messages = warning").ReadAll(); err != nil {
		return nil, fmt.Errorf("start replication: %w", err)
	}
	if err := repl.SyncConn(ctx); err != nil {
		return nil, fmt.Errorf("start replication: %w", err)
	}
	hijacked, err := repl.Hijack()
	if err != nil {
		return nil, fmt.Errorf("start replication: %w", err)
	}
	conn := hijacked.Conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = beginCopy(conn, startCommand(slot, publication, from))
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		_ = conn.Close()
		return nil, startError(slot, err)
	}
	return conn, nil
}

func startCommand(slot, publication string, from pgoutput.LSN) string {
	name := strings.ReplaceAll(pgx.Identifier{publication}.Sanitize(), `'`, `''`)
	return fmt.Sprintf(`START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names '%s', messages 'true')`,
		pgx.Identifier{slot}.Sanitize(), from, name)
}

// beginCopy sends the command and reads up to the server's CopyBothResponse, byte by byte as it
// were: what follows belongs to the stream's own buffer.
func beginCopy(conn net.Conn, command string) error {
	msg := append([]byte{'Q'}, 0, 0, 0, 0)
	msg = append(append(msg, command...), 0)
	binary.BigEndian.PutUint32(msg[1:], uint32(len(msg)-1))
	if _, err := conn.Write(msg); err != nil {
		return err
	}
	for {
		kind, body, err := readMessage(conn)
		if err != nil {
			return err
		}
		switch kind {
		case 'W':
			return nil
		case 'E':
			return serverError(body)
		case 'N', 'S', 'A':
		default:
			return fmt.Errorf("the server answered START_REPLICATION with message kind %q", kind)
		}
	}
}

// readMessage reads exactly one message.
func readMessage(conn net.Conn) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n < 4 || n > 1<<20 {
		return 0, nil, fmt.Errorf("a message of kind %q has the length %d", head[0], n)
	}
	body = make([]byte, n-4)
	_, err = io.ReadFull(conn, body)
	return head[0], body, err
}

// serverError decodes an ErrorResponse.
func serverError(body []byte) error {
	var msg pgproto3.ErrorResponse
	if err := msg.Decode(body); err != nil {
		return fmt.Errorf("read error of the server: %w", err)
	}
	return pgconn.ErrorResponseToPgError(&msg)
}

// startError says what a refused START_REPLICATION means.
func startError(slot string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("start replication from slot %s: %w", slot, err)
	}
	switch pg.Code {
	case "55006": // object in use
		return connectors.WithClass(connectors.ClassWait, fmt.Errorf("slot %s is in use: %s", slot, pg.Message))
	case "42704", "55000", "58P01", "0A000":
		return connectors.Refuse(fmt.Errorf("slot %s cannot be read: %s; reset the stream, or restore the slot", slot, pg.Message))
	}
	return fmt.Errorf("start replication from slot %s: %w", slot, err)
}

// streamError says what an error in the middle of the stream means.
func streamError(slot, publication string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Errorf("read replication stream: %w", err)
	}
	switch {
	case shuttingDown(err):
		return connectors.WithClass(connectors.ClassWait, errShutdown)
	case pg.Code == "42704" && (strings.Contains(pg.Message, publication) || pg.Routine == "get_publication_oid"):
		return connectors.Block(publicationYounger(publication))
	case pg.Code == "55000" || pg.Code == "58P01":
		return connectors.Refuse(fmt.Errorf("slot %s cannot be read any more: %s; reset the stream", slot, pg.Message))
	case pg.Code == "XX001" || pg.Code == "XX002":
		return connectors.Block(fmt.Errorf("the server cannot decode its log: %s", pg.Message))
	}
	return fmt.Errorf("read replication stream: %w", err)
}

var errShutdown = errors.New("the server is shutting down, or an administrator ended the session")

// publicationYounger is the reason of 14 to 17's error and of 18's warning.
func publicationYounger(publication string) error {
	return fmt.Errorf("publication %s did not exist yet at the slot's place in the log, so the server cannot tell which changes belong to it: "+
		"they are not published; drop the slot and reset the stream, with the publication in place first", publication)
}

// lostChanges tells whether a notice says that the server goes on without the publication (18 and later).
func lostChanges(body []byte) bool {
	var msg pgproto3.NoticeResponse
	if msg.Decode(body) != nil {
		return false
	}
	return msg.Routine == "LoadPublications" || (msg.Code == "55000" && strings.Contains(msg.Message, "publication"))
}
