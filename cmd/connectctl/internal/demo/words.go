//go:build linux || darwin

package demo

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/tidemark-cdc/tidemark/cmd/connectctl/internal/demo/shop"
	"github.com/tidemark-cdc/tidemark/connectors/postgres/pgoutput"
)

// words says what was proven, or what was not.
func (p *play) words(r Result) []string {
	c := p.counts
	heading := "What was proven"
	if verdict(r) != nil {
		heading = "What was found: the stream is not right"
	}
	lines := []string{"", heading, ""}
	say := func(ok bool, format string, args ...any) {
		mark := "  yes  "
		if !ok {
			mark = "  NO   "
		}
		lines = append(lines, mark+fmt.Sprintf(format, args...))
	}
	say(r.Lost == 0, "Nothing was lost: of the %s changes the database committed, %s are missing in Kafka.", thousands(int64(p.logged)), thousands(r.Lost))
	say(r.Duplicated == 0, "Nothing came twice: a read_committed reader sees %s records, %s of them more than once or without a change.", thousands(r.Changes), thousands(r.Duplicated))
	say(r.OrderViolations == 0, "All in order: (__gen, __pos, __seq) rises from record to record in each partition; %s exceptions.", thousands(r.OrderViolations))
	say(p.openAtKill > 0, "The worker (pid %d) was killed with SIGKILL inside a transaction of %s rows: %s of them lay at the broker, in a transaction that was open.",
		p.killedPID, thousands(shop.BulkRows), thousands(p.openAtKill))
	say(r.hotRowRight(), "One row updated %s times in one transaction has %d position, and the greatest (__gen, __pos, __seq) picks v = %s.",
		thousands(shop.HotUpdates), r.HotPositions, thousands(r.DedupLatest))
	say(r.acknowledgedInTime(), "The database's slot (%s) is not ahead of what Kafka has committed (%s).", r.SlotConfirmed, r.Committed)
	lines = append(lines, "",
		fmt.Sprintf("%s transactions, %s changes and %s tombstones in %.1f s; %s changes a second while the worker ran, its pause included.",
			thousands(r.Transactions), thousands(r.Changes), thousands(c.Tombstones), r.Seconds, thousands(int64(r.EventsPerSecond))),
		"Judged by a second slot of the database, read at the end, and by reading all topics anew; not by the worker's own counters.")
	for _, e := range c.Examples {
		lines = append(lines, "  "+e)
	}
	return lines
}

func (r Result) hotRowRight() bool { return r.HotPositions == 1 && r.DedupLatest == shop.HotUpdates }

func (r Result) acknowledgedInTime() bool {
	slot, err1 := pgoutput.ParseLSN(r.SlotConfirmed)
	committed, err2 := pgoutput.ParseLSN(r.Committed)
	return err1 == nil && err2 == nil && slot <= committed
}

// howToConnect shows our own servers' password, which was made for this run; never another server's.
func (s *session) howToConnect() []string {
	lines := []string{"", "All of it keeps running. From another terminal:", ""}
	if s.ownPG {
		u := url.URL{Scheme: "postgresql", User: url.UserPassword(s.db.config.User, s.db.config.Password), Host: "localhost:" + strconv.Itoa(s.pg.Port), Path: "/" + s.db.config.Database}
		lines = append(lines, "  PostgreSQL  psql '"+u.String()+"'   (the tables are in schema "+s.db.shop.Schema+")")
	} else {
		lines = append(lines, "  PostgreSQL  your server, schema "+s.db.shop.Schema)
	}
	lines = append(lines,
		"  Kafka       "+strings.Join(s.topics.seeds, ",")+"   (topics "+s.topics.prefix+"."+s.db.shop.Schema+".*, offsets in "+s.topics.offsets+")",
		"  Registry    "+withoutUser(s.topics.registry),
		"  Worker      pid "+strconv.Itoa(s.current().process.PID)+", its files and log in "+s.run.Path,
		"",
		"To stop and remove it: Ctrl-C here, or kill "+strconv.Itoa(os.Getpid()))
	return lines
}

func withoutUser(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(unreadable URL)"
	}
	u.User = nil
	return u.String()
}

// thousands writes a number with separators.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
