package promotion

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-cdc/tidemark/integration/env"
	"github.com/tidemark-cdc/tidemark/integration/harness"
)

var setup = []string{
	`CREATE SEQUENCE ids; CREATE TABLE a(id bigint PRIMARY KEY DEFAULT nextval('ids'), n int NOT NULL DEFAULT 0, big text); ALTER TABLE a ALTER big SET STORAGE EXTERNAL`,
	`CREATE TABLE hot(k int PRIMARY KEY, n int NOT NULL); ALTER TABLE hot REPLICA IDENTITY FULL`,
	`CREATE TABLE elsewhere(id int)`,
}

const captured = "FOR TABLE a, hot"

// load is what an application does that follows its primary: a session lost is opened anew, on the primary of that moment.
type load struct {
	database string
	primary  atomic.Pointer[env.Postgres]
	done     atomic.Int64 // transactions
	stop     func()
}

func startLoad(t *testing.T, s *harness.Stream, writers int, seed uint64) *load {
	l := &load{database: s.DB.Name}
	l.primary.Store(s.DB.Server)
	ctx, cancel := context.WithCancel(s.Ctx)
	var wg sync.WaitGroup
	for i := range writers {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				l.session(ctx, rnd)
			}
		})
	}
	l.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(l.stop)
	return l
}

// session writes until its connection or its server is the application's no longer.
func (l *load) session(ctx context.Context, rnd *rand.Rand) {
	server := l.primary.Load()
	dial, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(dial, server.URL(l.database))
	if err != nil {
		time.Sleep(20 * time.Millisecond)
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil && l.primary.Load() == server {
		if _, err := conn.PgConn().Exec(ctx, transaction(rnd)).ReadAll(); err != nil {
			return
		}
		l.done.Add(1)
		time.Sleep(time.Duration(rnd.IntN(40)) * time.Millisecond)
	}
}

// transaction is one random transaction's SQL; it never fails, whatever the others do.
func transaction(rnd *rand.Rand) string {
	const some = "(SELECT id FROM a WHERE id >= %d ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
	var b strings.Builder
	b.WriteString("BEGIN;")
	for range 1 + rnd.IntN(6) {
		id := rnd.IntN(2000)
		switch rnd.IntN(8) {
		case 0, 1, 2:
			fmt.Fprintf(&b, "INSERT INTO a(n, big) VALUES (%d, %s);", id, []string{"NULL", "repeat('b', 3000)"}[rnd.IntN(2)])
		case 3:
			fmt.Fprintf(&b, "UPDATE a SET n = n + 1 WHERE id = "+some+";", id)
		case 4:
			fmt.Fprintf(&b, "UPDATE a SET id = nextval('ids') WHERE id = "+some+";", id)
		case 5:
			fmt.Fprintf(&b, "DELETE FROM a WHERE id = "+some+";", id)
		case 6:
			fmt.Fprintf(&b, "SAVEPOINT s; INSERT INTO a(n) VALUES (-1); ROLLBACK TO s;")
		default:
			b.WriteString("INSERT INTO elsewhere VALUES (1);")
		}
	}
	// Last, so that nothing is waited for while it is locked.
	fmt.Fprintf(&b, "INSERT INTO hot VALUES (%d, 1) ON CONFLICT (k) DO UPDATE SET n = hot.n + 1;", rnd.IntN(4))
	b.WriteString([]string{"COMMIT", "COMMIT", "COMMIT", "COMMIT", "ROLLBACK"}[rnd.IntN(5)])
	return b.String()
}

// more waits for so many further transactions.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	want := l.done.Load() + n
	if !harness.Eventually(soon, func() bool { return l.done.Load() >= want }) {
		t.Fatalf("the load made %d transactions, not %d", l.done.Load(), want)
	}
}
