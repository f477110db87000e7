package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var setup = []string{
	`CREATE TABLE keyed(id int PRIMARY KEY, n int, s text, at timestamptz DEFAULT clock_timestamp())`,
	`CREATE TABLE pair(b text, a int, n int, d numeric(12,2), PRIMARY KEY (a, b))`,
	`CREATE TABLE toast(id int PRIMARY KEY, n int, big text); ALTER TABLE toast ALTER big SET STORAGE EXTERNAL`,
	`CREATE TABLE wholly(id int PRIMARY KEY, n int, big text); ALTER TABLE wholly ALTER big SET STORAGE EXTERNAL; ALTER TABLE wholly REPLICA IDENTITY FULL`,
	`CREATE TABLE keyless(n int, s text); ALTER TABLE keyless REPLICA IDENTITY FULL`,
	`CREATE TABLE parted(id int, at int, s text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)`,
	`CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (100)`,
	`CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM (100) TO (200)`,
	`CREATE TABLE evolving(id int PRIMARY KEY, base int)`,
	`CREATE TABLE bulk(id int PRIMARY KEY, v text)`,
	`CREATE TABLE hot(id int PRIMARY KEY, n bigint); INSERT INTO hot SELECT g, 0 FROM generate_series(1, 5) g`,
	`CREATE TABLE elsewhere(id int, v text)`,
}

const published = "FOR TABLE keyed, pair, toast, wholly, keyless, parted, evolving, bulk, hot WITH (publish_via_partition_root = true)"

// tables are the published ones with their keys.
var tables = map[string][]string{
	"keyed": {"id"}, "pair": {"a", "b"}, "toast": {"id"}, "wholly": {"id"}, "keyless": nil, "parted": {"id", "at"}, "evolving": {"id"}, "bulk": {"id"}, "hot": {"id"},
}

// load is the sessions of one round.
type load struct {
	url    string
	column *atomic.Int64 // of the newest column that was added to evolving
	wg     sync.WaitGroup
	over   atomic.Bool // the faults are

	transactions, failed atomic.Int64
	said                 atomic.Pointer[string] // a mistake of the load itself
}

// startLoad starts some sessions. The column numbers are the stream's.
func startLoad(ctx context.Context, url string, rnd *rand.Rand, column *atomic.Int64) *load {
	l := &load{url: url, column: column}
	sessions := 2 + rnd.IntN(3)
	huge := rnd.IntN(60) == 0
	for i := range sessions {
		s := &session{load: l, id: i, rnd: rand.New(rand.NewPCG(rnd.Uint64(), uint64(i))), huge: huge && i == 0}
		n := 3 + s.rnd.IntN(18)
		l.wg.Go(func() { s.run(ctx, n) })
	}
	return l
}

// end waits for the sessions, which go on while faults strike, up to a limit.
func (l *load) end() {
	l.over.Store(true)
	l.wg.Wait()
}

// session makes random transactions.
type session struct {
	*load
	id   int
	rnd  *rand.Rand
	conn *pgx.Conn
	huge bool
}

func (s *session) run(ctx context.Context, n int) {
	defer func() {
		if s.conn != nil {
			closeConn(s.conn)
		}
	}()
	for i := 0; (i < n || i < 5*n && !s.over.Load()) && ctx.Err() == nil; i++ {
		text := s.transaction()
		if err := s.execute(ctx, text); err == nil {
			s.transactions.Add(1)
		} else {
			s.failed.Add(1)
		}
		if s.rnd.IntN(8) == 0 { // an idle gap
			pause(ctx, time.Duration(s.rnd.IntN(200))*time.Millisecond)
		} else {
			pause(ctx, time.Duration(s.rnd.IntN(15))*time.Millisecond)
		}
	}
}

