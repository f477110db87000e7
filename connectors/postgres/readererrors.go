package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-cdc/tidemark/connectors"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/values"
)

// passing are the classes and codes of errors that are not the table's: the server or the connection is to blame, and it may pass.
var passing = []string{"08", "25", "40", "53", "55", "57", "58", "72"}

// readOnly is the code of a statement that would write in a transaction that reads, as all reading does.
const readOnly = "25006"

// readError says what an error of a read means. An error of the table itself is refused: it would come again.
func (r *reader) readError(table, where string, err error) error {
	if err == nil {
		return nil
	}
	var unknown *values.UnknownLabelError
	if errors.As(err, &unknown) {
		delete(r.tables, table)
		clear(r.types)
		return connectors.WithClass(connectors.ClassWait, fmt.Errorf("read table %s: %w", table, err))
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if connectors.ClassOf(err) != connectors.ClassWait {
			return err
		}
		return fmt.Errorf("read table %s: %w", table, err)
	}
	for _, class := range passing {
		if strings.HasPrefix(pg.Code, class) && (where == "" || pg.Code != readOnly) {
			return connectors.WithClass(connectors.ClassWait, fmt.Errorf("read table %s: %s (SQLSTATE %s)", table, pg.Message, pg.Code))
		}
	}
	return connectors.Refuse(errors.New("read table " + table + ": " + reason(pg, where)))
}

// selectError turns an error of a statement that selects a table's initial rows into a refusal that names it.
func (r *reader) selectError(table string, initial bool, err error) error {
	var pg *pgconn.PgError
	if !initial || r.set.snapshot.overrides[table] == "" || !errors.As(err, &pg) {
		return err
	}
	for _, class := range passing {
		if strings.HasPrefix(pg.Code, class) && pg.Code != readOnly {
			return err
		}
	}
	return connectors.Refuse(fmt.Errorf("%s.%s: %s", propSnapshotOverride, table, overrideError(err)))
}

// reason is one sentence without values: the server's own words may have some of a row.
func reason(pg *pgconn.PgError, where string) string {
	switch {
	case pg.Code == "42P01" || pg.Code == "3F000":
		return "it does not exist any more"
	case pg.Code == "42501" && pg.Routine == "check_enable_rls":
		return "row-level security hides rows of it from the role; ALTER ROLE … BYPASSRLS, or exempt the role from the policies by making it the owner"
	case pg.Code == "42501":
		return "the role may not read it: GRANT SELECT ON it, and USAGE ON its schema, TO the role (" + pg.Message + ")"
	case pg.Code == readOnly:
		return fmt.Sprintf("the condition %q cannot be used: it writes to the database (%s)", where, pg.Message)
	case where != "" && strings.HasPrefix(pg.Code, "22"):
		return fmt.Sprintf("the condition %q fails on a row (SQLSTATE %s)", where, pg.Code)
	case strings.HasPrefix(pg.Code, "22"):
		return fmt.Sprintf("the place where reading is to go on does not fit the types of the key any more (SQLSTATE %s); stop its snapshot and begin it anew", pg.Code)
	case pg.Code == "42883":
		return "the columns to read it by have a type without an order (" + pg.Message + ")"
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", pg.Message, pg.Code)
}

// conditionError says why a condition cannot be used; what it quotes is of the condition alone.
func (r *reader) conditionError(table, where string, err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return r.readError(table, where, err)
	}
	for _, class := range passing {
		if strings.HasPrefix(pg.Code, class) {
			return r.readError(table, where, err)
		}
	}
	more := ""
	if pg.Code == "42883" || pg.Code == "42704" || pg.Code == "42P01" {
		more = "; names outside of pg_catalog are written with their schema"
	}
	return connectors.Refuse(fmt.Errorf("read table %s: the condition %q cannot be used: %s%s", table, where, pg.Message, more))
}