// execute runs a transaction once; it is not repeated where it fails, since the database may have it all the same.
func (s *session) execute(ctx context.Context, text string) error {
	for deadline := time.Now().Add(30 * time.Second); s.conn == nil || s.conn.IsClosed(); {
		conn, err := connect(ctx, s.url)
		if err == nil {
			s.conn = conn
			break
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
	_, err := s.conn.PgConn().Exec(ctx, text).ReadAll()
	if err == nil {
		return nil
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && strings.HasPrefix(pg.Code, "42") && pg.Code != "42703" { // 42703: another session dropped the column
		said := fmt.Sprintf("%s: %v", text, err)
		s.said.CompareAndSwap(nil, &said)
	}
	if !s.conn.IsClosed() {
		_, _ = s.conn.PgConn().Exec(ctx, "ROLLBACK").ReadAll()
	}
	return err
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["timezone"], cfg.RuntimeParams["bytea_output"], cfg.RuntimeParams["datestyle"] = "UTC", "hex", "ISO"
	cfg.ConnectTimeout = 5 * time.Second
	return pgx.ConnectConfig(ctx, cfg)
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// transaction is the SQL of one transaction.
func (s *session) transaction() string {
	if s.huge {
		s.huge = false
		return "INSERT INTO bulk SELECT g, md5(g::text) FROM generate_series(1000000, 1099999) g ON CONFLICT (id) DO UPDATE SET v = excluded.v || 'x'"
	}
	var b strings.Builder
	switch k := s.rnd.IntN(40); {
	case k == 0:
		return s.schemaChange()
	case k == 1:
		return "TRUNCATE " + []string{"keyed", "bulk", "keyless", "pair, bulk"}[s.rnd.IntN(4)]
	case k == 2: // outside of any transaction
		return "SELECT pg_logical_emit_message(false, 'm', 'alone')"
	}
	b.WriteString("BEGIN;")
	for n := s.size(); n > 0; n-- {
		s.change(&b)
		switch s.rnd.IntN(24) {
		case 0:
			b.WriteString("SAVEPOINT s; UPDATE keyed SET n = -1; DELETE FROM pair; ROLLBACK TO s;")
		case 1:
			b.WriteString("SAVEPOINT s; ")
			s.change(&b)
			b.WriteString("RELEASE s;")
		case 2: // other sessions commit first what began later
			fmt.Fprintf(&b, "SELECT pg_sleep(%.3f);", s.rnd.Float64()*0.05)
		}
	}
	if s.rnd.IntN(15) == 0 {
		b.WriteString("ROLLBACK")
	} else {
		b.WriteString("COMMIT")
	}
	return b.String()
}

func (s *session) size() int {
	if s.rnd.IntN(12) == 0 {
		return 20 + s.rnd.IntN(60)
	}
	return 1 + s.rnd.IntN(6)
}

// change appends one or several statements.
func (s *session) change(b *strings.Builder) {
	id, other := s.rnd.IntN(400), s.rnd.IntN(400)
	big := "NULL"
	if s.rnd.IntN(3) == 0 {
		big = fmt.Sprintf("repeat('%d', 3000)", s.rnd.IntN(10))
	}
	switch s.rnd.IntN(20) {
	case 0, 1:
		fmt.Fprintf(b, "INSERT INTO keyed(id, n, s) VALUES (%d, %d, 's%d') ON CONFLICT (id) DO UPDATE SET n = keyed.n + 1;", id, other, s.id)
	case 2, 3:
		fmt.Fprintf(b, "UPDATE keyed SET n = n + 1, s = NULL WHERE id BETWEEN %d AND %d;", id, id+5)
	case 4:
		fmt.Fprintf(b, "DELETE FROM keyed WHERE id BETWEEN %d AND %d;", id, id+2)
	case 5:
		fmt.Fprintf(b, "UPDATE keyed SET id = %d WHERE id = %d AND NOT EXISTS (SELECT FROM keyed WHERE id = %d);", other, id, other)
	case 6:
		fmt.Fprintf(b, "INSERT INTO pair VALUES ('%d', %d, 1, %d.25) ON CONFLICT (a, b) DO UPDATE SET n = pair.n + 1;", id%7, other%60, id)
	case 7:
		fmt.Fprintf(b, "UPDATE pair SET b = 'p%d' WHERE a = %d AND b = '%d' AND NOT EXISTS (SELECT FROM pair WHERE a = %d AND b = 'p%d'); DELETE FROM pair WHERE a = %d;", id%7, other%60, id%7, other%60, id%7, (other+7)%60)
	case 8, 9:
		t := []string{"toast", "wholly"}[s.rnd.IntN(2)]
		fmt.Fprintf(b, "INSERT INTO %s VALUES (%d, 0, %s) ON CONFLICT (id) DO UPDATE SET n = %s.n + 1;", t, id%50, big, t)
	case 10:
		t := []string{"toast", "wholly"}[s.rnd.IntN(2)]
		fmt.Fprintf(b, "UPDATE %s SET big = %s WHERE id = %d; UPDATE %s SET id = %d WHERE id = %d AND NOT EXISTS (SELECT FROM %s WHERE id = %d); DELETE FROM %s WHERE id = %d;",
			t, big, id%50, t, other%50, id%50, t, other%50, t, (id+1)%50)
	case 11:
		fmt.Fprintf(b, "INSERT INTO keyless VALUES (%d, 's%d'), (%d, NULL);", id%20, s.id, id%20)
	case 12:
		fmt.Fprintf(b, "UPDATE keyless SET n = n + 1 WHERE n = %d; DELETE FROM keyless WHERE n = %d;", id%20, other%20)
	case 13:
		fmt.Fprintf(b, "INSERT INTO parted VALUES (%d, %d, 'x') ON CONFLICT (id, at) DO UPDATE SET s = 'y'; UPDATE parted SET at = 199 - at WHERE id = %d AND at <> 199 - at AND NOT EXISTS (SELECT FROM parted p WHERE p.id = %d AND p.at = 199 - parted.at);",
			id%40, other%200, other%40, other%40)
	case 14:
		fmt.Fprintf(b, "DELETE FROM parted WHERE id = %d;", id%40)
	case 15:
		fmt.Fprintf(b, "INSERT INTO evolving(id, base) VALUES (%d, 0) ON CONFLICT (id) DO UPDATE SET base = evolving.base + 1;", id%80)
		if c := s.column.Load(); c > 0 && s.rnd.IntN(2) == 0 {
			fmt.Fprintf(b, "UPDATE evolving SET c%d = '%d' WHERE id = %d;", c, other, other%80)
		}
	case 16, 17:
		fmt.Fprintf(b, "UPDATE hot SET n = n + 1 WHERE id = %d;", 1+id%5)
	case 18:
		rows := 1 + s.rnd.IntN(60)
		if s.rnd.IntN(12) == 0 {
			rows = 1 + s.rnd.IntN(5000)
		}
		fmt.Fprintf(b, "INSERT INTO bulk SELECT g, md5((g * %d)::text) FROM generate_series(%d, %d) g ON CONFLICT (id) DO UPDATE SET v = excluded.v; DELETE FROM bulk WHERE id >= 4000 OR id %% 3 = %d;", other, id*10, id*10+rows, id%3)
	default:
		fmt.Fprintf(b, "INSERT INTO elsewhere VALUES (%d, 'x'); SELECT pg_logical_emit_message(%t, 'm', 'x%d');", id, s.rnd.IntN(2) == 0, id)
	}
}

// schemaChange adds a column that no one had before, and drops the third but last; rows before and after it are in the transaction.
func (s *session) schemaChange() string {
	n := s.column.Add(1)
	text := fmt.Sprintf("BEGIN; UPDATE evolving SET base = base + 1 WHERE id %% 7 = %d; ALTER TABLE evolving ADD c%d text, DROP IF EXISTS c%d; UPDATE evolving SET c%d = 'new' WHERE id %% 9 = %d; COMMIT",
		s.rnd.IntN(7), n, max(n-3, 0), n, s.rnd.IntN(9))
	return text
}
